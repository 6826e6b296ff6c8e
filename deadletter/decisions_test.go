package deadletter_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
)

// Somebody opens the record by hand, the sender sends the order again, and it
// runs while letters are planned and sent.
func TestALetterWhoseOperationRunsIsLeftAlone(t *testing.T) {
	atEveryDesk(t, func(t *testing.T, d *desk) {
		d.handleBy(terminal)
		d.digest(`{"order_id":"a"}`)
		before := d.plan(deadletter.Selection{})
		d.operate(dedup.Reopen, "a", func(o *dedup.OperatorOp) { o.Job = "by hand" })
		done := make(chan struct{})
		d.handleBy(func(order) error {
			<-done
			return nil
		})
		stop := d.consume()
		d.produce(`{"order_id":"a"}`)
		time.Sleep(10 * time.Second)
		f := d.plan(deadletter.Selection{})
		want(t, "planned", f.Counts, map[deadletter.Action]int{deadletter.Skip: 1})
		want(t, "applied", d.apply(f, deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidSkip: 1})
		want(t, "what was planned before", d.apply(before, deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidChange: 1})
		if n := len(d.messages(d.destinations().Retry)); n != 0 {
			t.Errorf("%d copies were sent", n)
		}
		close(done)
		time.Sleep(20 * time.Second)
		stop()
		d.once("a")
		want(t, "a new plan", d.plan(deadletter.Selection{}).Counts, map[deadletter.Action]int{deadletter.Resolve: 1})
	})
}

// The window is of fourteen days. Of what others have written there is no record.
func TestLettersThatAreTenDaysOldAreSent(t *testing.T) {
	atEveryDesk(t, func(t *testing.T, d *desk) {
		d.handleBy(terminal)
		d.digest(`{"order_id":"a"}`, `v2 {"order_id":"b"}`)
		d.publishTo(d.q.Topic, brokers.Outgoing{Value: []byte(`{"order_id":"c"}`)})
		d.q.Read = deadletter.Foreign{
			Consumer: "billing", Topic: d.topic, Scope: "order.create", ID: func(*brokers.Delivery) (string, error) { return "c", nil },
		}.Read
		d.wait(10 * day)
		d.digest()
		d.mend(nil)
		f := d.plan(deadletter.Selection{})
		want(t, "planned", f.Counts, map[deadletter.Action]int{deadletter.Reopen: 2, deadletter.Send: 1})
		want(t, "applied", d.apply(f, deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidSend: 3})
		d.digest()
		want(t, "outcome", d.outcomes(f), map[deadletter.Outcome]int{deadletter.Succeeded: 3})
		d.once("a", "b", "c")
	})
}

// refusedUntilApproved expects of the only letter that died for reason that a
// plan sends it when somebody has approved it, and leaves it alone before.
func (d *desk) refusedUntilApproved(reason deadletter.Reason) {
	d.t.Helper()
	d.mend(nil)
	these := deadletter.Filter{Reasons: []deadletter.Reason{reason}}
	letters, ran := d.letters(these), d.runs["a"]
	if len(letters) != 1 {
		d.t.Fatalf("letters: %+v", letters)
	}
	f := d.plan(deadletter.Selection{Filter: these})
	want(d.t, "planned", f.Counts, map[deadletter.Action]int{deadletter.Refuse: 1})
	want(d.t, "applied", d.apply(f, deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidRefuse: 1})
	d.digest()
	if d.runs["a"] != ran {
		d.t.Errorf("it ran %d times more", d.runs["a"]-ran)
	}
	f = d.plan(deadletter.Selection{Filter: these, Approved: []string{letters[0].Letter.ID}})
	want(d.t, "approved", d.apply(f, deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidSend: 1})
	d.digest()
	want(d.t, "outcome", d.outcomes(f), map[deadletter.Outcome]int{deadletter.Succeeded: 1})
	d.once("a")
}

func TestALetterInDoubtIsRefusedUntilItIsApproved(t *testing.T) {
	atEveryDesk(t, func(t *testing.T, d *desk) {
		d.handleBy(func(order) error { return consumer.InDoubt(errors.New("no answer")) })
		d.digest(`{"order_id":"a"}`)
		d.refusedUntilApproved(deadletter.ReasonInDoubt)
	})
}

func TestALetterWithOtherContentThanItsRecordIsRefusedUntilItIsApproved(t *testing.T) {
	atEveryDesk(t, func(t *testing.T, d *desk) {
		d.handleBy(terminal)
		d.digest(`{"order_id":"a"}`)
		d.digest(`{"order_id":"a","cents":5}`)
		d.refusedUntilApproved(deadletter.ReasonConflict)
		d.refused("a") // the first one: its id has succeeded with other content
	})
}

// What is delivered again is answered from the records, the letter too.
func TestStatsTellOfLettersAndOfAPositionThatWasSetBackOnEveryBroker(t *testing.T) {
	atEveryDesk(t, func(t *testing.T, d *desk) {
		began := time.Now()
		d.handleBy(func(o order) error {
			if o.ID == "o-7" {
				return terminal(o)
			}
			return nil
		})
		life := func(what string, absorbed int64, payloads ...string) {
			t.Helper()
			c, stop := d.consumer()
			time.Sleep(20 * time.Second)
			d.produce(payloads...)
			time.Sleep(20 * time.Second)
			s, err := c.Stats(t.Context())
			if err != nil || s.Open != 1 || s.Reasons["terminal"] != 1 || s.Oldest.Before(began) || s.Oldest.After(began.Add(time.Minute)) {
				t.Errorf("%s: %+v, %v", what, s, err)
			}
			if s.Absorbed != absorbed {
				t.Errorf("%s: %d are absorbed, want %d", what, s.Absorbed, absorbed)
			}
			stop()
		}
		life("at first", 0, orders(30)...)
		life("a repeat like any other", 0, `{"order_id":"o-8"}`)
		d.close()
		if err := d.setBack(); err != nil {
			t.Fatal(err)
		}
		d.open()
		life("set back", 31, `{"order_id":"o-9"}`)
		ids := slices.Delete(orderIDs(30), 7, 8)
		d.once(ids...)
		if d.runs["o-7"] != 1 {
			t.Errorf("what had failed ran %d times", d.runs["o-7"])
		}
	})
}
