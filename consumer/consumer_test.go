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

func TestEveryOrderRunsOnceAndRepeatsAreAbsorbed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 3)
		var runs counter
		r.run(consumer.JSON("order.create", order.ID, func(_ context.Context, o order) error {
			runs.add(o.No)
			return nil
		}))
		for i := range 300 {
			r.send(orderJSON(fmt.Sprint("o-", i%100), 5))
		}
		pass(time.Second)
		if runs.total() != 100 {
			t.Errorf("%d runs, want 100", runs.total())
		}
		got := r.verdicts()
		if got[consumer.Handled] != 100 || got[consumer.Duplicate] != 200 {
			t.Errorf("decided %v", got)
		}
		r.wantUnsettled(0)
		if err := r.end(); err != nil {
			t.Error(err)
		}
	})
}

func TestAFailureThatPassesIsRetriedAndCounted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		var runs counter
		var failures []uint32
		r.run(consumer.JSON("order.create", order.ID, func(ctx context.Context, o order) error {
			failures = append(failures, consumer.Info(ctx).Failures)
			if runs.add(o.No) < 3 {
				return errors.New("try later")
			}
			return nil
		}))
		r.send(orderJSON("o-1", 5))
		pass(10 * time.Second)
		if fmt.Sprint(failures) != "[0 1 2]" {
			t.Errorf("failures seen: %v", failures)
		}
		r.wantUnsettled(0)
		r.wantReasons()
		r.end()
	})
}

func TestWhatNeverSucceedsBecomesOneLetterOfTheRightReason(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		var runs counter
		route := consumer.JSON("order.create", order.ID, func(_ context.Context, o order) error {
			runs.add(o.No)
			switch o.No {
			case "refused":
				return consumer.Terminal(errors.New("no such customer"))
			case "failing":
				return errors.New("always")
			case "panics":
				panic("boom")
			case "doubt":
				return consumer.InDoubt(errors.New("timeout while charging"))
			case "skip":
				return consumer.Skip
			}
			return nil
		})
		route.Retry.MaxFailures = 3
		r.run(route)
		r.send(
			`{"no":"unclosed`, `{"cents":5}`, `{"no":""}`,
			orderJSON("refused", 1), orderJSON("failing", 1), orderJSON("panics", 1), orderJSON("doubt", 1), orderJSON("skip", 1),
			orderJSON("fine", 1), orderJSON("fine", 2),
		)
		pass(time.Minute)
		r.wantReasons("conflict", "decode", "exhausted", "exhausted", "in-doubt", "key", "key", "terminal")
		for id, want := range map[string]int{"refused": 1, "failing": 3, "panics": 3, "doubt": 1, "fine": 1, "skip": 1} {
			if got := runs.of(id); got != want {
				t.Errorf("%s ran %d times, want %d", id, got, want)
			}
		}
		r.wantUnsettled(0)

		// A repeat of each is answered without a run and without a new letter.
		r.send(orderJSON("refused", 1), orderJSON("failing", 1), orderJSON("doubt", 1))
		pass(time.Minute)
		if got := len(r.reasons()); got != 8 {
			t.Errorf("%d letters after repeats, want 8", got)
		}
		if runs.of("refused") != 1 || runs.of("failing") != 3 || runs.of("doubt") != 1 {
			t.Error("a repeat of a decided operation ran")
		}
		r.wantUnsettled(0)
		r.end()
	})
}

func TestAHundredDeliveriesOfOneKeyRunOnceAndNoneIsAckedBefore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 8)
		var runs counter
		finish := make(chan struct{})
		route := consumer.JSON("order.create", order.ID, func(_ context.Context, o order) error {
			runs.add(o.No)
			<-finish
			return nil
		})
		// Each is an ordering key of its own, so that nothing but the record
		// keeps them apart.
		route.Order = consumer.Extract{Rule: "offset", From: func(d *consumer.Delivery) (string, error) {
			return fmt.Sprint(d.Partition, "/", d.Offset), nil
		}}
		r.run(route)
		for i := range 100 {
			r.broker.Produce(topic, brokers.Outgoing{Key: fmt.Append(nil, i), Value: []byte(orderJSON("same", 5))})
		}
		pass(time.Minute)
		r.wantUnsettled(100)
		close(finish)
		pass(time.Minute)
		if runs.total() != 1 {
			t.Errorf("%d runs, want 1", runs.total())
		}
		r.wantUnsettled(0)
		r.end()
	})
}

