package deadletter_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/memstore"
)

// order is a message of the tests.
type order struct {
	ID    string `json:"order_id"`
	Cents int    `json:"cents,omitempty"`
}

// desk is a consumer, its broker and its store, and the queue of its letters.
type desk struct {
	ground
	t      *testing.T
	broker browsing
	store  dedup.Store
	q      *deadletter.Queue
	window time.Duration // of the consumer; 0: its default

	mu      sync.Mutex
	effects map[string]int // by order
	runs    map[string]int
	do      func(order) error // nil: succeed
	broken  bool              // the decoder cannot read version 2
}

// atDesk runs a test in a bubble, with a desk of its own.
func atDesk(t *testing.T, test func(*testing.T, *desk)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newDesk(t)) })
}

// atEveryDesk runs a test as atDesk does, on each broker.
func atEveryDesk(t *testing.T, test func(*testing.T, *desk)) {
	t.Helper()
	for name, on := range insides {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) { test(t, deskOn(t, on(t, dir))) })
		})
	}
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	return deskOn(t, memGround(t))
}

func deskOn(t *testing.T, g ground) *desk {
	t.Helper()
	d := &desk{ground: g, t: t, store: memstore.New(), effects: map[string]int{}, runs: map[string]int{}, broken: true}
	d.open()
	t.Cleanup(d.close)
	d.q = &deadletter.Queue{Topic: d.destinations().DeadLetter, Consumer: "billing", Broker: d.broker, Store: d.store}
	return d
}

func (d *desk) open() {
	d.t.Helper()
	var err error
	if d.broker, err = d.connect(); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) close() {
	if err := d.broker.Close(); err != nil {
		d.t.Error(err)
	}
}

func (d *desk) destinations() brokers.Destinations { return d.broker.Destinations("billing", d.topic) }

// wait lets time pass: without connections, which would have to be kept alive
// all the time.
func (d *desk) wait(long time.Duration) {
	d.t.Helper()
	d.close()
	d.rest(long)
	d.open()
	d.q.Broker = d.broker
}

const day = 24 * time.Hour

// remember is the window of consumer and queue.
func (d *desk) remember(window time.Duration) { d.window, d.q.Window = window, window }

func (d *desk) produce(payloads ...string) {
	d.t.Helper()
	messages := make([]brokers.Outgoing, len(payloads))
	for i, p := range payloads {
		var o order
		_ = json.Unmarshal([]byte(p), &o) // what is no order has no key
		messages[i] = brokers.Outgoing{Value: []byte(p), Headers: []brokers.Header{{Key: "traceparent", Value: []byte("00-1-2-01")}, {Key: "Nats-Msg-Id", Value: []byte("old")}}}
		if o.ID != "" {
			messages[i].Key = []byte(o.ID)
		}
	}
	d.publishTo(d.publish, messages...)
}

func (d *desk) publishTo(topic string, messages ...brokers.Outgoing) {
	d.t.Helper()
	for i := range messages {
		messages[i].Topic = topic
	}
	if err := errors.Join(d.broker.Publish(d.t.Context(), messages)...); err != nil {
		d.t.Fatal(err)
	}
}

