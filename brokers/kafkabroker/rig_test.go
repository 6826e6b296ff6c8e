package kafkabroker_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/kafkabroker"
)

// fake is an in-process cluster with a topic of 4 partitions, "orders".
func fake(t testing.TB, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	opts = append([]kfake.Opt{kfake.NumBrokers(3), kfake.SeedTopics(4, "orders"), kfake.GroupMinSessionTimeout(time.Second)}, opts...)
	c, err := kfake.NewCluster(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// quick is a configuration for tests: short intervals, destinations made.
func quick(addrs ...string) kafkabroker.Config {
	return kafkabroker.Config{
		Brokers: addrs, Create: true, SessionTimeout: 2 * time.Second, RebalanceTimeout: 2 * time.Second,
		Heartbeat: 50 * time.Millisecond, CommitInterval: 50 * time.Millisecond, WatchInterval: 100 * time.Millisecond,
	}
}

func connect(t testing.TB, cfg kafkabroker.Config) brokers.Broker {
	t.Helper()
	b, err := kafkabroker.Connect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// reader is a source with a record of its events.
type reader struct {
	t testing.TB
	brokers.Source

	mu       sync.Mutex
	assigned map[*brokers.Lane]bool
	revoked  int
	lost     int
	trouble  map[string]error
	told     []string // everything that was ever degraded
}

func spec() brokers.Spec {
	return brokers.Spec{
		Consumer: "billing", Topics: []string{"orders"}, StartFrom: brokers.Start{Kind: brokers.StartEarliest},
		Unfinished: brokers.Limit{Messages: 1000, Bytes: 64 << 20}, LongestWait: time.Hour, Drain: 5 * time.Second,
	}
}

func open(t testing.TB, b brokers.Broker, sp brokers.Spec) *reader {
	t.Helper()
	r := &reader{t: t, assigned: map[*brokers.Lane]bool{}, trouble: map[string]error{}}
	next := sp.Events
	sp.Events = brokers.Events{
		Assigned: func(ls []*brokers.Lane) error {
			r.mu.Lock()
			for _, l := range ls {
				r.assigned[l] = true
			}
			r.mu.Unlock()
			if next.Assigned != nil {
				return next.Assigned(ls)
			}
			return nil
		},
		Revoked: func(ctx context.Context, ls []*brokers.Lane) {
			if next.Revoked != nil {
				next.Revoked(ctx, ls)
			}
			r.drop(ls, &r.revoked)
		},
		Lost: func(ls []*brokers.Lane, cause error) {
			r.drop(ls, &r.lost)
			if next.Lost != nil {
				next.Lost(ls, cause)
			}
		},
		Degraded: func(what string, err error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			if err == nil {
				delete(r.trouble, what)
			} else {
				r.trouble[what] = err
				r.told = append(r.told, what+": "+err.Error())
			}
		},
	}
	var err error
	if r.Source, err = b.Open(t.Context(), sp); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.close() })
	return r
}

func (r *reader) drop(ls []*brokers.Lane, n *int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*n += len(ls)
	for _, l := range ls {
		delete(r.assigned, l)
	}
}

func (r *reader) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := r.Close(ctx); err != nil {
		r.t.Errorf("close: %v", err)
	}
}

// owns counts the lanes of topics, not of retry topics.
func (r *reader) owns() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for l := range r.assigned {
		if !l.Retry {
			n++
		}
	}
	return n
}

func (r *reader) troubles(what string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.trouble[what]
}

// take receives until it has n deliveries; it fails when that takes too long.
func (r *reader) take(n int) []*brokers.Delivery {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var got []*brokers.Delivery
	for len(got) < n {
		ds, err := r.Receive(ctx, brokers.Limit{Messages: n - len(got), Bytes: 1 << 30})
		if err != nil {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.t.Fatalf("after %d of %d: %v; trouble: %v; told: %v", len(got), n, err, r.trouble, r.told)
		}
		got = append(got, ds...)
	}
	return got
}

// none fails when anything is delivered within d.
func (r *reader) none(d time.Duration) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	if ds, err := r.Receive(ctx, brokers.Limit{Messages: 10, Bytes: 1 << 30}); err == nil {
		r.t.Fatalf("delivered %s/%d offset %d", ds[0].Lane.Topic, ds[0].Lane.Partition, ds[0].Offset)
	}
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(90 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatal("never: " + what)
}

// publish stores n messages, "0" to "n-1", with those keys.
func publish(t testing.TB, b brokers.Broker, topic string, n int) {
	t.Helper()
	ms := make([]brokers.Outgoing, n)
	for i := range ms {
		ms[i] = brokers.Outgoing{Topic: topic, Key: fmt.Append(nil, i), Value: fmt.Append(nil, i)}
	}
	for i, err := range b.Publish(t.Context(), ms) {
		if err != nil {
			t.Fatalf("publish %d: %v", i, err)
		}
	}
}
