package natsbroker

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/internal/natstest"
)

// degradations notes what Degraded is told.
type degradations struct {
	mu    sync.Mutex
	state map[string]error
	ever  map[string]bool
}

func (d *degradations) note(what string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.state == nil {
		d.state, d.ever = map[string]error{}, map[string]bool{}
	}
	d.state[what] = err
	if err != nil {
		d.ever[what] = true
	}
}

func (d *degradations) healed(what string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ever[what] && d.state[what] == nil
}

// Every message is received and acked over a kill -9 of the server in the
// middle, without a restart of ours, and letters come through.
func TestAKilledServerIsOutlived(t *testing.T) {
	p := startProcess(t)
	b := connect(t, Config{URL: p.url, Create: true, AckWait: time.Second, Options: []nats.Option{nats.ReconnectWait(50 * time.Millisecond)}})
	var state degradations
	spec := specOf("ORDERS")
	spec.Events.Degraded = state.note
	s := openSource(t, b, spec)
	js := natstest.Client(t, p.url, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	const n = 2000
	publishNumbers(t, js, "ORDERS", 0, n)
	seen := map[string]bool{}
	read := func(until int) {
		t.Helper()
		for len(seen) < until {
			ds := receive(t, s, 1)
			for _, d := range ds {
				seen[string(d.Value)] = true
			}
			if err := s.Ack(ds); err != nil {
				t.Fatal(err)
			}
		}
	}
	read(n / 2)
	p.kill()
	letter := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		letter <- b.Publish(ctx, []brokers.Outgoing{{Topic: "ORDERS_DLQ.billing", Value: []byte("x"), ID: "x"}})[0]
	}()
	p.start(t)
	began := time.Now()
	read(n)
	if took := time.Since(began); took > heartbeat {
		t.Errorf("it took %v to go on", took)
	}
	if err := <-letter; err != nil {
		t.Errorf("letter: %v", err)
	}
	publishNumbers(t, js, "ORDERS", n, n+100)
	read(n + 100)
	if !state.healed("connection") {
		t.Errorf("reported: %v", state.state)
	}
}

func TestADeletedConsumerIsReported(t *testing.T) {
	url := natstest.Serve(t).ClientURL()
	js := natstest.Client(t, url)
	b := connect(t, Config{URL: url, Create: true})
	spec := specOf("ORDERS")
	lost := make(chan error, 1)
	spec.Events.Lost = func(_ []*brokers.Lane, cause error) { lost <- cause }
	s := openSource(t, b, spec)
	publishNumbers(t, js, "ORDERS", 0, 1)
	receive(t, s, 1)
	if err := js.DeleteConsumer(t.Context(), "ORDERS", "billing"); err != nil {
		t.Fatal(err)
	}
	expectStartError(t, s, "the consumer was deleted")
	<-lost
}

// Another durable of the same name begins somewhere else.
func TestAConsumerMadeAgainIsNotTheSame(t *testing.T) {
	url := natstest.Serve(t).ClientURL()
	js := natstest.Client(t, url)
	b := connect(t, Config{URL: url, Create: true})
	s := openSource(t, b, specOf("ORDERS"))
	publishNumbers(t, js, "ORDERS", 0, 1)
	receive(t, s, 1)
	info, err := s.lanes[0].consumer.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteConsumer(t.Context(), "ORDERS", "billing"); err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateConsumer(t.Context(), "ORDERS", info.Config); err != nil {
		t.Fatal(err)
	}
	expectStartError(t, s, "made again")
}

func expectStartError(t *testing.T, s brokers.Source, wrong string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var fault *brokers.StartError
	for {
		ds, err := s.Receive(ctx, brokers.Limit{Messages: 10, Bytes: 1 << 20})
		if err == nil {
			t.Logf("%d more", len(ds))
			continue
		}
		if !errors.As(err, &fault) || !strings.Contains(fault.Wrong, wrong) {
			t.Fatalf("receive: %v", err)
		}
		return
	}
}

// What was acked while the server was away reaches it afterwards.
func TestAcksWhileDisconnectedArriveLater(t *testing.T) {
	url := natstest.Serve(t).ClientURL()
	js := natstest.Client(t, url)
	g := newGate()
	b := connect(t, Config{URL: url, Create: true, AckWait: 5 * time.Second,
		Options: []nats.Option{nats.SetCustomDialer(g), nats.ReconnectWait(200 * time.Millisecond), nats.ReconnectJitter(0, 0)}})
	s := openSource(t, b, specOf("ORDERS"))
	publishNumbers(t, js, "ORDERS", 0, 10)
	ds := receive(t, s, 10)
	g.mu.Lock()
	g.cut()
	g.mu.Unlock()
	for b.nc.IsConnected() {
		time.Sleep(time.Millisecond)
	}
	if err := s.Ack(ds); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		info, err := s.lanes[0].consumer.Info(t.Context())
		if err == nil && info.AckFloor.Stream == 10 && info.NumAckPending == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v, %v", info, err)
		}
	}
	// And reading goes on at once: requests were sent again.
	began := time.Now()
	publishNumbers(t, js, "ORDERS", 10, 11)
	receive(t, s, 1)
	if took := time.Since(began); took > heartbeat {
		t.Errorf("it took %v to go on", took)
	}
}

