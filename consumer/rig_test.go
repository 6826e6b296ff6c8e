package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/membroker"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/memstore"
)

// order is what the tests' messages carry.
type order struct {
	No    string `json:"no"`
	Cents int    `json:"cents"`
}

func (o order) ID() string { return o.No }

// rig is one consumer with its broker and store inside of a synctest bubble.
type rig struct {
	t      *testing.T
	broker *membroker.Broker
	store  *faultyStore
	cfg    consumer.Config
	c      *consumer.Consumer
	stop   context.CancelFunc
	ended  chan error

	mu        sync.Mutex
	decisions []consumer.Decision
}

const topic = "orders"

func newRig(t *testing.T, partitions int) *rig {
	r := &rig{t: t, broker: membroker.New(membroker.Config{Topics: map[string]int{topic: partitions}})}
	r.store = &faultyStore{Store: memstore.New()}
	r.cfg = consumer.Config{
		Name: "billing", Broker: r.broker, Topics: []string{topic}, StartFrom: consumer.Earliest, Store: r.store,
		Logger: slog.New(slog.DiscardHandler),
		Observer: func(ds []consumer.Decision) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.decisions = append(r.decisions, ds...)
		},
	}
	return r
}

// run starts the consumer; it is stopped at the end of the test.
func (r *rig) run(routes ...consumer.Route) {
	r.t.Helper()
	c, err := consumer.New(r.cfg, routes...)
	if err != nil {
		r.t.Fatal(err)
	}
	r.c = c
	ctx, stop := context.WithCancel(context.Background())
	r.stop, r.ended = stop, make(chan error, 1)
	go func() { r.ended <- c.Run(ctx) }()
}

// end stops the consumer and waits for it.
func (r *rig) end() error {
	r.stop()
	return <-r.ended
}

func (r *rig) send(values ...string) {
	for _, v := range values {
		r.broker.Produce(topic, brokers.Outgoing{Value: []byte(v)})
	}
}

// verdicts counts what was decided.
func (r *rig) verdicts() map[consumer.Verdict]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := map[consumer.Verdict]int{}
	for _, d := range r.decisions {
		n[d.Verdict]++
	}
	return n
}

// reasons are the dl-reason of all letters, sorted.
func (r *rig) reasons() []string {
	var reasons []string
	for _, l := range r.broker.Letters("billing", topic) {
		reasons = append(reasons, header(l, "dl-reason"))
	}
	slices.Sort(reasons)
	return reasons
}

func header(m membroker.Message, name string) string {
	for _, h := range m.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

func (r *rig) wantReasons(want ...string) {
	r.t.Helper()
	if got := r.reasons(); !slices.Equal(got, want) {
		r.t.Errorf("letters are %q, want %q", got, want)
	}
}

// wantUnsettled compares how many messages of the topic are not acknowledged.
func (r *rig) wantUnsettled(want int) {
	r.t.Helper()
	if got := len(r.broker.Unsettled("billing", topic)); got != want {
		r.t.Errorf("%d messages are unsettled, want %d", got, want)
	}
}

// counter counts runs by id.
type counter struct {
	mu   sync.Mutex
	runs map[string]int
}

func (c *counter) add(id string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runs == nil {
		c.runs = map[string]int{}
	}
	c.runs[id]++
	return c.runs[id]
}

func (c *counter) of(id string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.runs[id]
}

func (c *counter) total() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.runs {
		n += k
	}
	return n
}

// route counts its runs, and succeeds.
func (c *counter) route() consumer.Route {
	return consumer.JSON("order.create", order.ID, func(_ context.Context, o order) error {
		c.add(o.No)
		return nil
	})
}

// faultyStore fails on demand.
type faultyStore struct {
	dedup.Store
	mu   sync.Mutex
	fail error
	// loses makes the failure come after the operations took effect.
	loses bool
}

func (s *faultyStore) set(err error, loses bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail, s.loses = err, loses
}

func (s *faultyStore) Apply(ctx context.Context, ops []dedup.Op) ([]dedup.Answer, error) {
	s.mu.Lock()
	fail, loses := s.fail, s.loses
	s.mu.Unlock()
	if fail != nil && !loses {
		return nil, fail
	}
	answers, err := s.Store.Apply(ctx, ops)
	if fail != nil {
		return nil, fail
	}
	return answers, err
}

func (s *faultyStore) CanEnlist(work any) bool { return s.Store.(dedup.Enlister).CanEnlist(work) }

var errDiskFull = errors.New("no space left on device")

func orderJSON(no string, cents int) string { return fmt.Sprintf(`{"no":%q,"cents":%d}`, no, cents) }

// bubble runs a test in fake time.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// settle lets everything that can happen without time passing happen.
func settle() { synctest.Wait() }

// pass lets time pass.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
