package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/boltstore"
)

func (r *rig) pause(scope string) {
	r.t.Helper()
	changed, err := dedup.SetPause(r.t.Context(), r.store, dedup.Pause{Consumer: "billing", Scope: scope, Who: "ann", Why: "release"})
	if err != nil || !changed {
		r.t.Fatal("not paused", err)
	}
}

func (r *rig) resume(scope string) {
	r.t.Helper()
	changed, err := dedup.LiftPause(r.t.Context(), r.store, dedup.Pause{Consumer: "billing", Scope: scope, Who: "ann", Why: "released"})
	if err != nil || !changed {
		r.t.Fatal("not resumed", err)
	}
}

func TestAPausedConsumerReceivesAndStartsNothingAndKeepsWhatItHas(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.cfg.Workers = 1
		var runs counter
		finish := make(chan struct{})
		r.run(consumer.JSON("order.create", order.ID, func(_ context.Context, o order) error {
			runs.add(o.No)
			if o.No == "running" {
				<-finish
			}
			return nil
		}))
		settle()
		r.send(orderJSON("running", 1), orderJSON("claimed", 1)) // the second waits for the worker
		pass(time.Second)
		r.pause("")
		pass(2 * time.Second)
		r.send(orderJSON("later", 1))
		pass(2 * time.Minute) // its lease is kept
		s := r.c.Status()
		if len(s.Paused) != 1 || s.Paused[0].Scope != "" || s.Paused[0].Who != "ann" || s.Paused[0].Why != "release" || len(s.Degraded) != 0 || s.Unfinished != 2 {
			t.Errorf("status %+v", s)
		}
		close(finish)
		pass(time.Hour)
		if runs.of("running") != 1 || runs.total() != 1 {
			t.Errorf("runs %v", runs.runs)
		}
		r.wantUnsettled(2)
		if s := r.c.Status(); !s.Live || s.Unfinished != 1 {
			t.Errorf("status %+v", s)
		}
		r.resume("")
		pass(2 * time.Second)
		if runs.of("claimed") != 1 || runs.of("later") != 1 || runs.total() != 3 {
			t.Errorf("runs %v", runs.runs)
		}
		records, err := r.store.Lookup(t.Context(), []dedup.Key{{Consumer: "billing", Scope: "order.create", ID: "claimed"}})
		if err != nil || records[0].Failures != 0 || records[0].Crashes != 0 {
			t.Errorf("what was claimed counts %+v %v", records[0], err)
		}
		if s := r.c.Status(); len(s.Paused) != 0 {
			t.Errorf("status %+v", s)
		}
		r.wantUnsettled(0)
		if err := r.end(); err != nil {
			t.Error(err)
		}
	})
}

func TestAPauseOutlivesTheProcess(t *testing.T) {
	for _, kind := range []string{"memory", "file"} {
		file := filepath.Join(t.TempDir(), "billing.db")
		bubble(t, func(t *testing.T) {
			r := newRig(t, 1)
			open := func() {
				if kind == "memory" {
					return
				}
				store, err := boltstore.Open(file, boltstore.Options{Logger: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				r.store.Store = store
			}
			closed := func() {
				if kind == "file" {
					if err := r.store.Close(); err != nil {
						t.Fatal(err)
					}
				}
			}
			open()
			r.pause("")
			r.send(orderJSON("o-1", 1))
			var runs counter
			for range 2 {
				r.run(runs.route())
				pass(time.Minute)
				if s := r.c.Status(); runs.total() != 0 || s.Unfinished != 0 || len(s.Paused) != 1 {
					t.Errorf("%s: %d runs, status %+v", kind, runs.total(), s)
				}
				if err := r.end(); err != nil {
					t.Error(err)
				}
				closed()
				open()
			}
			r.run(runs.route())
			pass(time.Second)
			r.resume("")
			pass(2 * time.Second)
			if runs.total() != 1 {
				t.Errorf("%s: %d runs", kind, runs.total())
			}
			r.wantUnsettled(0)
			r.end()
			closed()
		})
	}
}

// The store does not say what is paused when the process starts.
func TestNothingIsReceivedBeforeItIsKnownWhatIsPaused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.pause("")
		store := &blind{Store: r.store}
		store.set(errDiskFull)
		r.cfg.Store = store
		var runs counter
		r.send(orderJSON("o-1", 1))
		r.run(runs.route())
		pass(time.Minute)
		if s := r.c.Status(); runs.total() != 0 || s.Unfinished != 0 || s.Degraded["pauses"] == "" {
			t.Errorf("%d runs, status %+v", runs.total(), s)
		}
		store.set(nil)
		pass(time.Minute)
		if s := r.c.Status(); runs.total() != 0 || s.Unfinished != 0 || len(s.Paused) != 1 || len(s.Degraded) != 0 {
			t.Errorf("%d runs, status %+v", runs.total(), s)
		}
		// Once it is known, it holds while the store does not say.
		store.set(errDiskFull)
		r.resume("")
		pass(time.Minute)
		if runs.total() != 0 {
			t.Error("resumed although nobody said so")
		}
		store.set(nil)
		pass(2 * time.Second)
		if runs.total() != 1 {
			t.Errorf("%d runs", runs.total())
		}
		r.end()
	})
}

