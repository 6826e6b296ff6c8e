package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/memstore"
)

var policy = &dedup.Policy{Failures: 3, Lone: 2, Window: time.Hour}

func key(id string) dedup.Key { return dedup.Key{Consumer: "billing", Scope: "order.create", ID: id} }

func claim(id string, token byte) dedup.Op {
	return dedup.Op{Kind: dedup.Claim, Key: key(id), Token: dedup.Token{token}, Policy: policy, Lease: time.Minute}
}

// slow is a store whose commits take a while, or for ever.
type slow struct {
	dedup.Store
	commit time.Duration
	err    error

	mu    sync.Mutex
	sizes []int
	ended []error // how the context of each commit stood when it was over
}

func (s *slow) Apply(ctx context.Context, ops []dedup.Op) ([]dedup.Answer, error) {
	s.mu.Lock()
	s.sizes = append(s.sizes, len(ops))
	s.mu.Unlock()
	select {
	case <-time.After(s.commit):
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = append(s.ended, ctx.Err())
	if s.err != nil || ctx.Err() != nil {
		return nil, errors.Join(s.err, ctx.Err())
	}
	return s.Store.Apply(ctx, ops)
}

func TestWhileOneBatchCommitsTheNextOneGathers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{Store: memstore.New(), commit: time.Second}
		b := dedup.NewBatcher(s, 0)
		start := time.Now()
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				a, err := b.Apply(t.Context(), []dedup.Op{claim(fmt.Sprint(i), 1), claim(fmt.Sprint(i), 2)})
				if err != nil || len(a) != 2 || a[0].Kind != dedup.Acquired || a[1].Kind != dedup.Busy {
					t.Errorf("call %d: %+v, %v", i, a, err)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("took %v", took)
		}
		if len(s.sizes) != 2 || s.sizes[0] != 2 || s.sizes[1] != 198 {
			t.Errorf("batches of %v operations", s.sizes)
		}
	})
}

func TestABatchIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{Store: memstore.New(), commit: time.Second}
		b := dedup.NewBatcher(s, 10)
		var wg sync.WaitGroup
		for i, n := range []int{1, 4, 6, 7, 25, 3} {
			ops := make([]dedup.Op, n)
			for j := range ops {
				ops[j] = claim(fmt.Sprint(i, j), 1)
			}
			wg.Go(func() {
				if a, err := b.Apply(t.Context(), ops); err != nil || len(a) != n {
					t.Errorf("%d operations: %d answers, %v", n, len(a), err)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		if got := fmt.Sprint(s.sizes); got != "[1 10 7 25 3]" {
			t.Errorf("batches of %v operations", got)
		}
	})
}

func TestACallerThatLeavesBreaksNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{Store: memstore.New(), commit: time.Second}
		b := dedup.NewBatcher(s, 0)
		var wg sync.WaitGroup
		call := func(id string, patience time.Duration, want error) {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				start := time.Now()
				ops := []dedup.Op{claim(id, 1)}
				if _, err := b.Apply(ctx, ops); !errors.Is(err, want) {
					t.Errorf("%s: %v, want %v", id, err, want)
				}
				ops[0] = claim("reused", 1) // its own again
				if waited := time.Since(start); waited > patience {
					t.Errorf("%s waited %v", id, waited)
				}
			})
			synctest.Wait()
		}
		call("first", time.Hour, nil)
		call("leaves in line", 500*time.Millisecond, context.DeadlineExceeded)
		call("leaves under way", 1500*time.Millisecond, context.DeadlineExceeded)
		call("stays", time.Hour, nil)
		wg.Wait()
		records, _ := b.Lookup(t.Context(), []dedup.Key{key("leaves in line"), key("leaves under way"), key("stays"), key("reused")})
		for i, want := range []dedup.State{dedup.Absent, dedup.InProgress, dedup.InProgress, dedup.Absent} {
			if records[i].State != want {
				t.Errorf("%v is %v, want %v", records[i].Key, records[i].State, want)
			}
		}
	})
}

func TestACommitThatEverybodyLeftIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{Store: memstore.New(), commit: 24 * time.Hour}
		b := dedup.NewBatcher(s, 0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := b.Apply(ctx, []dedup.Op{claim("a", 1)}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("answer %v", err)
		}
		synctest.Wait()
		if len(s.ended) != 1 || !errors.Is(s.ended[0], context.Canceled) {
			t.Errorf("commits ended with %v", s.ended)
		}
	})
}

func TestAnErrorOfTheStoreIsEveryCallers(t *testing.T) {
	full := errors.New("disk full")
	b := dedup.NewBatcher(&slow{Store: memstore.New(), err: full}, 0)
	if _, err := b.Apply(t.Context(), []dedup.Op{claim("a", 1)}); !errors.Is(err, full) {
		t.Errorf("answer %v", err)
	}
}

func TestCloseWaitsForCallsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := dedup.NewBatcher(&slow{Store: memstore.New(), commit: time.Second}, 0)
		answered := make(chan error, 1)
		go func() {
			_, err := b.Apply(t.Context(), []dedup.Op{claim("a", 1)})
			answered <- err
		}()
		synctest.Wait()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if err := <-answered; err != nil {
			t.Errorf("the call under way: %v", err)
		}
		if _, err := b.Apply(t.Context(), []dedup.Op{claim("b", 1)}); !errors.Is(err, dedup.ErrClosed) {
			t.Errorf("a later call: %v", err)
		}
	})
}

func BenchmarkBatcher(b *testing.B) {
	for _, callers := range []int{1, 16, 500} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			batcher := dedup.NewBatcher(memstore.New(), 0)
			b.ReportAllocs()
			var wg sync.WaitGroup
			for c := range callers {
				wg.Go(func() {
					ops := make([]dedup.Op, 1)
					for i := c; i < b.N; i += callers {
						ops[0] = claim("a", 1)
						if _, err := batcher.Apply(context.Background(), ops); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
		})
	}
}