func TestWhileTheStoreFailsNothingStartsAndNothingIsAcked(t *testing.T) {
	for _, loses := range []bool{false, true} {
		t.Run(fmt.Sprintf("took effect %v", loses), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, 1)
				var runs counter
				started := make(chan struct{}, 1)
				finish := make(chan struct{})
				r.run(consumer.JSON("order.create", order.ID, func(_ context.Context, o order) error {
					runs.add(o.No)
					if o.No == "first" {
						started <- struct{}{}
						<-finish
					}
					return nil
				}))
				r.send(orderJSON("first", 5))
				<-started
				r.store.set(errDiskFull, loses)
				close(finish)
				for i := range 50 {
					r.send(orderJSON(fmt.Sprint("o-", i), 5))
				}
				pass(time.Minute)
				if runs.total() != 1 {
					t.Errorf("%d handlers ran while the store failed, want only the first", runs.total())
				}
				r.wantUnsettled(51)
				if s := r.c.Status(); s.Degraded["store"] == "" || !s.Ready || !s.Live {
					t.Errorf("status %+v", s)
				}
				r.store.set(nil, false)
				pass(time.Minute)
				if runs.of("first") != 1 {
					t.Errorf("the handler that had finished ran %d times", runs.of("first"))
				}
				if runs.total() != 51 {
					t.Errorf("%d runs, want 51", runs.total())
				}
				r.wantUnsettled(0)
				if s := r.c.Status(); len(s.Degraded) != 0 {
					t.Errorf("still degraded: %v", s.Degraded)
				}
				r.end()
			})
		})
	}
}

func TestWhileLettersCannotBePublishedOtherKeysGoOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		var runs counter
		r.run(consumer.JSON("order.create", order.ID, func(_ context.Context, o order) error {
			runs.add(o.No)
			if o.No == "refused" {
				return consumer.Terminal(errors.New("no"))
			}
			return nil
		}))
		dlq := r.broker.Destinations("billing", topic).DeadLetter
		r.broker.FailPublish(dlq, brokers.ErrNoDestination)
		r.send(orderJSON("refused", 1), `nonsense`)
		for i := range 50 {
			r.send(orderJSON(fmt.Sprint("o-", i), 5))
		}
		pass(time.Minute)
		if runs.total() != 51 {
			t.Errorf("%d runs, want 51", runs.total())
		}
		r.wantReasons()
		r.wantUnsettled(2)
		if len(r.c.Status().Degraded) == 0 {
			t.Error("not degraded")
		}
		r.broker.FailPublish(dlq, nil)
		pass(time.Minute)
		r.wantReasons("decode", "terminal")
		r.wantUnsettled(0)
		if runs.of("refused") != 1 {
			t.Errorf("ran %d times", runs.of("refused"))
		}
		r.end()
	})
}

func TestAnOwedLetterIsWrittenByTheNextProcessWithoutARun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		var runs counter
		route := consumer.JSON("order.create", order.ID, func(_ context.Context, o order) error {
			runs.add(o.No)
			return consumer.Terminal(errors.New("no such customer"))
		})
		r.run(route)
		dlq := r.broker.Destinations("billing", topic).DeadLetter
		r.broker.FailPublish(dlq, brokers.ErrNoDestination)
		r.send(orderJSON("refused", 1))
		pass(10 * time.Second)
		r.broker.Crash("billing")
		r.end()
		r.broker.FailPublish(dlq, nil)
		r.run(route)
		pass(10 * time.Second)
		r.wantReasons("terminal")
		if l := r.broker.Letters("billing", topic); header(l[0], "dl-error") != "no such customer" {
			t.Errorf("letter says %q", header(l[0], "dl-error"))
		}
		if runs.total() != 1 {
			t.Errorf("%d runs", runs.total())
		}
		r.wantUnsettled(0)
		r.end()
	})
}

