package deadletter_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/deadletter"
)

func TestACanaryThatFailsStopsTheRest(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.handleBy(terminal)
		d.digest(orders(30)...)
		f := d.plan(deadletter.Selection{})
		stop := d.consume()
		r, err := d.q.Apply(t.Context(), f, deadletter.ApplyConfig{Canary: 5})
		var stopped *deadletter.StoppedError
		if !errors.As(err, &stopped) || r.Counts[deadletter.DidSend] != 5 {
			t.Errorf("%v, %+v", err, r)
		}
		time.Sleep(time.Minute)
		d.mend(nil)
		if r, err = d.q.Apply(t.Context(), d.plan(deadletter.Selection{}), deadletter.ApplyConfig{Canary: 5}); err != nil || r.Counts[deadletter.DidSend] != 30 {
			t.Errorf("%v, %+v", err, r)
		}
		time.Sleep(time.Minute)
		stop()
		for i := range 30 {
			d.once(fmt.Sprintf("o-%d", i))
		}
	})
}

func TestACanaryWithoutAConsumerGivesUp(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.handleBy(terminal)
		d.digest(`{"order_id":"a"}`, `{"order_id":"b"}`)
		r, err := d.q.Apply(t.Context(), d.plan(deadletter.Selection{}), deadletter.ApplyConfig{Canary: 1, CanaryWait: time.Minute})
		if !errors.As(err, new(*deadletter.StoppedError)) || r.Counts[deadletter.DidSend] != 1 {
			t.Errorf("%v, %+v", err, r)
		}
	})
}

func TestTooManyFailuresStopAnApplication(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.handleBy(terminal)
		d.digest(orders(400)...)
		f := d.plan(deadletter.Selection{})
		defer d.consume()()
		r, err := d.q.Apply(t.Context(), f, deadletter.ApplyConfig{MaxFailureRatio: 0.2, Rate: 20})
		if !errors.As(err, new(*deadletter.StoppedError)) || r.Counts[deadletter.DidSend] > 100 {
			t.Errorf("%v, %+v", err, r)
		}
	})
}

func TestWithoutARateFailuresStopAnApplicationBeforeAllIsSent(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.handleBy(terminal)
		d.digest(orders(200)...)
		f := d.plan(deadletter.Selection{})
		defer d.consume()()
		r, err := d.q.Apply(t.Context(), f, deadletter.ApplyConfig{MaxFailureRatio: 0.2})
		if !errors.As(err, new(*deadletter.StoppedError)) || r.Counts[deadletter.DidSend] != 40 {
			t.Errorf("%v, %+v", err, r)
		}
		time.Sleep(time.Minute) // those on their way fail, too
		d.mend(nil)
		r, err = d.q.Apply(t.Context(), d.plan(deadletter.Selection{}), deadletter.ApplyConfig{MaxFailureRatio: 0.2})
		if err != nil || r.Counts[deadletter.DidSend] != 200 || r.Answered != 200 || r.FailedAgain != 0 {
			t.Errorf("%v, %+v", err, r)
		}
	})
}

func TestThatTheLastCopiesFailedIsSeen(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.handleBy(terminal)
		d.digest(`{"order_id":"a"}`, `{"order_id":"b"}`)
		defer d.consume()()
		r, err := d.q.Apply(t.Context(), d.plan(deadletter.Selection{}), deadletter.ApplyConfig{MaxFailureRatio: 0.5})
		if !errors.As(err, new(*deadletter.StoppedError)) || r.Counts[deadletter.DidSend] != 2 || r.FailedAgain == 0 {
			t.Errorf("%v, %+v", err, r)
		}
	})
}

// What is in doubt is no success, and is not called a failure: a new plan would
// not send it.
func TestACanaryInDoubtStopsTheRest(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.handleBy(terminal)
		d.digest(orders(3)...)
		f := d.plan(deadletter.Selection{})
		defer d.consume()()
		d.mend(func(order) error { return consumer.InDoubt(errors.New("no answer")) })
		_, err := d.q.Apply(t.Context(), f, deadletter.ApplyConfig{Canary: 2})
		if !errors.As(err, new(*deadletter.StoppedError)) || !strings.Contains(err.Error(), "are in doubt") {
			t.Error(err)
		}
		want(t, "outcome", d.outcomes(f), map[deadletter.Outcome]int{deadletter.InDoubt: 2, deadletter.NotSent: 1})
	})
}

func TestAPlanWhoseCanaryFailedGoesOnOnceTheCauseIsMended(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.handleBy(terminal)
		d.digest(orders(12)...)
		f := d.plan(deadletter.Selection{})
		defer d.consume()()
		if _, err := d.q.Apply(t.Context(), f, deadletter.ApplyConfig{Canary: 3}); !errors.As(err, new(*deadletter.StoppedError)) {
			t.Fatal(err)
		}
		d.mend(nil)
		r, err := d.q.Apply(t.Context(), f, deadletter.ApplyConfig{Canary: 3})
		if err != nil || r.Counts[deadletter.DidBefore] != 3 || r.Counts[deadletter.DidSend] != 9 {
			t.Errorf("%v, %+v", err, r)
		}
		time.Sleep(time.Minute)
		want(t, "outcome", d.outcomes(f), map[deadletter.Outcome]int{deadletter.FailedAgain: 3, deadletter.Succeeded: 9})
	})
}
