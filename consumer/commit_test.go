package consumer_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
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
		finish := make(chan struct{})
		r.run(consumer.JSON("order.create", order.ID, func(_ context.Context, o order) error {
			runs.add(o.No)
			<-finish
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
		finish <- struct{}{}
		for range 2 { // the claims, and the end of what has ended meanwhile
			store.let <- nil
			settle()
		}
		if got := store.of(2); !slices.Equal(got, []string{"end o-1"}) {
			t.Errorf("at last it was asked %q", got)
		}
		r.wantUnsettled(2)
		close(finish)
		close(store.let) // their ends may come together or not
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
		r.run(runs.route())
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

// A store that comes back late does one slow commit before the renewal.
func TestAHandlerIsCutShortBeforeItsLeaseEndsWhileItsRenewalWaitsBehindAnotherCommit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		store := &heldStore{Store: r.store, let: make(chan error)}
		r.cfg.Store, r.cfg.Lease = shared(store), 30*time.Second
		var cut atomic.Pointer[time.Time]
		r.run(consumer.JSON("order.create", order.ID, func(ctx context.Context, o order) error {
			if o.No == "o-1" && cut.Load() == nil {
				<-ctx.Done()
				now := time.Now()
				cut.Store(&now)
			}
			return ctx.Err()
		}))
		settle()
		r.send(orderJSON("o-1", 1))
		settle()
		claimed := time.Now()
		at := func(d time.Duration) { pass(time.Until(claimed.Add(d))) }
		store.let <- nil
		at(7 * time.Second)
		r.send(orderJSON("o-2", 1)) // is tried until the lease is nearly over
		settle()
		r.send(orderJSON("o-3", 1)) // is next
		settle()
		for time.Since(claimed) < 15*time.Second {
			store.let <- errDiskFull
		}
		at(23900 * time.Millisecond)
		store.let <- nil
		at(28800 * time.Millisecond)
		store.let <- nil
		at(31 * time.Second)
		if end := claimed.Add(30 * time.Second); cut.Load() == nil || !cut.Load().Before(end) {
			t.Errorf("the lease ended at %v, the handler was cut short at %v", end, cut.Load())
		}
		close(store.let)
		pass(time.Minute)
		r.wantUnsettled(0)
		if err := r.end(); err != nil {
			t.Error(err)
		}
	})
}

func TestAClaimWhoseLeaseIsLostBeforeItsHandlerRunsCountsNoCrash(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		store := &stuckStore{Store: r.store, stuck: make(chan bool, 1)}
		store.stuck <- false
		r.cfg.Store, r.cfg.Workers = store, 1
		var runs counter
		var key dedup.Key
		r.run(consumer.JSON("order.create", order.ID, func(ctx context.Context, o order) error {
			if runs.add(o.No); o.No == "o-1" && runs.total() == 1 {
				<-ctx.Done()
			}
			key = consumer.Info(ctx).Key
			return ctx.Err()
		}))
		r.send(orderJSON("o-1", 1), orderJSON("o-2", 1)) // the second is claimed and waits for the worker
		pass(time.Second)
		<-store.stuck
		store.stuck <- true
		pass(time.Minute)
		<-store.stuck
		store.stuck <- false
		pass(time.Minute)
		r.wantUnsettled(0)
		for _, id := range []string{"o-1", "o-2"} {
			key.ID = id
			records, err := r.store.Lookup(t.Context(), []dedup.Key{key})
			if err != nil {
				t.Fatal(err)
			}
			if records[0].State != dedup.Succeeded || records[0].Crashes != 0 {
				t.Errorf("%s is %v with %d crashes", id, records[0].State, records[0].Crashes)
			}
		}
		if err := r.end(); err != nil {
			t.Error(err)
		}
	})
}

// A claim took effect, its answer was lost, and its lease is nearly over when
// the repeat is answered.
func TestNoHandlerStartsUnderALeaseThatIsNearlyOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		store := &stuckStore{Store: r.store, stuck: make(chan bool, 1)}
		store.stuck <- false
		r.cfg.Store, r.cfg.Lease = store, 30*time.Second
		var runs counter
		r.run(consumer.JSON("order.create", order.ID, func(ctx context.Context, o order) error {
			runs.add(o.No)
			records, err := r.store.Lookup(ctx, []dedup.Key{consumer.Info(ctx).Key})
			if err != nil {
				return err
			}
			if left := time.Until(records[0].LeaseUntil); left < 29*time.Second || records[0].Crashes != 0 {
				t.Errorf("it starts with %v of its lease and %d crashes", left, records[0].Crashes)
			}
			return nil
		}))
		settle()
		r.store.set(errDiskFull, true)
		r.send(orderJSON("o-1", 1))
		pass(25 * time.Second)
		r.store.set(nil, false)
		pass(time.Minute)
		if runs.total() != 1 {
			t.Errorf("%d runs", runs.total())
		}
		r.wantUnsettled(0)
		if err := r.end(); err != nil {
			t.Error(err)
		}
	})
}

// The mark of a suspect was repeated for longer than its lease, which nobody
// has taken over meanwhile.
func TestASuspectWhoseMarkCameTooLateCountsNoCrash(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		store := &heldStore{Store: r.store, let: make(chan error)}
		r.cfg.Store, r.cfg.Lease = store, 10*time.Second
		key := dedup.Key{Consumer: "billing", Scope: "order.create", ID: "o-1"}
		for n := range byte(3) { // two of them count as crashes
			a, err := r.store.Apply(t.Context(), []dedup.Op{{
				Kind: dedup.Claim, Key: key, Token: dedup.Token{n + 1}, Lease: time.Second,
				Policy: &dedup.Policy{Failures: 10, Lone: 3}, Fingerprint: dedup.Fingerprint{Rule: 99},
			}})
			if err != nil || a[0].Kind != dedup.Acquired {
				t.Fatal(a, err)
			}
			pass(2 * time.Second)
		}
		var runs counter
		r.run(runs.route())
		settle()
		r.send(orderJSON("o-1", 1))
		settle()
		store.let <- nil // its claim
		settle()
		if got := store.of(1); !slices.Equal(got, []string{"alone o-1"}) {
			t.Fatalf("asked %q", got)
		}
		begun := time.Now()
		for time.Since(begun) < 20*time.Second {
			store.let <- errDiskFull
		}
		close(store.let)
		pass(time.Minute)
		records, err := r.store.Lookup(t.Context(), []dedup.Key{key})
		if err != nil {
			t.Fatal(err)
		}
		if records[0].State != dedup.Succeeded || records[0].Crashes != 3 || runs.total() != 1 {
			t.Errorf("%v with %d crashes after %d runs, want 3, which there were", records[0].State, records[0].Crashes, runs.total())
		}
		if err := r.end(); err != nil {
			t.Error(err)
		}
	})
}