// What a process held is for the next at once, also what it had only fetched.
func TestCloseGivesBackWithoutWaitingForAckWait(t *testing.T) {
	url := natstest.Serve(t).ClientURL()
	js := natstest.Client(t, url)
	b := connect(t, Config{URL: url, Create: true, AckWait: time.Minute})
	s := openSource(t, b, specOf("ORDERS"))
	publishNumbers(t, js, "ORDERS", 0, 100)
	if err := s.Ack(receive(t, s, 10)); err != nil {
		t.Fatal(err)
	}
	receive(t, s, 10)
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	next := openSource(t, b, specOf("ORDERS"))
	for _, d := range receive(t, next, 90) {
		if d.Offset < 11 {
			t.Errorf("offset %d was acked", d.Offset)
		}
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}

// A buffer full of messages that wait behind slow handlers is kept alive.
func TestSlowHandlersWithAFullBufferSeeEachMessageOnce(t *testing.T) {
	url := natstest.Serve(t).ClientURL()
	js := natstest.Client(t, url)
	const wait = time.Second
	b := connect(t, Config{URL: url, Create: true, AckWait: wait, Prefetch: 100})
	s := openSource(t, b, specOf("ORDERS"))
	publishNumbers(t, js, "ORDERS", 0, 90)
	for n := 0; n < 90; n += 45 {
		ds := receive(t, s, 45)
		for end := time.Now().Add(3 * wait); time.Now().Before(end); time.Sleep(wait / 10) {
		}
		if err := s.Ack(ds); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := s.lanes[0].consumer.Info(t.Context()); err != nil || info.NumRedelivered != 0 {
		t.Errorf("redelivered: %d, %v", info.NumRedelivered, err)
	}
}

func TestMemoryIsBoundedByBytes(t *testing.T) {
	url := natstest.Serve(t).ClientURL()
	js := natstest.Client(t, url)
	b := connect(t, Config{URL: url, Create: true})
	spec := specOf("ORDERS")
	spec.Unfinished.Bytes = 4 << 20
	s := openSource(t, b, spec)
	const n = 60
	for range n {
		if _, err := js.Publish(t.Context(), "ORDERS.x", make([]byte, 900<<10)); err != nil {
			t.Fatal(err)
		}
	}
	l := s.lanes[0]
	for left := n; left > 0; {
		l.mu.Lock()
		if l.queuedBytes > 10<<20 {
			t.Errorf("%d bytes wait", l.queuedBytes)
		}
		l.mu.Unlock()
		ds := receive(t, s, 1)
		if err := s.Ack(ds); err != nil {
			t.Fatal(err)
		}
		left -= len(ds)
	}
}

func TestAMessageLargerThanARequestStillComes(t *testing.T) {
	url := natstest.Serve(t).ClientURL()
	js := natstest.Client(t, url)
	b := connect(t, Config{URL: url, Create: true})
	s := openSource(t, b, specOf("ORDERS"))
	l := s.lanes[0]
	l.mu.Lock()
	l.maxBytes = 1000 // as if the server's max_payload had been lowered
	l.mu.Unlock()
	if err := l.renew(); err != nil {
		t.Fatal(err)
	}
	l.refill()
	for i := range 5 {
		if _, err := js.Publish(t.Context(), "ORDERS.x", make([]byte, 100<<10)); err != nil {
			t.Fatal(i, err)
		}
	}
	receive(t, s, 5)
}

// A server that takes connections and says nothing: nats.go waits for it with
// its lock held, and Receive must end with its context all the same.
func TestReceiveEndsInTimeWhileTheServerIsSilent(t *testing.T) {
	url := natstest.Serve(t).ClientURL()
	js := natstest.Client(t, url)
	g := newGate()
	b := connect(t, Config{URL: url, Create: true, AckWait: 200 * time.Millisecond, Options: []nats.Option{
		nats.SetCustomDialer(g), nats.ReconnectWait(20 * time.Millisecond), nats.ReconnectJitter(0, 0), nats.Timeout(3 * time.Second),
	}})
	gone := make(chan struct{}, 10)
	spec := specOf("ORDERS")
	spec.Events.Degraded = func(_ string, err error) {
		if err != nil {
			gone <- struct{}{}
		}
	}
	s := openSource(t, b, spec)
	publishNumbers(t, js, "ORDERS", 0, 10)
	receive(t, s, 5)
	g.shut()
	g.mu.Lock()
	g.cut()
	g.mu.Unlock()
	<-gone
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		began := time.Now()
		for ctx.Err() == nil {
			if _, err := s.Receive(ctx, brokers.Limit{Messages: 1, Bytes: 1}); err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("it took %v", took)
		}
		cancel()
	}
	g.open()
	publishNumbers(t, js, "ORDERS", 10, 11)
	for {
		if d := receive(t, s, 1)[0]; string(d.Value) == "10" {
			return
		}
	}
}
