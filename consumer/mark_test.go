package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/memstore"
)

// storeAt is a store whose identity and age are said by the test.
type storeAt struct {
	dedup.Store
	info func(dedup.Info) dedup.Info
}

func (s *storeAt) Info() dedup.Info { return s.info(s.Store.Info()) }

// shared makes a store one that other processes claim from as well.
func shared(s dedup.Store) dedup.Store {
	return &storeAt{Store: s, info: func(i dedup.Info) dedup.Info { i.Local = false; return i }}
}

// otherRun starts a second process of the same consumer with a store of its own
// and returns what its Run says, within a minute.
func (r *rig) otherRun(store dedup.Store, routes ...consumer.Route) error {
	r.t.Helper()
	cfg := r.cfg
	cfg.Store, cfg.Observer = store, nil
	c, err := consumer.New(cfg, routes...)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	return c.Run(ctx)
}

func wantStartError(t *testing.T, err error, texts ...string) {
	t.Helper()
	if _, ok := errors.AsType[*brokers.StartError](err); !ok {
		t.Fatalf("got %v, want a StartError", err)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%q is not in: %v", text, err)
		}
	}
}

func TestASecondStoreOnTheSameConsumerStopsEachTimeAndNothingRunsTwice(t *testing.T) {
	for _, partitions := range []int{1, 3} {
		t.Run(fmt.Sprint(partitions, " partitions"), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, partitions)
				var runs counter
				route := consumer.JSON("order.create", order.ID, func(_ context.Context, o order) error {
					runs.add(o.No)
					return nil
				})
				r.run(route)
				for i := range 60 {
					r.send(orderJSON(fmt.Sprint("o-", i), 1))
				}
				pass(5 * time.Second)
				other := memstore.New()
				for range 3 { // a supervisor starts it again and again
					for i := range 60 {
						r.send(orderJSON(fmt.Sprint("o-", i), 1))
					}
					wantStartError(t, r.otherRun(other, route), r.store.Info().ID, other.Info().ID)
				}
				pass(time.Minute)
				if runs.total() != 60 {
					t.Errorf("%d runs, want 60", runs.total())
				}
				r.wantUnsettled(0)
				if err := r.end(); err != nil {
					t.Errorf("the first was stopped: %v", err)
				}
			})
		})
	}
}

func TestADeletedFileIsNoticedEachTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 2)
		var runs counter
		route := consumer.JSON("order.create", order.ID, func(_ context.Context, o order) error {
			runs.add(o.No)
			return nil
		})
		r.run(route)
		r.send(orderJSON("o-1", 1), orderJSON("o-2", 1))
		pass(5 * time.Second)
		r.end()
		r.send(orderJSON("o-1", 1), orderJSON("o-2", 1))
		for range 3 {
			fresh := memstore.New()
			wantStartError(t, r.otherRun(fresh, route), r.store.Info().ID, fresh.Info().ID)
		}
		if runs.total() != 2 {
			t.Errorf("%d runs, want 2", runs.total())
		}
		adopted := &storeAt{Store: memstore.New(), info: func(i dedup.Info) dedup.Info { i.Adopt = true; return i }}
		if err := r.otherRun(adopted, route); err != nil {
			t.Errorf("taken over on purpose: %v", err)
		}
		if runs.total() != 4 {
			t.Errorf("%d runs after the takeover, want 4", runs.total())
		}
		r.wantUnsettled(0)
	})
}

func TestARestoredCopyIsNoticedEachTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 2)
		var runs counter
		route := consumer.JSON("order.create", order.ID, func(_ context.Context, o order) error {
			runs.add(o.No)
			return nil
		})
		r.run(route)
		for i := range 20 {
			r.send(orderJSON(fmt.Sprint("o-", i), 1))
			pass(time.Second)
		}
		r.end()
		info := r.store.Info()
		for i := range 20 {
			r.send(orderJSON(fmt.Sprint("o-", i), 1))
		}
		for range 3 {
			old := &storeAt{Store: memstore.New(), info: func(i dedup.Info) dedup.Info {
				i.ID, i.Sequence = info.ID, info.Sequence-1
				return i
			}}
			wantStartError(t, r.otherRun(old, route), info.ID, fmt.Sprint(info.Sequence))
		}
		if runs.total() != 20 {
			t.Errorf("%d runs, want 20", runs.total())
		}
		r.run(route) // the newest file goes on
		pass(time.Minute)
		if runs.total() != 20 {
			t.Errorf("%d runs, want 20", runs.total())
		}
		r.wantUnsettled(0)
		if err := r.end(); err != nil {
			t.Error(err)
		}
	})
}

func TestNothingRunsBeforeTheMarkIsKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 2)
		var runs counter
		route := consumer.JSON("order.create", order.ID, func(_ context.Context, o order) error {
			runs.add(o.No)
			return nil
		})
		r.send(orderJSON("o-1", 1))
		r.run(route)
		settle() // no time has passed
		r.broker.Crash("billing")
		r.end()
		if runs.total() > 0 {
			fresh := memstore.New()
			wantStartError(t, r.otherRun(fresh, route), r.store.Info().ID, fresh.Info().ID)
		}
	})
}

// lateBroker tells new lanes after a while.
type lateBroker struct{ brokers.Broker }

func (b lateBroker) Open(ctx context.Context, spec brokers.Spec) (brokers.Source, error) {
	assigned := spec.Events.Assigned
	spec.Events.Assigned = func(lanes []*brokers.Lane) error {
		time.Sleep(30 * time.Second)
		return assigned(lanes)
	}
	return b.Broker.Open(ctx, spec)
}

// untouched counts what would be written.
type untouched struct {
	*storeAt
	writes int
}

func (s *untouched) Apply(ctx context.Context, ops []dedup.Op) ([]dedup.Answer, error) {
	s.writes++
	return s.storeAt.Apply(ctx, ops)
}

func (s *untouched) Sweep(ctx context.Context, limit int) (dedup.Swept, error) {
	s.writes++
	return s.storeAt.Sweep(ctx, limit)
}

// With each write a copy would come nearer to the sequence that it lacks.
func TestARefusedCopyIsNotWrittenTo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		route := consumer.JSON("order.create", order.ID, func(context.Context, order) error { return nil })
		r.run(route)
		r.send(orderJSON("o-1", 1))
		pass(5 * time.Second)
		r.end()
		info := r.store.Info()
		old := &untouched{storeAt: &storeAt{Store: memstore.New(), info: func(i dedup.Info) dedup.Info {
			i.ID, i.Sequence = info.ID, info.Sequence-1
			return i
		}}}
		r.cfg.Broker = lateBroker{r.broker}
		wantStartError(t, r.otherRun(old, route), "restored copy")
		if old.writes != 0 {
			t.Errorf("%d writes to a copy that is refused", old.writes)
		}
	})
}