// blind looks nothing up while it is told to fail.
type blind struct {
	dedup.Store
	mu  sync.Mutex
	err error
}

func (b *blind) set(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
}

func (b *blind) Lookup(ctx context.Context, keys []dedup.Key) ([]dedup.Record, error) {
	b.mu.Lock()
	err := b.err
	b.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return b.Store.Lookup(ctx, keys)
}

// journal is what ran, in order.
type journal struct {
	mu  sync.Mutex
	ids []string
}

func (j *journal) add(id string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ids = append(j.ids, id)
}

func (j *journal) all() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.ids)
}

// twoScopes handles orders and refunds, which share the ordering key of their
// customer, and notes in which order.
func twoScopes(ran *journal, orders consumer.Handler) []consumer.Route {
	is := func(key string) consumer.Match {
		return consumer.Match{Rule: key, Is: func(d *consumer.Delivery) bool { return d.Header("kind") == key }}
	}
	note := func(_ context.Context, d *consumer.Delivery) (consumer.Result, error) {
		ran.add(d.Key.ID)
		return nil, nil
	}
	if orders == nil {
		orders = note
	}
	return []consumer.Route{
		{Scope: "order", Match: is("order"), ID: consumer.Field("no"), Run: orders},
		{Scope: "refund", Match: is("refund"), ID: consumer.Field("no"), Run: note},
	}
}

func (r *rig) sendKind(kind, no, customer string) {
	r.broker.Produce(topic, brokers.Outgoing{
		Key: []byte(customer), Value: []byte(orderJSON(no, 1)), Headers: []brokers.Header{{Key: "kind", Value: []byte(kind)}},
	})
}

func TestAPausedScopeIsHeldInOrderWhileOthersGoOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.cfg.Workers = 1
		var ran journal
		r.run(twoScopes(&ran, nil)...)
		r.pause("order")
		pass(2 * time.Second)
		r.sendKind("order", "o-1", "ann")
		r.sendKind("refund", "r-1", "ann") // must not overtake
		r.sendKind("refund", "r-2", "bob")
		r.sendKind("order", "o-2", "bob")
		pass(time.Hour)
		if !slices.Equal(ran.all(), []string{"r-2"}) {
			t.Errorf("while orders are paused ran %q", ran.all())
		}
		if s := r.c.Status(); len(s.Paused) != 1 || s.Paused[0].Scope != "order" || len(s.Degraded) != 0 || !s.Live {
			t.Errorf("status %+v", s)
		}
		// A partition that moves takes along what is held.
		r.broker.Revoke("billing", topic)
		pass(time.Minute)
		if s := r.c.Status(); s.Unfinished != 3 || len(ran.all()) != 1 {
			t.Errorf("after the move ran %q, status %+v", ran.all(), s)
		}
		r.resume("order")
		pass(2 * time.Second)
		if len(ran.all()) != 4 || slices.Index(ran.all(), "o-1") > slices.Index(ran.all(), "r-1") {
			t.Errorf("ran %q", ran.all())
		}
		r.wantUnsettled(0)
		if err := r.end(); err != nil {
			t.Error(err)
		}
	})
}

