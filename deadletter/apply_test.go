package deadletter_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
)

func TestARateIsKept(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.handleBy(terminal)
		d.digest(orders(101)...)
		began := time.Now()
		d.apply(d.plan(deadletter.Selection{}), deadletter.ApplyConfig{Rate: 5})
		if took := time.Since(began); took < 20*time.Second || took > 21*time.Second {
			t.Errorf("101 copies at 5 a second took %v", took)
		}
	})
}

// What was not sent while an application waited is not made up for: the handlers
// have live traffic to do as well.
func TestARateIsKeptAlsoAfterAWait(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.handleBy(terminal)
		d.digest(orders(21)...)
		d.mend(nil)
		f := d.plan(deadletter.Selection{})
		go func() {
			time.Sleep(time.Minute) // the canary waits for so long
			stop := d.consume()
			time.Sleep(time.Minute)
			stop()
		}()
		var sent []time.Time
		d.apply(f, deadletter.ApplyConfig{Rate: 5, Canary: 1, Each: func(deadletter.Result) { sent = append(sent, time.Now()) }})
		if took := sent[20].Sub(sent[1]); took < 3500*time.Millisecond {
			t.Errorf("20 copies, at 5 a second, took %v after a minute's wait", took)
		}
		time.Sleep(2 * time.Minute) // the consumer ends
	})
}

// A topic that is full or was removed, or a right that is missing: who waits for
// such copies waits for ever.
func TestWhatNoCopyIsConfirmedOfIsNotSent(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.handleBy(terminal)
		d.digest(`{"order_id":"a"}`, `v2 {"order_id":"b"}`)
		d.mend(nil)
		d.digest(`{"order_id":"c"}`)
		var text bytes.Buffer
		if _, err := d.q.PlanRerun(t.Context(), deadletter.Rerun{Scope: "order.create", ID: "c", Who: "ann", Why: "wrong price"}, &text); err != nil {
			t.Fatal(err)
		}
		for _, f := range []*deadletter.PlanFile{d.plan(deadletter.Selection{}), d.readPlan(text.Bytes())} {
			refusing := *d.q
			refusing.Broker = mute{d.broker}
			if r, err := refusing.Apply(t.Context(), f, deadletter.ApplyConfig{}); !errors.Is(err, brokers.ErrNoDestination) || r.Counts[deadletter.DidFail] != f.Letters {
				t.Fatalf("%+v, %v", r, err)
			}
			want(t, "outcome without a copy", d.outcomes(f), map[deadletter.Outcome]int{deadletter.NotSent: f.Letters})
			want(t, "applied again", d.apply(f, deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidSend: f.Letters})
			want(t, "outcome with one", d.outcomes(f), map[deadletter.Outcome]int{deadletter.Waiting: f.Letters})
			d.digest()
			want(t, "outcome", d.outcomes(f), map[deadletter.Outcome]int{deadletter.Succeeded: f.Letters})
		}
	})
}

func TestADryRunChangesNothing(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.handleBy(terminal)
		d.digest(`{"order_id":"a"}`)
		f := d.plan(deadletter.Selection{})
		before := d.store.Info().Sequence
		want(t, "would be", d.apply(f, deadletter.ApplyConfig{DryRun: true, Canary: 1}), map[deadletter.Did]int{deadletter.DidSend: 1})
		if n := len(d.mem.Messages("orders.billing.retry")); n != 0 || d.store.Info().Sequence != before {
			t.Errorf("%d copies, store %d → %d", n, before, d.store.Info().Sequence)
		}
	})
}

func TestAPlanThatIsCutChangedOrForAnotherIsRefused(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.handleBy(terminal)
		d.digest(`{"order_id":"a"}`, `{"order_id":"b"}`)
		whole := string(d.planText(deadletter.Selection{}))
		for name, wrong := range map[string]string{
			"empty":      "",
			"garbage":    "garbage\n",
			"cut":        whole[:len(whole)-5],
			"a line off": whole[:strings.LastIndexByte(strings.TrimSpace(whole), '\n')+1],
			"changed":    strings.Replace(whole, `"action":"reopen"`, `"action":"send"`, 1),
			"longer":     strings.Replace(whole, `"expires":"2`, `"expires":"3`, 1),
			"newer":      strings.Replace(whole, `"onceward_plan":1`, `"onceward_plan":2`, 1),
		} {
			if _, err := deadletter.ReadPlan(strings.NewReader(wrong)); err == nil {
				t.Errorf("%s: it is read", name)
			}
		}
		f := d.readPlan([]byte(whole))
		for _, q := range []deadletter.Queue{
			{Topic: d.q.Topic, Consumer: "shipping", Broker: d.broker, Store: d.store},
			{Topic: "other.billing.dlq", Consumer: "billing", Broker: d.broker, Store: d.store},
			{Topic: d.q.Topic, Consumer: "billing", Broker: d.broker, Store: newDesk(t).store},
		} {
			if _, err := q.Apply(t.Context(), f, deadletter.ApplyConfig{}); !errors.Is(err, deadletter.ErrRefused) {
				t.Errorf("%+v: %v", q, err)
			}
		}
	})
}

