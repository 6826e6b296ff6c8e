package deadletter_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
)

// meddler is a store in which something happens before the next write.
type meddler struct {
	deadletter.Store
	before func()
	blind  bool // and that knows no letters
}

func (m *meddler) Apply(ctx context.Context, ops []dedup.Op) ([]dedup.Answer, error) {
	if before := m.before; before != nil {
		m.before = nil
		before()
	}
	return m.Store.Apply(ctx, ops)
}

func (m *meddler) Letters(ctx context.Context, ids []string) ([]dedup.Letter, error) {
	if m.blind {
		return make([]dedup.Letter, len(ids)), nil
	}
	return m.Store.Letters(ctx, ids)
}

// withStore is the desk's queue over another store.
func (d *desk) withStore(s deadletter.Store) *deadletter.Queue {
	q := *d.q
	q.Store = s
	return &q
}

// foreign puts a message of others into a topic of theirs, from which the queue
// reads.
func (d *desk) foreign(f deadletter.Foreign, payload string, headers ...brokers.Header) {
	f.Consumer, f.Topic = "billing", "orders"
	d.mem.AddTopic("bare", 1)
	d.mem.Produce("bare", brokers.Outgoing{Value: []byte(payload), Headers: headers})
	d.q.Topic, d.q.Read = "bare", f.Read
	d.digest() // so that the retry topic is there
}

func keyed(id string) deadletter.Foreign {
	return deadletter.Foreign{Scope: "order.create", ID: func(*brokers.Delivery) (string, error) { return id, nil }}
}

func TestAPlanHasNoMoreLettersThanItsLimit(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.handleBy(terminal)
		d.digest(orders(20)...)
		want(t, "planned", d.plan(deadletter.Selection{Filter: deadletter.Filter{Limit: 3}}).Counts, map[deadletter.Action]int{deadletter.Reopen: 3})
	})
}

// The consumer has published a letter and notes it a moment after the plan.
func TestALetterThatIsNotedAfterThePlanIsSent(t *testing.T) {
	for _, payload := range []string{`{"order_id":"a"}`, `v2 {"order_id":"a"}`} {
		atDesk(t, func(t *testing.T, d *desk) {
			d.handleBy(terminal)
			d.digest(payload)
			d.mend(nil)
			var text bytes.Buffer
			if _, err := d.withStore(&meddler{Store: d.store, blind: true}).Plan(t.Context(), deadletter.Selection{}, &text); err != nil {
				t.Fatal(err)
			}
			f := d.readPlan(text.Bytes())
			want(t, "applied", d.apply(f, deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidSend: 1})
			want(t, "outcome before", d.outcomes(f), map[deadletter.Outcome]int{deadletter.Waiting: 1})
			d.digest()
			want(t, "outcome", d.outcomes(f), map[deadletter.Outcome]int{deadletter.Succeeded: 1})
			d.once("a")
		})
	}
}

// The store has no note of what others have written until it is sent.
func TestALetterOfOthersHasTheOutcomeOfItsCopy(t *testing.T) {
	for name, f := range map[string]deadletter.Foreign{"with a key": keyed("a"), "without a key": {}} {
		t.Run(name, func(t *testing.T) {
			atDesk(t, func(t *testing.T, d *desk) {
				d.mend(nil)
				d.foreign(f, `{"order_id":"a"}`)
				plan := d.plan(deadletter.Selection{})
				stop := d.consume()
				defer stop()
				want(t, "applied", d.apply(plan, deadletter.ApplyConfig{Canary: 1}), map[deadletter.Did]int{deadletter.DidSend: 1})
				want(t, "outcome", d.outcomes(plan), map[deadletter.Outcome]int{deadletter.Succeeded: 1})
				d.once("a")
			})
		})
	}
}

