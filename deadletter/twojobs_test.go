package deadletter_test

import (
	"errors"
	"testing"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
)

// record is what the store knows of an order.
func (d *desk) record(id string) dedup.Record {
	d.t.Helper()
	records, err := d.store.Lookup(d.t.Context(), []dedup.Key{{Consumer: "billing", Scope: "order.create", ID: id}})
	if err != nil {
		d.t.Fatal(err)
	}
	return records[0]
}

// operate does what a person may do to a record.
func (d *desk) operate(kind dedup.Kind, id string, change ...func(*dedup.OperatorOp)) dedup.AnswerKind {
	d.t.Helper()
	r := d.record(id)
	o := &dedup.OperatorOp{
		Seen: dedup.Seen{State: r.State, Run: r.Run, Fence: r.Fence}, Who: "ann", Why: "by hand", LetterRun: r.Run, Fingerprint: r.Fingerprint,
	}
	for _, c := range change {
		c(o)
	}
	answers, err := d.store.Apply(d.t.Context(), []dedup.Op{{Kind: kind, Key: r.Key, Operator: o}})
	if err != nil {
		d.t.Fatal(err)
	}
	return answers[0].Kind
}

func TestOfTwoLettersOfOneKeyTheLaterRunsIsSentAndTheEarlierResolved(t *testing.T) {
	atEveryDesk(t, func(t *testing.T, d *desk) {
		d.handleBy(terminal)
		d.digest(`{"order_id":"a"}`)
		d.operate(dedup.Reopen, "a", func(o *dedup.OperatorOp) { o.Job = "by hand" })
		d.digest(`{"order_id":"a"}`)
		if open := d.letters(deadletter.Filter{}); len(open) != 2 {
			t.Fatalf("%d letters are open", len(open))
		}
		d.mend(nil)
		f := d.plan(deadletter.Selection{})
		want(t, "planned", f.Counts, map[deadletter.Action]int{deadletter.Resolve: 1, deadletter.Reopen: 1})
		d.apply(f, deadletter.ApplyConfig{})
		d.digest()
		d.once("a")
		if open := d.letters(deadletter.Filter{}); len(open) != 0 {
			t.Errorf("open: %+v", open)
		}
	})
}

// Others write a letter for each delivery, and no record says which is of now.
func TestOfTwoLettersOfOneKeyInOnePlanTheSecondIsLeftToAnother(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.mend(nil)
		d.foreign(keyed("a"), `{"order_id":"a"}`)
		d.mem.Produce("bare", brokers.Outgoing{Value: []byte(`{"order_id":"a"}`)})
		f := d.plan(deadletter.Selection{})
		want(t, "planned", f.Counts, map[deadletter.Action]int{deadletter.Send: 1, deadletter.Skip: 1})
		want(t, "applied", d.apply(f, deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidSend: 1, deadletter.DidSkip: 1})
		d.digest()
		d.once("a")
		want(t, "a new plan", d.plan(deadletter.Selection{}).Counts, map[deadletter.Action]int{deadletter.Resolve: 1})
	})
}

// Nobody has noted it, and what is not noted counts as open.
func TestALetterOfOthersThatIsResolvedLeavesListsAndPlans(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.mend(nil)
		d.digest(`{"order_id":"a"}`)
		d.foreign(keyed("a"), `{"order_id":"a"}`)
		f := d.plan(deadletter.Selection{})
		want(t, "planned", f.Counts, map[deadletter.Action]int{deadletter.Resolve: 1})
		d.apply(f, deadletter.ApplyConfig{DryRun: true})
		want(t, "outcome before", d.outcomes(f), map[deadletter.Outcome]int{deadletter.NotSent: 1})
		for range 2 {
			want(t, "applied", d.apply(f, deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidResolve: 1})
			want(t, "outcome", d.outcomes(f), map[deadletter.Outcome]int{deadletter.Resolved: 1})
			if open := d.letters(deadletter.Filter{}); len(open) != 0 {
				t.Errorf("open: %+v", open)
			}
		}
		want(t, "a new plan", d.plan(deadletter.Selection{}).Counts, map[deadletter.Action]int{})
		d.once("a")
	})
}

