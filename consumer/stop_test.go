package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup"
)

// What a consumer is stopped in the middle of.
func TestAStopInTheMiddleOfAnythingEndsInTimeAndCountsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		handle   func(ctx context.Context, n int) error
		dlq      error // of publishing letters
		retry    error // of publishing copies
		store    error
		failures uint32 // counted for good reasons
		reasons  []string
		stateNow dedup.State // when it has stopped
	}{
		"handling": {
			handle: func(ctx context.Context, n int) error {
				if n == 1 {
					<-ctx.Done()
				}
				return ctx.Err()
			},
			stateNow: dedup.Retryable,
		},
		"waiting in the process": {
			handle: func(_ context.Context, n int) error {
				if n == 1 {
					return consumer.RetryAfter(errors.New("not now"), 20*time.Second)
				}
				return nil
			},
			failures: 1, stateNow: dedup.Retryable,
		},
		"waiting at the retry destination": {
			handle: func(_ context.Context, n int) error {
				if n == 1 {
					return consumer.RetryAfter(errors.New("not now"), 5*time.Minute)
				}
				return nil
			},
			failures: 1, stateNow: dedup.Retryable,
		},
		"sending a copy": {
			handle: func(_ context.Context, n int) error {
				if n == 1 {
					return consumer.RetryAfter(errors.New("not now"), 5*time.Minute)
				}
				return nil
			},
			retry: errors.New("no leader"), failures: 1, stateNow: dedup.Retryable,
		},
		"dead-lettering": {
			handle:  func(context.Context, int) error { return consumer.Terminal(errors.New("refused")) },
			dlq:     brokers.ErrNoDestination,
			reasons: []string{"terminal"}, stateNow: dedup.Failed,
		},
		"a store that fails": {
			handle: func(_ context.Context, n int) error {
				time.Sleep(time.Second)
				return nil
			},
			store: errDiskFull, stateNow: dedup.InProgress,
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, 1)
				var runs counter
				var key dedup.Key
				route := consumer.JSON("order.create", order.ID, func(ctx context.Context, o order) error {
					key = consumer.Info(ctx).Key
					return c.handle(ctx, runs.add(o.No))
				})
				route.Retry.MaxFailures = 3
				to := r.broker.Destinations("billing", topic)
				r.broker.FailPublish(to.DeadLetter, c.dlq)
				r.broker.FailPublish(to.Retry, c.retry)
				r.run(route)
				r.send(orderJSON("o-1", 1))
				pass(500 * time.Millisecond)
				r.store.set(c.store, false)
				pass(10 * time.Second)
				begun := time.Now()
				if err := r.end(); err != nil {
					t.Errorf("stopped with %v", err)
				}
				if d := time.Since(begun); d > 26*time.Second {
					t.Errorf("stopped after %v", d)
				}
				r.wantReasons()
				r.store.set(nil, false)
				records, err := r.store.Lookup(t.Context(), []dedup.Key{key})
				if err != nil {
					t.Fatal(err)
				}
				if got := records[0]; got.State != c.stateNow || got.Failures != c.failures || got.Crashes != 0 {
					t.Errorf("left %v with %d failures and %d crashes, want %v with %d and none", got.State, got.Failures, got.Crashes, c.stateNow, c.failures)
				}

				r.broker.FailPublish(to.DeadLetter, nil)
				r.broker.FailPublish(to.Retry, nil)
				r.run(route)
				pass(time.Hour)
				r.wantReasons(c.reasons...)
				r.wantUnsettled(0)
				if n := len(r.broker.Waiting("billing", topic)); n != 0 {
					t.Errorf("%d copies are left", n)
				}
				if err := r.end(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestAStopGivesBackWhatHasNotStartedWithoutACrash(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.cfg.Workers = 2
		var runs counter
		route := consumer.JSON("order.create", order.ID, func(_ context.Context, o order) error {
			runs.add(o.No)
			time.Sleep(10 * time.Second)
			return nil
		})
		r.run(route)
		for i := range 100 {
			r.send(orderJSON(fmt.Sprint("o-", i), 1))
		}
		pass(time.Second)
		begun := time.Now()
		if err := r.end(); err != nil {
			t.Error(err)
		}
		if d := time.Since(begun); d > 10*time.Second || runs.total() != 2 {
			t.Errorf("stopped after %v and %d runs", d, runs.total())
		}
		for record, err := range r.store.Scan(t.Context(), "billing") {
			if err != nil {
				t.Fatal(err)
			}
			if record.State == dedup.InProgress {
				t.Errorf("%s is still claimed", record.Key.ID)
			}
		}
		r.run(route)
		pass(time.Hour)
		if runs.total() != 100 {
			t.Errorf("%d runs, want 100", runs.total())
		}
		r.wantUnsettled(0)
		r.end()
	})
}
