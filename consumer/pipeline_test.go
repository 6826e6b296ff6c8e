package consumer_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/memstore"
)

func TestASkipWhoseAnswerIsLostIsNoDoubleExecution(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		var runs counter
		finish := make(chan struct{})
		r.run(consumer.JSON("order.create", order.ID, func(_ context.Context, o order) error {
			runs.add(o.No)
			<-finish
			return consumer.Skip
		}))
		r.send(orderJSON("o-1", 1))
		pass(time.Second)
		r.store.set(errDiskFull, true) // what is written takes effect, and is answered with an error
		close(finish)
		pass(10 * time.Second)
		r.store.set(nil, false)
		pass(time.Minute)
		if runs.total() != 1 || r.verdicts()[consumer.Superseded] != 0 {
			t.Errorf("%d runs, decided %v", runs.total(), r.verdicts())
		}
		r.wantUnsettled(0)
		r.end()
	})
}

// nilError is the classic: a nil pointer in an error.
type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }
func (e *nilError) Unwrap() error { return errors.New(e.text) }

func TestAnErrorThatPanicsIsAFailureLikeAnyOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		var runs counter
		route := consumer.JSON("order.create", order.ID, func(_ context.Context, o order) error {
			runs.add(o.No)
			if o.No == "bad" {
				return (*nilError)(nil)
			}
			return nil
		})
		route.Retry.MaxFailures = 2
		r.run(route)
		r.send(orderJSON("bad", 1), orderJSON("good", 1))
		pass(time.Minute)
		if runs.of("bad") != 2 || runs.of("good") != 1 {
			t.Errorf("runs %v", runs.runs)
		}
		r.wantReasons("exhausted")
		r.wantUnsettled(0)
		r.end()
	})
}

func TestARedactThatPanicsHidesTheText(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.cfg.Redact = func(string) string { panic("no pattern") }
		r.run(consumer.JSON("order.create", order.ID, func(context.Context, order) error {
			return consumer.Terminal(errors.New("card 4111"))
		}))
		r.send(orderJSON("o-1", 1))
		pass(time.Minute)
		r.wantReasons("terminal")
		if l := r.broker.Letters("billing", topic); len(l) != 1 || header(l[0], "dl-error") == "card 4111" {
			t.Errorf("letters %v", l)
		}
		r.wantUnsettled(0)
		r.end()
	})
}

func TestAnObserverThatPanicsStopsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.cfg.Observer = func([]consumer.Decision) { panic("no such metric") }
		var runs counter
		r.run(consumer.JSON("order.create", order.ID, func(_ context.Context, o order) error {
			runs.add(o.No)
			return nil
		}))
		r.send(orderJSON("o-1", 1), orderJSON("o-2", 1))
		pass(time.Minute)
		if runs.total() != 2 {
			t.Errorf("%d runs", runs.total())
		}
		r.wantUnsettled(0)
		r.end()
	})
}

// A lease is lost while the copy that leaves for the retry topic is on its way:
// the failure is still told to the record, which keeps the wait or, where
// somebody else has claimed the key, the evidence.
func TestALeaseLostWhileItsCopyLeavesStillEndsTheClaim(t *testing.T) {
	for _, taken := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, 1)
			r.cfg.Lease = time.Second
			var key dedup.Key
			var runs counter
			r.run(consumer.JSON("order.create", order.ID, func(ctx context.Context, o order) error {
				key = consumer.Info(ctx).Key
				if runs.add(o.No) == 1 {
					return consumer.RetryAfter(errors.New("not now"), 2*time.Hour)
				}
				return nil
			}))
			retry := r.broker.Destinations("billing", topic).Retry
			r.broker.FailPublish(retry, errors.New("no leader"))
			r.send(orderJSON("o-1", 1))
			pass(3 * time.Second)
			r.store.set(errDiskFull, false) // no renewal
			pass(3 * time.Second)
			if taken {
				answers, err := r.store.Store.Apply(t.Context(), []dedup.Op{{
					Kind: dedup.Claim, Key: key, Token: dedup.Token{1}, Lease: time.Minute,
					Policy: &dedup.Policy{Failures: 10, Lone: 3}, Fingerprint: dedup.Fingerprint{Rule: 99},
				}})
				if err != nil || answers[0].Kind != dedup.Acquired {
					t.Fatal(answers, err)
				}
			}
			r.store.set(nil, false)
			pass(5 * time.Second)
			r.broker.FailPublish(retry, nil)
			pass(time.Minute)
			records, _ := r.store.Lookup(t.Context(), []dedup.Key{key})
			if taken && len(records[0].Evidence) != 1 {
				t.Errorf("taken: %d pieces of evidence, want 1", len(records[0].Evidence))
			}
			if !taken && (records[0].State != dedup.Retryable || records[0].Failures != 1 || records[0].Crashes != 0) {
				t.Errorf("not taken: %v with %d failures, %d crashes", records[0].State, records[0].Failures, records[0].Crashes)
			}
			if !taken && runs.total() != 1 {
				t.Errorf("%d runs before the time", runs.total())
			}
			pass(3 * time.Hour)
			if runs.total() != 2 {
				t.Errorf("%d runs, want 2", runs.total())
			}
			r.wantUnsettled(0)
			r.end()
		})
	}
}

// stuckStore answers nothing while it is stuck, as a server behind a network
// that is cut.
type stuckStore struct {
	dedup.Store
	stuck chan bool
}

func (s *stuckStore) Info() dedup.Info {
	return dedup.Info{Kind: "shared"} // not of one process
}

