package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup/memstore"
)

func TestTheStatusSaysHowMuchIsLeftToDo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 2)
		r.cfg.Workers = 1
		r.run(consumer.JSON("order.create", order.ID, func(context.Context, order) error {
			time.Sleep(10 * time.Second)
			return nil
		}))
		if lag := r.c.Status().Lag; lag != -1 {
			t.Errorf("lag is %d before anything is known", lag)
		}
		for i := range 6 {
			r.send(orderJSON(fmt.Sprint("o-", i), 5))
		}
		pass(2 * time.Second)
		if lag := r.c.Status().Lag; lag != 6 {
			t.Errorf("lag is %d of 6 messages that run or wait", lag)
		}
		pass(2 * time.Minute)
		if lag := r.c.Status().Lag; lag != 0 {
			t.Errorf("lag is %d after all is done", lag)
		}
		r.end()
	})
}

func TestAStoreThatFillsUpIsToldBeforeItIsFull(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		small := memstore.New()
		small.Bound(10)
		r.cfg.Store = small
		r.run(consumer.JSON("order.create", order.ID, func(context.Context, order) error { return nil }))
		for i, degraded := range []bool{false, false, false, false, false, false, false, false, true, true} {
			r.send(orderJSON(fmt.Sprint("o-", i), 5))
			pass(2 * time.Second)
			if said := r.c.Status().Degraded["room in the store"]; (said != "") != degraded {
				t.Errorf("with %d of 10 records: %q", i+1, said)
			}
		}
		r.end()
	})
}

func TestTheStatusSaysSinceWhenTheBreakerIsOpen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.run(consumer.JSON("order.create", order.ID, func(context.Context, order) error { return errors.New("down") }))
		for i := range 20 {
			r.send(orderJSON(fmt.Sprint("o-", i), 5))
		}
		opened := time.Now().UTC().Format(time.RFC3339)
		pass(time.Minute)
		if said := r.c.Status().Degraded["breaker"]; !strings.HasPrefix(said, "open since "+opened) {
			t.Errorf("said %q, opened %s", said, opened)
		}
		r.end()
	})
}

// Whoever watches decisions wants to know which operation it was, also where
// something else of its message is missing.
func TestADecisionBearsTheKeyWhereOnlyTheOrderingKeyIsMissing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		route := consumer.JSON("order.create", order.ID, func(context.Context, order) error { return nil })
		route.Order = consumer.Field("customer_id")
		r.run(route)
		r.send(orderJSON("o-1", 5))
		pass(time.Second)
		r.wantReasons("key")
		if len(r.decisions) != 1 || r.decisions[0].Key.ID != "o-1" || r.decisions[0].Key.Scope != "order.create" {
			t.Errorf("decisions %+v", r.decisions)
		}
		r.end()
	})
}

// A wait of something dead would be one until something that never comes.
func TestADecisionBearsAWaitOnlyWhereItIsTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		route := consumer.JSON("order.create", order.ID, func(context.Context, order) error { return errors.New("no") })
		route.Retry.MaxFailures = 2
		r.run(route)
		r.send(orderJSON("o-1", 5))
		pass(time.Minute)
		for _, d := range r.decisions {
			if again := d.Verdict == consumer.Retried; again != (d.Wait > 0) {
				t.Errorf("%v with a wait of %v", d.Verdict, d.Wait)
			}
		}
		if got := r.verdicts(); got[consumer.Retried] != 1 || got[consumer.Dead] != 1 {
			t.Errorf("%v", got)
		}
		r.end()
	})
}