// A letter of the third run is held as soon as it is noted.
func TestAForgottenLetterOfTheThirdRunIsResolved(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.mend(nil)
		d.digest(`{"order_id":"a"}`)
		d.mem.Produce(d.q.Topic, deadletter.Encode(deadletter.Letter{
			ID: "third", Consumer: "billing", Reason: deadletter.ReasonTerminal, Run: 3, Key: d.record("a").Key,
			Value: []byte(`{"order_id":"a"}`), Fingerprint: d.record("a").Fingerprint, Source: deadletter.Source{Topic: "orders", Offset: 1},
		}, d.q.Topic))
		f := d.plan(deadletter.Selection{Filter: deadletter.Filter{States: []dedup.LetterState{dedup.LetterNone, dedup.LetterOpen}}})
		want(t, "applied", d.apply(f, deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidResolve: 1})
		want(t, "outcome", d.outcomes(f), map[deadletter.Outcome]int{deadletter.Resolved: 1})
	})
}

// A job takes a letter and stands still; a person frees it for another, which
// sends it; then the first goes on, and its copy comes late.
func TestALetterSentLateByAJobThatLostItRunsOnceAndHidesNothing(t *testing.T) {
	for _, payload := range []string{`{"order_id":"a"}`, `v2 {"order_id":"a"}`} {
		t.Run(payload, func(t *testing.T) {
			atEveryDesk(t, func(t *testing.T, d *desk) {
				d.handleBy(terminal)
				d.digest(payload)
				d.mend(nil)
				first := d.plan(deadletter.Selection{})
				w := wary{Store: d.store, Broker: d.broker, left: 3} // published, and not noted
				if _, err := w.queue(d.q).Apply(t.Context(), first, deadletter.ApplyConfig{}); !errors.Is(err, errDied) {
					t.Fatal(err)
				}
				id := d.letters(deadletter.Filter{})[0].Letter.ID
				if err := d.q.Move(t.Context(), id, dedup.LetterOpen, "ann", "that job is dead"); err != nil {
					t.Fatal(err)
				}
				second := d.plan(deadletter.Selection{})
				want(t, "second", d.apply(second, deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidSend: 1})
				want(t, "first goes on", d.apply(first, deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidChange: 1})
				d.digest()
				d.once("a")
				want(t, "outcome", d.outcomes(second), map[deadletter.Outcome]int{deadletter.Succeeded: 1})
				if open := d.letters(deadletter.Filter{}); len(open) != 0 {
					t.Errorf("open: %+v", open)
				}
			})
		})
	}
}

func TestARecordWithAnOpenLetterCannotBeDeletedUnderAPlan(t *testing.T) {
	atEveryDesk(t, func(t *testing.T, d *desk) {
		d.handleBy(terminal)
		d.digest(`{"order_id":"a"}`)
		f := d.plan(deadletter.Selection{})
		if got := d.operate(dedup.Delete, "a"); got != dedup.Refused {
			t.Errorf("delete was answered %v", got)
		}
		id := d.letters(deadletter.Filter{})[0].Letter.ID
		if err := d.q.Move(t.Context(), id, dedup.LetterDiscarded, "ann", "a test order"); err != nil {
			t.Fatal(err)
		}
		if got := d.operate(dedup.Delete, "a"); got != dedup.Done {
			t.Errorf("delete was answered %v", got)
		}
		want(t, "applied", d.apply(f, deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidChange: 1})
		d.mend(nil)
		d.digest()
		if d.runs["a"] != 1 {
			t.Errorf("it ran %d times", d.runs["a"])
		}
	})
}

func TestASecondJobIsToldThatTheFirstHasSentALetterWithoutAKey(t *testing.T) {
	atEveryDesk(t, func(t *testing.T, d *desk) {
		d.digest(`{"no":"id"}`)
		first, second := d.plan(deadletter.Selection{}), d.plan(deadletter.Selection{})
		want(t, "first", d.apply(first, deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidSend: 1})
		d.digest()
		want(t, "second", d.apply(second, deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidChange: 1})
		want(t, "first again", d.apply(first, deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidBefore: 1})
		want(t, "outcome of the first", d.outcomes(first), map[deadletter.Outcome]int{deadletter.FailedAgain: 1})
		want(t, "outcome of the second", d.outcomes(second), map[deadletter.Outcome]int{deadletter.NotSent: 1})
	})
}
