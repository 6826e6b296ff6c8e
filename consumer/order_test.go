package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward/consumer"
)

// trace notes what ran, in order.
type trace struct {
	mu  sync.Mutex
	ran []string
}

func (t *trace) add(s string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ran = append(t.ran, s)
}

func (t *trace) all() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.ran)
}

// byCustomer orders by what stands before the dash of the number.
var byCustomer = consumer.Extract{Rule: "customer", From: func(d *consumer.Delivery) (string, error) {
	return d.Decoded.(*order).No[:1], nil
}}

func TestDeliveriesOfOneOrderingKeyRunOneAfterAnother(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		var ran trace
		route := consumer.JSON("order.create", order.ID, func(_ context.Context, o order) error {
			time.Sleep(time.Second)
			ran.add(o.No)
			return nil
		})
		route.Order = byCustomer
		r.run(route)
		begun := time.Now()
		for i := range 10 {
			r.send(orderJSON(fmt.Sprintf("a-%d", i), 1), orderJSON(fmt.Sprintf("b-%d", i), 1))
		}
		for len(ran.all()) < 20 && time.Since(begun) < time.Minute {
			pass(100 * time.Millisecond)
		}
		if d := time.Since(begun); d > 11*time.Second {
			t.Errorf("took %v: different ordering keys did not run beside each other", d)
		}
		for _, customer := range []string{"a", "b"} {
			var own []string
			for _, no := range ran.all() {
				if no[:1] == customer {
					own = append(own, no)
				}
			}
			if !slices.IsSorted(own) {
				t.Errorf("order of %s: %v", customer, own)
			}
		}
		r.end()
	})
}

func TestAfterAFailureLaterOnesOfTheKeyContinueOrAreHeld(t *testing.T) {
	for _, after := range []consumer.AfterFailure{consumer.Continue, consumer.HoldKey} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, 1)
				var ran trace
				route := consumer.JSON("order.create", order.ID, func(ctx context.Context, o order) error {
					if o.No == "a-1" && consumer.Info(ctx).Failures == 0 {
						return consumer.RetryAfter(errors.New("not yet"), time.Hour)
					}
					ran.add(o.No)
					return nil
				})
				route.Order, route.AfterFailure = byCustomer, after
				r.run(route)
				r.send(orderJSON("a-1", 1), orderJSON("a-2", 1), orderJSON("b-1", 1))
				pass(2 * time.Hour)
				want := []string{"a-2", "b-1", "a-1"}
				if after == consumer.HoldKey {
					want = []string{"b-1", "a-1", "a-2"}
				}
				got := ran.all()
				if after == consumer.Continue {
					slices.Sort(got[:2])
				}
				if !slices.Equal(got, want) {
					t.Errorf("ran %v, want %v", got, want)
				}
				r.wantUnsettled(0)
				r.end()
			})
		})
	}
}

func TestAFailedMessageWaitingInTheProcessHoldsUpItsOwnOrderingKeyOnly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		var ran trace
		route := consumer.JSON("order.create", order.ID, func(ctx context.Context, o order) error {
			if o.No == "a-1" && consumer.Info(ctx).Failures == 0 {
				return consumer.RetryAfter(errors.New("not yet"), 5*time.Second)
			}
			ran.add(o.No)
			return nil
		})
		route.Order = byCustomer
		r.run(route)
		r.send(orderJSON("a-1", 1), orderJSON("a-2", 1), orderJSON("b-1", 1))
		pass(time.Second)
		if got := ran.all(); !slices.Equal(got, []string{"b-1"}) {
			t.Errorf("ran %v before the wait was over", got)
		}
		pass(time.Minute)
		if got := ran.all(); !slices.Equal(got, []string{"b-1", "a-1", "a-2"}) {
			t.Errorf("ran %v", got)
		}
		r.end()
	})
}