func TestAnApplicationThatDiesWhenItHasNotedLettersOfOthersGoesOn(t *testing.T) {
	for name, f := range map[string]deadletter.Foreign{"with a key": keyed("a"), "without a key": {}} {
		t.Run(name, func(t *testing.T) {
			atDesk(t, func(t *testing.T, d *desk) {
				d.mend(nil)
				d.foreign(f, `{"order_id":"a"}`)
				plan := d.plan(deadletter.Selection{})
				w := wary{Store: d.store, Broker: d.broker, left: 1}
				q := w.queue(d.q)
				q.Read = d.q.Read
				if _, err := q.Apply(t.Context(), plan, deadletter.ApplyConfig{}); !errors.Is(err, errDied) {
					t.Fatal(err)
				}
				want(t, "applied", d.apply(plan, deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidSend: 1})
				d.digest()
				want(t, "outcome", d.outcomes(plan), map[deadletter.Outcome]int{deadletter.Succeeded: 1})
				d.once("a")
			})
		})
	}
}

func TestTheRecordOfALetterThatIsDiscardedWhileItIsTakenStaysFinished(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.handleBy(terminal)
		d.digest(`{"order_id":"a"}`)
		d.mend(nil)
		f := d.plan(deadletter.Selection{})
		id := d.letters(deadletter.Filter{})[0].Letter.ID
		q := d.withStore(&meddler{Store: d.store, before: func() {
			if err := d.q.Move(t.Context(), id, dedup.LetterDiscarded, "ann", "a test order"); err != nil {
				t.Error(err)
			}
		}})
		r, err := q.Apply(t.Context(), f, deadletter.ApplyConfig{})
		if err != nil {
			t.Fatal(err)
		}
		want(t, "applied", r.Counts, map[deadletter.Did]int{deadletter.DidChange: 1})
		d.digest(`{"order_id":"a"}`) // a late repeat
		if got := d.record("a"); got.State != dedup.Failed || d.runs["a"] != 1 {
			t.Errorf("the record is %v, and it ran %d times", got.State, d.runs["a"])
		}
	})
}

// A job takes a letter and dies before it opens the record, which somebody else
// opens then.
func TestALetterWhoseRecordMovedOnBeforeItWasOpenedIsGivenBack(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.handleBy(terminal)
		d.digest(`{"order_id":"a"}`)
		d.mend(nil)
		first := d.plan(deadletter.Selection{})
		w := wary{Store: d.store, Broker: d.broker, left: 1}
		if _, err := w.queue(d.q).Apply(t.Context(), first, deadletter.ApplyConfig{}); !errors.Is(err, errDied) {
			t.Fatal(err)
		}
		d.operate(dedup.Reopen, "a", func(o *dedup.OperatorOp) { o.Job = "by hand" })
		want(t, "first goes on", d.apply(first, deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidChange: 1})
		second := d.plan(deadletter.Selection{})
		want(t, "second", d.apply(second, deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidSend: 1})
		d.digest()
		d.once("a")
	})
}

// A job takes a letter and dies; then another message succeeds under its id.
func TestALetterWhoseIdSucceedsWithOtherContentIsNotResolvedByIt(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.mend(nil)
		d.foreign(keyed("a"), `{"order_id":"a"}`)
		f := d.plan(deadletter.Selection{})
		w := wary{Store: d.store, Broker: d.broker, left: 2}
		q := w.queue(d.q)
		q.Read = d.q.Read
		if _, err := q.Apply(t.Context(), f, deadletter.ApplyConfig{}); !errors.Is(err, errDied) {
			t.Fatal(err)
		}
		d.digest(`{"order_id":"a","cents":5}`)
		want(t, "applied", d.apply(f, deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidSend: 1})
		d.digest()
		want(t, "outcome", d.outcomes(f), map[deadletter.Outcome]int{deadletter.FailedAgain: 1})
		own := newQueueOf(d)
		var conflicts int
		for e, err := range own.Letters(t.Context(), deadletter.Filter{Reasons: []deadletter.Reason{deadletter.ReasonConflict}}) {
			if err != nil {
				t.Fatal(err)
			}
			if string(e.Letter.Value) == `{"order_id":"a"}` {
				conflicts++
			}
		}
		if conflicts != 1 {
			t.Errorf("%d letters tell of the conflict", conflicts)
		}
	})
}

