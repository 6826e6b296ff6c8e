package consumer_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup"
)

// A process that stood still for longer than a lease finds claims waiting for a
// worker that others have taken over, and finished, meanwhile. What stands
// still here is the loop, which renews.
func TestAClaimThatLapsedWhileItWaitedForAWorkerIsNotRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.cfg.Store, r.cfg.Workers = shared(r.store), 1
		var standing atomic.Bool
		note := r.cfg.Observer
		r.cfg.Observer = func(ds []consumer.Decision) {
			note(ds)
			if standing.CompareAndSwap(true, false) {
				time.Sleep(2 * time.Minute)
			}
		}
		var runs counter
		var waiting dedup.Key
		route := consumer.JSON("order.create", order.ID, func(ctx context.Context, o order) error {
			runs.add(o.No)
			if o.No == "slow" {
				waiting = consumer.Info(ctx).Key
				time.Sleep(time.Minute) // it hears nothing
			}
			return nil
		})
		r.run(route)
		r.send(orderJSON("slow", 1), orderJSON("waiting", 1))
		pass(time.Second) // both are claimed, one runs
		standing.Store(true)
		r.send(`{`) // a letter: something for the observer
		pass(40 * time.Second)
		waiting.ID = "waiting"
		policy := &dedup.Policy{Failures: 10, Lone: 3, Window: time.Hour}
		claimed, err := r.store.Apply(t.Context(), []dedup.Op{{
			Kind: dedup.Claim, Key: waiting, Token: dedup.Token{1}, Lease: time.Minute, Policy: policy, Fingerprint: dedup.Fingerprint{Rule: 99},
		}})
		if err != nil || claimed[0].Kind != dedup.Acquired {
			t.Fatalf("%v, %v: not lapsed", claimed, err)
		}
		done, err := r.store.Apply(t.Context(), []dedup.Op{{
			Kind: dedup.End, Key: waiting, Fence: claimed[0].Fence, Token: dedup.Token{1}, Outcome: dedup.Success, Policy: policy,
		}})
		if err != nil || done[0].Kind != dedup.Done {
			t.Fatal(done, err)
		}
		pass(5 * time.Minute)
		if runs.of("waiting") != 0 {
			t.Error("it ran, and another had completed it")
		}
		if n := r.verdicts()[consumer.Superseded]; n != 0 {
			t.Errorf("%d suspected, and nothing ran twice", n)
		}
		r.wantUnsettled(0)
		if err := r.end(); err != nil {
			t.Error(err)
		}
	})
}
