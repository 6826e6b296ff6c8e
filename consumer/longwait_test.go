package consumer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceward/onceward/brokers/natsbroker"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup/boltstore"
	"github.com/onceward/onceward/internal/natstest"
)

// waitingRun is one life of the consumer of a bubble, with a connection and an
// opened file of its own.
type waitingRun struct {
	t     *testing.T
	js    jetstream.JetStream
	nc    *nats.Conn
	c     *consumer.Consumer
	stop  context.CancelFunc
	ended chan error
}

func runWaiting(t *testing.T, srv *natstest.Piped, file string, route consumer.Route) *waitingRun {
	t.Helper()
	b, err := natsbroker.Connect(t.Context(), natsbroker.Config{
		URL: "nats://inside:4222", Create: true, Prefetch: 100, Options: []nats.Option{nats.InProcessServer(srv)},
	})
	if err != nil {
		t.Fatal(err)
	}
	store, err := boltstore.Open(file, boltstore.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	c, err := consumer.New(consumer.Config{
		Name: durable, Broker: b, Topics: []string{stream}, StartFrom: consumer.Earliest, Store: store, Logger: slog.New(slog.DiscardHandler),
	}, route)
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(b.Conn())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &waitingRun{t: t, js: js, nc: b.Conn(), c: c, stop: stop, ended: make(chan error, 1)}
	go func() { r.ended <- errors.Join(c.Run(ctx), b.Close(), store.Close()) }()
	return r
}

func (r *waitingRun) end() {
	r.t.Helper()
	r.stop()
	if err := <-r.ended; err != nil {
		r.t.Error(err)
	}
}

func (r *waitingRun) send(no, do string) {
	r.t.Helper()
	value, _ := json.Marshal(job{No: no, Do: do})
	if _, err := r.js.Publish(r.t.Context(), stream+".new", value); err != nil {
		r.t.Fatal(err)
	}
}

// pending is what a durable has not delivered or not heard an ack of.
func (r *waitingRun) pending(stream string) int {
	r.t.Helper()
	c, err := r.js.Consumer(r.t.Context(), stream, durable)
	if err != nil {
		r.t.Fatal(err)
	}
	return int(c.CachedInfo().NumPending) + c.CachedInfo().NumAckPending
}

// 1,100 messages are told to come again in two hours, more than may be
// unfinished in the process. Fresh ones go on beside them, and all of them run
// when they are due, and no sooner, although the consumer is started again in
// between; at full size also with the server, which forgets then until when it
// was told to wait.
func TestSoakElevenHundredMessagesWaitTwoHoursBesideFreshOnes(t *testing.T) {
	restarts := []bool{false, true}
	if !soaks() {
		restarts = restarts[:1]
	}
	for _, also := range restarts {
		t.Run(fmt.Sprintf("server is started again too %v", also), func(t *testing.T) {
			dir, file := t.TempDir(), filepath.Join(t.TempDir(), "billing.db")
			bubble(t, func(t *testing.T) { waitTwoHours(t, natstest.Inside(t, dir), file, also) })
		})
	}
}

func waitTwoHours(t *testing.T, srv *natstest.Piped, file string, serverToo bool) {
	const waiting, wait = 1100, 2 * time.Hour
	var mu sync.Mutex
	ran := map[string][]time.Time{}
	count := func() (n int) {
		mu.Lock()
		defer mu.Unlock()
		for _, at := range ran {
			n += len(at)
		}
		return n
	}
	route := consumer.JSON("order.create", job.ID, func(ctx context.Context, j job) error {
		mu.Lock()
		ran[j.No] = append(ran[j.No], time.Now())
		mu.Unlock()
		if j.Do == "wait" && consumer.Info(ctx).Failures == 0 {
			return consumer.RetryAfter(errors.New("not yet"), wait)
		}
		return nil
	})
	r := runWaiting(t, srv, file, route)
	time.Sleep(time.Second)
	began := time.Now()
	for i := range waiting {
		r.send(fmt.Sprint("w-", i), "wait")
		r.send(fmt.Sprint("n-", i), "")
	}
	time.Sleep(time.Minute)
	if n := count(); n != 2*waiting {
		t.Errorf("%d runs after a minute, want each message once", n)
	}
	fresh := func(no string) {
		t.Helper()
		r.send(no, "")
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		if len(ran[no]) != 1 {
			t.Errorf("a fresh message ran %d times within a second", len(ran[no]))
		}
	}
	left := func(want int) {
		t.Helper()
		if source, copies := r.pending(stream), r.pending(stream+"_RETRY"); source != 0 || copies != want {
			t.Errorf("%d messages and %d copies are held, want 0 and %d", source, copies, want)
		}
		if s := r.c.Status(); s.Unfinished > 0 || len(s.Degraded) > 0 {
			t.Errorf("status %+v", s)
		}
	}
	left(waiting)
	fresh("before")
	time.Sleep(time.Until(began.Add(wait / 2)))
	r.end()
	if serverToo {
		srv.Stop()
		srv.Start()
	}
	r = runWaiting(t, srv, file, route)
	time.Sleep(time.Minute)
	fresh("after")
	left(waiting)
	before := count()
	time.Sleep(time.Until(began.Add(wait)))
	if n := count(); n != before {
		t.Errorf("%d ran early", n-before)
	}
	time.Sleep(5 * time.Minute)
	fresh("at last")
	left(0)
	var late time.Duration
	for i := range waiting {
		at := ran[fmt.Sprint("w-", i)]
		if len(at) != 2 {
			t.Fatalf("w-%d ran %d times, want 2", i, len(at))
		}
		late = max(late, at[1].Sub(at[0])-wait)
	}
	if late > time.Minute {
		t.Errorf("the last one ran %v after it was due", late)
	}
	if letters, err := r.js.Stream(t.Context(), stream+"_DLQ"); err != nil || letters.CachedInfo().State.Msgs > 0 {
		t.Errorf("letters: %v %v", letters.CachedInfo().State.Msgs, err)
	}
	r.end()
}