// newQueueOf is the queue of the consumer's own letters.
func newQueueOf(d *desk) *deadletter.Queue {
	return &deadletter.Queue{Topic: d.broker.Destinations("billing", "orders").DeadLetter, Consumer: "billing", Broker: d.broker, Store: d.store}
}

// Two processes apply one plan: the second has looked before the first took the
// letter, whose copy is on its way.
func TestOnePlanAppliedByTwoAtOnceKeepsTheTokenOfTheCopy(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.digest(`v2 {"order_id":"a"}`)
		d.mend(nil)
		text := d.planText(deadletter.Selection{})
		q := d.withStore(&meddler{Store: d.store, before: func() {
			w := wary{Store: d.store, Broker: d.broker, left: 3} // published, and not noted
			if _, err := w.queue(d.q).Apply(t.Context(), d.readPlan(text), deadletter.ApplyConfig{}); !errors.Is(err, errDied) {
				t.Error(err)
			}
		}})
		r, err := q.Apply(t.Context(), d.readPlan(text), deadletter.ApplyConfig{})
		if err != nil {
			t.Fatal(err)
		}
		want(t, "the second", r.Counts, map[deadletter.Did]int{deadletter.DidChange: 1})
		d.digest()
		d.once("a")
		want(t, "outcome", d.outcomes(d.readPlan(text)), map[deadletter.Outcome]int{deadletter.Succeeded: 1})
	})
}

// The second process has looked before the first sent the letter, whose copy has
// died since: it is open, as it was then.
func TestALetterThatHasDiedAgainSinceItWasSeenIsNotTaken(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.digest(`v2 {"order_id":"a"}`)
		text := d.planText(deadletter.Selection{})
		q := d.withStore(&meddler{Store: d.store, before: func() {
			want(t, "the first", d.apply(d.readPlan(text), deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidSend: 1})
			d.digest()
		}})
		r, err := q.Apply(t.Context(), d.readPlan(text), deadletter.ApplyConfig{})
		if err != nil {
			t.Fatal(err)
		}
		want(t, "the second", r.Counts, map[deadletter.Did]int{deadletter.DidChange: 1})
		if n := d.letters(deadletter.Filter{})[0].Note; n.Run != 2 || n.Job != "" {
			t.Errorf("the letter: %+v", n)
		}
	})
}

// The consumer has failed an operation and cannot publish its letter so far; the
// same message lies in a topic of others.
func TestANoteForALetterOfOthersLeavesAnOwedLetterOwed(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.handleBy(terminal)
		dead := d.q.Topic
		d.mem.FailPublish(dead, errors.New("no connection"))
		d.produce(`{"order_id":"a"}`)
		d.foreign(keyed("a"), `{"order_id":"a"}`)
		if !d.record("a").Owed {
			t.Fatal("nothing is owed")
		}
		e := d.letters(deadletter.Filter{})[0]
		if err := d.q.Note(t.Context(), &e); !errors.Is(err, deadletter.ErrRefused) {
			t.Errorf("noted: %v", err)
		}
		d.mem.FailPublish(dead, nil)
		d.digest()
		if n := len(d.mem.Messages(dead)); n != 1 {
			t.Errorf("%d letters were written", n)
		}
	})
}

// bounded is a store that refuses who asks to open a record.
type bounded struct{ deadletter.Store }

func (b bounded) Apply(ctx context.Context, ops []dedup.Op) ([]dedup.Answer, error) {
	for i := range ops {
		if ops[i].Kind == dedup.Reopen {
			return nil, brokers.ErrUnauthorized
		}
	}
	return b.Store.Apply(ctx, ops)
}

func TestWhoMayNotOpenARecordLeavesItsLetterFree(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.handleBy(terminal)
		d.digest(`{"order_id":"a"}`, `{"order_id":"b"}`)
		d.mend(nil)
		if _, err := d.withStore(bounded{d.store}).Apply(t.Context(), d.plan(deadletter.Selection{}), deadletter.ApplyConfig{}); !errors.Is(err, brokers.ErrUnauthorized) {
			t.Fatal(err)
		}
		want(t, "another's", d.apply(d.plan(deadletter.Selection{}), deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidSend: 2})
		d.digest()
		d.once("a", "b")
	})
}