func (s *stuckStore) Apply(ctx context.Context, ops []dedup.Op) ([]dedup.Answer, error) {
	select {
	case stuck := <-s.stuck:
		s.stuck <- stuck
		if stuck {
			<-ctx.Done()
			return nil, ctx.Err()
		}
	case <-ctx.Done():
	}
	return s.Store.Apply(ctx, ops)
}

func TestAHandlerIsCutShortBeforeItsLeaseEndsWhileTheStoreAnswersNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		store := &stuckStore{Store: r.store, stuck: make(chan bool, 1)}
		store.stuck <- false
		r.cfg.Store, r.cfg.Lease = store, 30*time.Second
		cut := make(chan time.Time, 1)
		var key dedup.Key
		runs := 0
		r.run(consumer.JSON("order.create", order.ID, func(ctx context.Context, _ order) error {
			if key = consumer.Info(ctx).Key; runs == 0 {
				runs++
				<-ctx.Done()
				if !errors.Is(context.Cause(ctx), consumer.ErrLeaseLost) {
					t.Errorf("cause %v", context.Cause(ctx))
				}
				cut <- time.Now()
			}
			return ctx.Err()
		}))
		r.send(orderJSON("o-1", 1))
		pass(time.Minute)
		<-store.stuck
		store.stuck <- true
		records, err := r.store.Lookup(t.Context(), []dedup.Key{key})
		if err != nil {
			t.Fatal(err)
		}
		if at := <-cut; !at.Before(records[0].LeaseUntil) {
			t.Errorf("cut short %v after its lease ended", at.Sub(records[0].LeaseUntil))
		}
		<-store.stuck
		store.stuck <- false
		pass(time.Minute)
		r.wantUnsettled(0)
		r.end()
	})
}

func TestWhatWasHandedOverDoesNotStartWhileTheStoreFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.cfg.Workers = 2
		var runs counter
		started, finish := make(chan struct{}, 100), make(chan struct{})
		r.run(consumer.JSON("order.create", order.ID, func(_ context.Context, o order) error {
			runs.add(o.No)
			started <- struct{}{}
			<-finish
			return nil
		}))
		for i := range 20 {
			r.send(orderJSON(strconv.Itoa(i), 1))
		}
		<-started
		<-started
		settle() // others are claimed, and wait for a worker
		r.store.set(errDiskFull, false)
		pass(11 * time.Second) // a renewal fails
		close(finish)
		pass(time.Minute)
		if runs.total() != 2 {
			t.Errorf("%d handlers ran, want the two that had started", runs.total())
		}
		r.wantUnsettled(20)
		r.store.set(nil, false)
		pass(time.Minute)
		if runs.total() != 20 {
			t.Errorf("%d runs, want 20", runs.total())
		}
		r.wantUnsettled(0)
		r.end()
	})
}

func TestEnlistedWorkThatFailsIsAFailureOfTheHandler(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		var runs, rows counter
		route := consumer.JSON("order.create", order.ID, func(ctx context.Context, o order) error {
			n := runs.add(o.No)
			return dedup.Enlist(ctx, func() error {
				if o.No == "never" || n < 3 {
					return errors.New("constraint violated")
				}
				rows.add(o.No)
				return nil
			})
		})
		route.Retry.MaxFailures = 4
		r.run(route)
		r.send(orderJSON("never", 1), orderJSON("third", 1))
		pass(time.Minute)
		if runs.of("never") != 4 || runs.of("third") != 3 || rows.of("third") != 1 || rows.of("never") != 0 {
			t.Errorf("runs %v, rows %v", runs.runs, rows.runs)
		}
		r.wantReasons("exhausted")
		if l := r.broker.Letters("billing", topic); !strings.Contains(header(l[0], "dl-error"), "constraint violated") {
			t.Errorf("letter says %q", header(l[0], "dl-error"))
		}
		r.wantUnsettled(0)
		r.end()
	})
}

// forgetfulStore does not know the claims that it has given, as a server that
// came back with older data.
type forgetfulStore struct {
	dedup.Store
	forgets atomic.Bool
}

func (s *forgetfulStore) Apply(ctx context.Context, ops []dedup.Op) ([]dedup.Answer, error) {
	var kept []dedup.Op
	for i := range ops {
		if ops[i].Kind != dedup.End || !s.forgets.Load() {
			kept = append(kept, ops[i])
		}
	}
	some, err := s.Store.Apply(ctx, kept)
	if err != nil {
		return nil, err
	}
	answers := make([]dedup.Answer, len(ops))
	for i := range ops {
		if ops[i].Kind == dedup.End && s.forgets.Load() {
			answers[i] = dedup.Answer{Err: dedup.ErrInvalidOp}
			continue
		}
		answers[i], some = some[0], some[1:]
	}
	return answers, nil
}

func TestAnEndThatTheStoreDoesNotUnderstandIsNotRepeatedForEver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		store := &forgetfulStore{Store: memstore.New()}
		store.forgets.Store(true)
		r.cfg.Store = store
		var runs counter
		r.run(consumer.JSON("order.create", order.ID, func(_ context.Context, o order) error {
			runs.add(o.No)
			return nil
		}))
		r.send(orderJSON("o-1", 1))
		pass(time.Minute)
		if n := runs.total(); n < 1 || n > 10 {
			t.Errorf("%d runs in a minute", n)
		}
		r.wantUnsettled(1)
		store.forgets.Store(false)
		pass(5 * time.Minute)
		r.wantUnsettled(0)
		r.wantReasons()
		r.end()
	})
}