// messages are what a topic holds.
func (d *desk) messages(topic string) (all []*brokers.Delivery) {
	d.t.Helper()
	for m, err := range d.broker.Browse(d.t.Context(), topic, brokers.From{}) {
		if err != nil {
			d.t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

// handle books an order, as do allows.
func (d *desk) handle(_ context.Context, m *consumer.Delivery) (consumer.Result, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.runs[m.Key.ID]++
	if d.do != nil {
		if err := d.do(*m.Decoded.(*order)); err != nil {
			return nil, err
		}
	}
	d.effects[m.Key.ID]++
	return nil, nil
}

func (d *desk) decode(value []byte) (any, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.broken && bytes.HasPrefix(value, []byte("v2 ")) {
		return nil, errors.New("version 2 is not known")
	}
	o := new(order)
	return o, json.Unmarshal(bytes.TrimPrefix(value, []byte("v2 ")), o)
}

// mend lets handler and decoder succeed from now on, or says how they fail.
func (d *desk) mend(do func(order) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.do, d.broken = do, false
}

// handleBy says what the handler does, and leaves the decoder as it is.
func (d *desk) handleBy(do func(order) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.do = do
}

// consume runs the consumer until stop is called.
func (d *desk) consume() (stop func()) {
	d.t.Helper()
	_, stop = d.consumer()
	return stop
}

func (d *desk) consumer() (c *consumer.Consumer, stop func()) {
	d.t.Helper()
	c, err := consumer.New(consumer.Config{
		Name: "billing", Broker: d.broker, Topics: []string{d.topic}, StartFrom: consumer.Earliest, Store: d.store,
		Logger: slog.New(slog.DiscardHandler),
	}, consumer.Route{
		Scope:  "order.create",
		Decode: func(m *consumer.Delivery) (any, error) { return d.decode(m.Value) },
		ID: consumer.Extract{Rule: "order_id", From: func(m *consumer.Delivery) (string, error) {
			return m.Decoded.(*order).ID, nil
		}},
		Retry:  consumer.Retry{MaxFailures: 3},
		Window: d.window,
		Run:    d.handle,
	})
	if err != nil {
		d.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	return c, func() {
		cancel()
		if err := <-ended; err != nil {
			d.t.Error(err)
		}
	}
}

// digest produces messages and lets the consumer work on what there is.
func (d *desk) digest(payloads ...string) {
	d.produce(payloads...)
	stop := d.consume()
	time.Sleep(20 * time.Second) // of fake time, more than three failures take
	stop()
}

// orders are messages of the orders o-0, o-1 and so on.
func orders(n int) []string {
	payloads := orderIDs(n)
	for i, id := range payloads {
		payloads[i] = `{"order_id":"` + id + `"}`
	}
	return payloads
}

func orderIDs(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("o-%d", i)
	}
	return ids
}

// refused expects that a plan refuses the only letter, whose order has been
// booked, and that applying it changes nothing.
func (d *desk) refused(id string) {
	d.t.Helper()
	f := d.plan(deadletter.Selection{})
	want(d.t, "planned", f.Counts, map[deadletter.Action]int{deadletter.Refuse: 1})
	d.apply(f, deadletter.ApplyConfig{})
	d.digest()
	d.once(id)
}

// plan makes a plan of what sel means, and reads it.
func (d *desk) plan(sel deadletter.Selection) *deadletter.PlanFile {
	d.t.Helper()
	return d.readPlan(d.planText(sel))
}

func (d *desk) planText(sel deadletter.Selection) []byte {
	d.t.Helper()
	var text bytes.Buffer
	if _, err := d.q.Plan(d.t.Context(), sel, &text); err != nil {
		d.t.Fatal(err)
	}
	return text.Bytes()
}

func (d *desk) readPlan(text []byte) *deadletter.PlanFile {
	d.t.Helper()
	f, err := deadletter.ReadPlan(bytes.NewReader(text))
	if err != nil {
		d.t.Fatal(err)
	}
	return f
}

func (d *desk) apply(f *deadletter.PlanFile, c deadletter.ApplyConfig) map[deadletter.Did]int {
	d.t.Helper()
	r, err := d.q.Apply(d.t.Context(), f, c)
	if err != nil {
		d.t.Fatal(err)
	}
	if r.Letters != f.Letters {
		d.t.Errorf("%d letters were looked at, the plan has %d", r.Letters, f.Letters)
	}
	return r.Counts
}

func (d *desk) outcomes(f *deadletter.PlanFile) map[deadletter.Outcome]int {
	d.t.Helper()
	counts := map[deadletter.Outcome]int{}
	for e, err := range d.q.Outcome(d.t.Context(), f) {
		if err != nil {
			d.t.Fatal(err)
		}
		counts[e.Outcome]++
	}
	return counts
}

// letters are those of the queue that f means.
func (d *desk) letters(f deadletter.Filter) []deadletter.Entry {
	d.t.Helper()
	var all []deadletter.Entry
	for e, err := range d.q.Letters(d.t.Context(), f) {
		if err != nil {
			d.t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// want compares counts.
func want[K comparable](t *testing.T, what string, got, want map[K]int) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// once says that each of these orders was booked, and once.
func (d *desk) once(ids ...string) {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range ids {
		if d.effects[id] != 1 {
			d.t.Errorf("order %s was booked %d times", id, d.effects[id])
		}
	}
}

func terminal(order) error { return consumer.Terminal(errors.New("no such customer")) }