func TestALongWaitLeavesTheTopicAndHoldsUpNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const waiting = 1100
		r := newRig(t, 1)
		var runs counter
		route := consumer.JSON("order.create", order.ID, func(_ context.Context, o order) error {
			if runs.add(o.No) == 1 && o.Cents == 1 {
				return consumer.RetryAfter(errors.New("not yet"), 2*time.Hour)
			}
			return nil
		})
		r.run(route)
		for i := range waiting {
			r.send(orderJSON(fmt.Sprint("slow-", i), 1))
		}
		pass(time.Minute)
		r.wantUnsettled(0)
		if got := len(r.broker.Waiting("billing", topic)); got != waiting {
			t.Errorf("%d copies wait, want %d", got, waiting)
		}
		for i := range 100 {
			r.send(orderJSON(fmt.Sprint("fresh-", i), 2))
		}
		pass(time.Second)
		if runs.total() != waiting+100 {
			t.Errorf("%d runs: fresh traffic waits", runs.total())
		}
		r.end()
		r.run(route) // a restart in between
		pass(time.Hour + 50*time.Minute)
		if runs.total() != waiting+100 {
			t.Errorf("%d runs before the time", runs.total())
		}
		pass(20 * time.Minute)
		if runs.total() != 2*waiting+100 {
			t.Errorf("%d runs, want %d", runs.total(), 2*waiting+100)
		}
		if got := len(r.broker.Waiting("billing", topic)); got != 0 {
			t.Errorf("%d copies are left", got)
		}
		r.wantReasons()
		r.end()
	})
}

func TestAStopLetsHandlersFinishAndCountsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		var runs counter
		route := consumer.JSON("order.create", order.ID, func(ctx context.Context, o order) error {
			n := runs.add(o.No)
			if o.No == "quick" {
				time.Sleep(5 * time.Second)
				return nil
			}
			if n > 1 {
				return nil
			}
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), consumer.ErrShutdown) {
				t.Errorf("cause %v", context.Cause(ctx))
			}
			return consumer.Terminal(ctx.Err())
		})
		route.Retry.MaxFailures = 1
		r.run(route)
		r.send(orderJSON("quick", 1), orderJSON("slow", 1))
		pass(time.Second)
		begun := time.Now()
		if err := r.end(); err != nil {
			t.Error(err)
		}
		if d := time.Since(begun); d > 25*time.Second {
			t.Errorf("stopped after %v", d)
		}
		r.wantReasons()
		r.run(route)
		pass(time.Minute)
		if runs.of("quick") != 1 || runs.of("slow") != 2 {
			t.Errorf("runs %v", runs.runs)
		}
		r.wantReasons()
		r.wantUnsettled(0)
		r.end()
	})
}

func TestAHandlerThatHangsTurnsLiveRedAndIsNotAcked(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		var runs counter
		release := make(chan struct{})
		route := consumer.JSON("order.create", order.ID, func(_ context.Context, o order) error {
			if runs.add(o.No) == 1 && o.No == "hangs" {
				<-release
			}
			return nil
		})
		route.Timeout = time.Minute
		r.run(route)
		r.send(orderJSON("hangs", 1))
		for i := range 50 {
			r.send(orderJSON(fmt.Sprint("o-", i), 5))
		}
		pass(90 * time.Second)
		if !r.c.Status().Live {
			t.Error("not live before twice the timeout")
		}
		pass(time.Minute)
		if r.c.Status().Live {
			t.Error("live although a handler hangs")
		}
		if runs.total() != 51 {
			t.Errorf("%d runs: others are held up", runs.total())
		}
		begun := time.Now()
		if err := r.end(); err == nil {
			t.Error("no word of the handler that hangs")
		}
		if d := time.Since(begun); d > 30*time.Second {
			t.Errorf("stopped after %v", d)
		}
		if left := r.broker.Unsettled("billing", topic); len(left) == 0 || string(left[0].Value) != orderJSON("hangs", 1) {
			t.Errorf("unsettled: %v", left)
		}
		close(release)
		r.run(route)
		pass(time.Minute)
		if runs.of("hangs") != 2 {
			t.Errorf("ran %d times", runs.of("hangs"))
		}
		r.wantUnsettled(0)
		r.end()
	})
}

