package consumer_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup"
)

// heldStore answers only when it is let, and says what it was asked.
type heldStore struct {
	dedup.Store
	let chan error // one for each Apply: its failure, or nil

	mu    sync.Mutex
	asked [][]string
}

func (s *heldStore) Apply(ctx context.Context, ops []dedup.Op) ([]dedup.Answer, error) {
	var asked []string
	for _, op := range ops {
		asked = append(asked, op.Kind.String()+" "+op.Key.ID)
	}
	s.mu.Lock()
	s.asked = append(s.asked, asked)
	s.mu.Unlock()
	select {
	case err := <-s.let:
		if err != nil {
			return nil, err
		}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return s.Store.Apply(ctx, ops)
}

// of are the operations of the nth Apply, from 0.
func (s *heldStore) of(n int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n >= len(s.asked) {
		return nil
	}
	return s.asked[n]
}

func TestWhileTheStoreWritesOneCommitTheNextIsCollected(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		store := &heldStore{Store: r.store, let: make(chan error)}
		r.cfg.Store = store
		var runs counter
		r.run(consumer.JSON("order.create", order.ID, func(_ context.Context, o order) error {
			runs.add(o.No)
			return nil
		}))
		settle()
		r.send(orderJSON("o-1", 1))
		settle()
		r.send(orderJSON("o-2", 1), orderJSON("o-3", 1))
		settle()
		if got := store.of(0); !slices.Equal(got, []string{"claim o-1"}) {
			t.Errorf("first it was asked %q", got)
		}
		store.let <- nil
		settle()
		if got := store.of(1); !slices.Equal(got, []string{"claim o-2", "claim o-3"}) {
			t.Errorf("then it was asked %q", got)
		}
		if runs.of("o-1") != 1 || runs.total() != 1 {
			t.Errorf("%d runs while the second commit is written, %d of the first order", runs.total(), runs.of("o-1"))
		}
		r.wantUnsettled(3)
		for range 2 { // the claims, and the ends of all that ran
			store.let <- nil
			settle()
		}
		if got := store.of(2); !slices.Equal(got, []string{"end o-1"}) {
			t.Errorf("at last it was asked %q", got)
		}
		r.wantUnsettled(2)
		store.let <- nil
		settle()
		r.wantUnsettled(0)
		if err := r.end(); err != nil {
			t.Error(err)
		}
	})
}

func TestACommitThatFailedIsRepeatedBeforeAnyOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		store := &heldStore{Store: r.store, let: make(chan error)}
		r.cfg.Store = store
		var runs counter
		r.run(consumer.JSON("order.create", order.ID, func(_ context.Context, o order) error {
			runs.add(o.No)
			return nil
		}))
		settle()
		r.send(orderJSON("o-1", 1))
		settle()
		r.send(orderJSON("o-2", 1))
		settle()
		for n := range 3 {
			if got := store.of(n); !slices.Equal(got, []string{"claim o-1"}) {
				t.Errorf("try %d asks %q", n+1, got)
			}
			store.let <- errDiskFull
			pass(time.Second)
		}
		store.let <- nil
		settle()
		if got := store.of(4); !slices.Equal(got, []string{"claim o-2"}) {
			t.Errorf("after the repeat it was asked %q", got)
		}
		close(store.let)
		settle()
		r.wantUnsettled(0)
		if runs.of("o-1") != 1 || runs.of("o-2") != 1 {
			t.Errorf("%d runs", runs.total())
		}
		if err := r.end(); err != nil {
			t.Error(err)
		}
	})
}
