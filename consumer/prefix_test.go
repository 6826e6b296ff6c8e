package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/onceward/onceward/consumer"
)

// A message that waits unclaimed for longer than the window, while those after
// it are settled, has never passed: it is not too old.
func TestTheAcknowledgedPrefixEndsAtTheFirstMessageThatIsNotSettled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		var runs counter
		finish := make(chan struct{})
		route := consumer.JSON("order.create", order.ID, func(_ context.Context, o order) error {
			runs.add(o.No)
			if o.No == "held" {
				<-finish
			}
			return nil
		})
		route.Window, route.Timeout, route.Retry.MaxFailures = 10*time.Minute, time.Hour, 1
		route.Order = consumer.Field("cents")
		r.run(route)
		// "behind" waits for the same ordering key as "held".
		r.send(orderJSON("held", 1), orderJSON("behind", 1))
		pass(time.Second)
		for i := range 15 {
			r.send(orderJSON(fmt.Sprint("o-", i), 100+i))
			pass(time.Minute)
		}
		close(finish)
		pass(time.Minute)
		if runs.of("behind") != 1 {
			t.Errorf("what waited ran %d times", runs.of("behind"))
		}
		r.wantReasons()
		r.wantUnsettled(0)

		// The whole prefix has passed now: what is swept does not run again.
		pass(20 * time.Minute)
		before := runs.total()
		r.broker.Crash("billing")
		r.end()
		r.run(route)
		pass(time.Minute)
		if runs.total() != before {
			t.Errorf("%d runs after a restart, want %d", runs.total(), before)
		}
		r.end()
	})
}

func TestWhileCopiesCannotBePublishedNoMessageLeaves(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		var runs counter
		r.run(consumer.JSON("order.create", order.ID, func(_ context.Context, o order) error {
			if runs.add(o.No) == 1 && o.No == "later" {
				return consumer.RetryAfter(errors.New("not now"), time.Hour)
			}
			return nil
		}))
		retry := r.broker.Destinations("billing", topic).Retry
		r.broker.FailPublish(retry, errors.New("no leader"))
		r.send(orderJSON("later", 1), orderJSON("other", 1))
		pass(time.Minute)
		r.wantUnsettled(1)
		if runs.of("other") != 1 {
			t.Error("another key is held up")
		}
		r.broker.FailPublish(retry, nil)
		pass(time.Minute)
		r.wantUnsettled(0)
		if runs.of("later") != 1 {
			t.Errorf("ran %d times before its time", runs.of("later"))
		}
		pass(2 * time.Hour)
		if runs.of("later") != 2 {
			t.Errorf("ran %d times, want 2", runs.of("later"))
		}
		r.wantReasons()
		r.end()
	})
}