func TestAnOutageMakesNoLettersAndEndsByItself(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 4)
		r.cfg.Workers = 64
		var runs counter
		begun := time.Now()
		route := consumer.JSON("order.create", order.ID, func(_ context.Context, o order) error {
			if at := time.Since(begun); at > time.Minute && at < 21*time.Minute {
				return errors.New("dependency is down")
			}
			runs.add(o.No)
			return nil
		})
		route.Retry = consumer.Retry{MaxFailures: 3, Initial: 50 * time.Millisecond, Multiplier: 1, NoJitter: true}
		r.run(route)
		const messages = 2000
		for i := range messages {
			r.send(orderJSON(fmt.Sprint("o-", i), 5))
			if i%10 == 0 {
				pass(time.Second)
			}
		}
		pass(30 * time.Minute)
		r.wantReasons()
		if runs.total() != messages {
			t.Errorf("%d of %d ran", runs.total(), messages)
		}
		r.wantUnsettled(0)
		r.end()
	})
}

func TestARevokedPartitionIsDrainedAndNothingRunsTwice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 2)
		var runs counter
		route := consumer.JSON("order.create", order.ID, func(_ context.Context, o order) error {
			runs.add(o.No)
			time.Sleep(100 * time.Millisecond)
			return nil
		})
		r.run(route)
		for i := range 200 {
			r.broker.Produce(topic, brokers.Outgoing{Key: fmt.Append(nil, i), Value: []byte(orderJSON(fmt.Sprint("o-", i), 5))})
		}
		for range 5 {
			pass(150 * time.Millisecond)
			r.broker.Revoke("billing", topic, 0)
		}
		pass(time.Minute)
		if runs.total() != 200 {
			t.Errorf("%d runs, want 200", runs.total())
		}
		r.broker.Lose("billing", topic)
		pass(time.Minute)
		if runs.total() != 200 {
			t.Errorf("%d runs, want 200", runs.total())
		}
		r.wantUnsettled(0)
		r.end()
	})
}

func TestALeaseThatRanOutIsAcceptedUnlessSomebodyClaimed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.cfg.Lease = time.Second
		started := make(chan dedup.Key, 2)
		finish := make(chan struct{})
		var runs counter
		r.run(consumer.JSON("order.create", order.ID, func(ctx context.Context, o order) error {
			runs.add(o.No)
			started <- consumer.Info(ctx).Key
			<-finish
			return nil
		}))
		r.send(orderJSON("mine", 1), orderJSON("taken", 1))
		keys := map[string]dedup.Key{}
		for range 2 {
			k := <-started
			keys[k.ID] = k
		}
		r.store.set(errDiskFull, false) // renewals fail, so that both leases run out
		pass(5 * time.Second)
		answers, err := r.store.Store.Apply(t.Context(), []dedup.Op{{
			Kind: dedup.Claim, Key: keys["taken"], Token: dedup.Token{1}, Lease: time.Minute,
			Policy: &dedup.Policy{Failures: 10, Lone: 3}, Fingerprint: dedup.Fingerprint{Rule: 99},
		}})
		if err != nil || answers[0].Kind != dedup.Acquired {
			t.Fatal(answers, err)
		}
		r.store.set(nil, false)
		close(finish)
		pass(10 * time.Second)
		records, _ := r.store.Lookup(t.Context(), []dedup.Key{keys["mine"], keys["taken"]})
		if records[0].State != dedup.Succeeded {
			t.Errorf("late but unfenced is %v", records[0].State)
		}
		if records[1].State != dedup.InProgress || len(records[1].Evidence) != 1 {
			t.Errorf("superseded: %v with %d pieces of evidence", records[1].State, len(records[1].Evidence))
		}
		if got := r.verdicts()[consumer.Superseded]; got != 1 {
			t.Errorf("%d suspected doubles reported, want 1", got)
		}
		r.wantUnsettled(1)
		r.end()
	})
}