func TestAnExpiredPlanEndsWhatItBeganAndBeginsNothing(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.handleBy(terminal)
		d.digest(`{"order_id":"a"}`, `{"order_id":"b"}`)
		d.mend(nil)
		f := d.plan(deadletter.Selection{ExpiresIn: time.Hour})
		w := wary{Store: d.store, Broker: d.broker, left: 2} // dies when it has opened the first
		q := w.queue(d.q)
		if _, err := q.Apply(t.Context(), f, deadletter.ApplyConfig{Rate: 4}); !errors.Is(err, errDied) {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		want(t, "applied", d.apply(f, deadletter.ApplyConfig{Rate: 4}), map[deadletter.Did]int{deadletter.DidSend: 1, deadletter.DidSkip: 1})
		d.digest()
		want(t, "outcome", d.outcomes(f), map[deadletter.Outcome]int{deadletter.Succeeded: 1, deadletter.NotSent: 1})
	})
}

var errDied = errors.New("died")

// wary ends everything after so many writes: the last of them takes effect,
// unless it is before.
type wary struct {
	deadletter.Store
	deadletter.Broker
	left   int
	before bool
	dead   bool
}

func (w *wary) queue(of *deadletter.Queue) *deadletter.Queue {
	return &deadletter.Queue{Topic: of.Topic, Consumer: of.Consumer, Broker: w, Store: w}
}

// step says whether the process dies before or after this write.
func (w *wary) step() (before, after bool) {
	w.left--
	w.dead = w.dead || w.left <= 0
	return w.dead && (w.before || w.left < 0), w.dead
}

func (w *wary) Apply(ctx context.Context, ops []dedup.Op) ([]dedup.Answer, error) {
	before, after := w.step()
	if before {
		return nil, errDied
	}
	a, err := w.Store.Apply(ctx, ops)
	if after {
		return nil, errDied
	}
	return a, err
}

func (w *wary) Publish(ctx context.Context, messages []brokers.Outgoing) []error {
	before, after := w.step()
	var errs []error
	if !before {
		errs = w.Broker.Publish(ctx, messages)
	}
	if before || after {
		errs = slices.Repeat([]error{errDied}, len(messages))
	}
	return errs
}

// Killed after, or before, any write of an application and continued, each
// letter has one outcome and each effect happens once.
func TestAnApplicationThatDiesAtAnyStepIsContinued(t *testing.T) {
	for _, running := range []bool{false, true} {
		for steps := 1; ; steps++ {
			died := false
			for _, before := range []bool{false, true} {
				atDesk(t, func(t *testing.T, d *desk) {
					d.handleBy(terminal)
					for i := range 12 {
						d.produce(fmt.Sprintf(`{"order_id":"o-%d"}`, i), fmt.Sprintf(`v2 {"order_id":"new-%d"}`, i))
					}
					d.digest()
					d.mend(nil)
					f := d.plan(deadletter.Selection{})
					if running {
						defer d.consume()()
					}
					w := wary{Store: d.store, Broker: d.broker, left: steps, before: before}
					_, err := w.queue(d.q).Apply(t.Context(), f, deadletter.ApplyConfig{Rate: 40})
					died = died || err != nil
					if err != nil && !errors.Is(err, errDied) {
						t.Fatal(err)
					}
					if steps%2 == 0 {
						time.Sleep(time.Minute) // what was sent is answered before it goes on
					}
					did := d.apply(f, deadletter.ApplyConfig{})
					if did[deadletter.DidSend]+did[deadletter.DidBefore] != 24 {
						t.Errorf("applied: %v", did)
					}
					if !running {
						d.digest()
					} else {
						time.Sleep(time.Minute)
					}
					want(t, "outcome", d.outcomes(f), map[deadletter.Outcome]int{deadletter.Succeeded: 24})
					for i := range 12 {
						d.once(fmt.Sprintf("o-%d", i), fmt.Sprintf("new-%d", i))
					}
					if open := d.letters(deadletter.Filter{}); len(open) != 0 {
						t.Errorf("%d letters are open", len(open))
					}
				})
			}
			if !died {
				break
			}
		}
	}
}