func TestAPausedScopeFillsTheBoundAndThenNothingIsReceived(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.cfg.Unfinished = consumer.Limit{Messages: 20}
		var ran journal
		r.run(twoScopes(&ran, nil)...)
		r.pause("order")
		pass(2 * time.Second)
		for i := range 20 {
			r.sendKind("order", fmt.Sprint("o-", i), fmt.Sprint("c-", i))
		}
		r.sendKind("refund", "r-1", "ann")
		pass(time.Hour)
		if len(ran.all()) != 0 || r.c.Status().Unfinished != 20 {
			t.Errorf("ran %q, status %+v", ran.all(), r.c.Status())
		}
		if err := r.end(); err != nil { // also so it can be stopped
			t.Error(err)
		}
		r.run(twoScopes(&ran, nil)...)
		pass(time.Minute)
		r.resume("order")
		pass(time.Minute)
		if len(ran.all()) != 21 {
			t.Errorf("ran %q", ran.all())
		}
		r.wantUnsettled(0)
		r.end()
	})
}

// What comes back from a long wait meanwhile stays with the broker.
func TestCopiesOfAPausedScopeStayWithTheBroker(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		var ran journal
		var tries atomic.Int32
		r.run(twoScopes(&ran, func(_ context.Context, d *consumer.Delivery) (consumer.Result, error) {
			if tries.Add(1) <= 3 {
				return nil, consumer.RetryAfter(errors.New("not now"), 10*time.Minute)
			}
			ran.add(d.Key.ID)
			return nil, nil
		})...)
		for i := range 3 {
			r.sendKind("order", fmt.Sprint("o-", i), "ann")
		}
		pass(time.Minute)
		r.pause("order")
		pass(time.Hour)
		if s := r.c.Status(); s.Unfinished != 0 || len(ran.all()) != 0 {
			t.Errorf("ran %q, status %+v", ran.all(), s)
		}
		r.resume("order")
		pass(time.Minute)
		if len(ran.all()) != 3 {
			t.Errorf("ran %q", ran.all())
		}
		if n := len(r.broker.Waiting("billing", topic)); n != 0 {
			t.Errorf("%d copies are unsettled", n)
		}
		r.end()
	})
}

// A suspect that waits until it may run alone does not run either, and lets
// the others run.
func TestASuspectOfAPausedScopeGoesBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		key := dedup.Key{Consumer: "billing", Scope: "order", ID: "o-1"}
		for n := range byte(3) {
			a, err := r.store.Apply(t.Context(), []dedup.Op{{
				Kind: dedup.Claim, Key: key, Token: dedup.Token{n + 1}, Lease: time.Second,
				Policy: &dedup.Policy{Failures: 10, Lone: 3}, Fingerprint: dedup.Fingerprint{Rule: 99},
			}})
			if err != nil || a[0].Kind != dedup.Acquired {
				t.Fatal(a, err)
			}
			pass(2 * time.Second)
		}
		finish := make(chan struct{})
		var ran journal
		routes := twoScopes(&ran, nil)
		note := routes[1].Run
		routes[1].Run = func(ctx context.Context, d *consumer.Delivery) (consumer.Result, error) {
			if d.Key.ID == "r-1" {
				<-finish
			}
			return note(ctx, d)
		}
		r.run(routes...)
		r.sendKind("refund", "r-1", "ann")
		settle()
		r.sendKind("order", "o-1", "bob") // waits for the other
		settle()
		r.pause("order")
		pass(2 * time.Second)
		r.sendKind("refund", "r-2", "bert")
		pass(2 * time.Second)
		if !slices.Equal(ran.all(), []string{"r-2"}) {
			t.Errorf("ran %q beside a suspect that is paused", ran.all())
		}
		close(finish)
		pass(time.Minute)
		r.resume("order")
		pass(time.Minute)
		if !slices.Equal(ran.all(), []string{"r-2", "r-1", "o-1"}) {
			t.Errorf("ran %q", ran.all())
		}
		r.wantUnsettled(0)
		r.end()
	})
}

func TestARouteCannotHaveAScopeOfOncewardsOwn(t *testing.T) {
	r := newRig(t, 1)
	_, err := consumer.New(r.cfg, consumer.Route{Scope: "onceward.pause", ID: consumer.BrokerKey(), Run: func(context.Context, *consumer.Delivery) (consumer.Result, error) { return nil, nil }})
	faults, ok := errors.AsType[*consumer.ConfigError](err)
	if !ok || len(faults.Faults) != 1 || faults.Faults[0].Field != "Routes[0].Scope" {
		t.Errorf("%v", err)
	}
}
