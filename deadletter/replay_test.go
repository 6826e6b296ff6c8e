package deadletter_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/membroker"
	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
)

func TestLettersOfMendedCausesGoBackAndSucceedOnce(t *testing.T) {
	atEveryDesk(t, func(t *testing.T, d *desk) {
		d.handleBy(func(o order) error {
			switch {
			case strings.HasPrefix(o.ID, "gone"):
				return terminal(o)
			case strings.HasPrefix(o.ID, "flaky"):
				return errors.New("no connection")
			}
			return nil
		})
		d.produce(`{"order_id":"good-1"}`, `{"order_id":"gone-1"}`, `{"order_id":"flaky-1"}`, `v2 {"order_id":"new-1"}`, `{"no":"id"}`,
			`{"order_id":"good-1","cents":5}`)
		d.digest()
		if n := len(d.letters(deadletter.Filter{})); n != 5 {
			t.Fatalf("%d letters are open", n)
		}
		d.mend(nil)
		f := d.plan(deadletter.Selection{Who: "ann", Why: "customers entered"})
		want(t, "planned", f.Counts, map[deadletter.Action]int{deadletter.Reopen: 4, deadletter.Refuse: 1})
		want(t, "applied", d.apply(f, deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidSend: 4, deadletter.DidRefuse: 1})
		want(t, "outcome before", d.outcomes(f), map[deadletter.Outcome]int{deadletter.Waiting: 4, deadletter.Refused: 1})
		d.digest()
		want(t, "outcome", d.outcomes(f), map[deadletter.Outcome]int{deadletter.Succeeded: 3, deadletter.FailedAgain: 1, deadletter.Refused: 1})
		d.once("good-1", "gone-1", "flaky-1", "new-1")
		for _, e := range d.letters(deadletter.Filter{}) {
			if r := e.Letter.Reason; r != deadletter.ReasonKey && r != deadletter.ReasonConflict {
				t.Errorf("letter %s of %v is still %s", e.Letter.ID, e.Letter.Key, e.State())
			}
		}
	})
}

func TestAPlanAppliedTwiceTakesEffectOnce(t *testing.T) {
	atEveryDesk(t, func(t *testing.T, d *desk) {
		d.handleBy(terminal)
		d.digest(`{"order_id":"a"}`, `{"order_id":"b"}`, `v2 {"order_id":"c"}`)
		d.mend(nil)
		f := d.plan(deadletter.Selection{})
		want(t, "applied", d.apply(f, deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidSend: 3})
		want(t, "applied at once again", d.apply(f, deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidBefore: 3})
		if n := len(d.messages(d.destinations().Retry)); n != 3 {
			t.Errorf("%d copies were published", n)
		}
		d.digest()
		want(t, "applied again", d.apply(f, deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidBefore: 3})
		d.digest()
		d.once("a", "b", "c")
	})
}

func TestTwoOperatorsAtOnceSendEachLetterOnceAndTheSecondIsTold(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.handleBy(terminal)
		d.digest(`{"order_id":"a"}`, `{"order_id":"b"}`)
		d.mend(nil)
		first, second := d.plan(deadletter.Selection{Who: "ann"}), d.plan(deadletter.Selection{Who: "bob"})
		want(t, "first", d.apply(first, deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidSend: 2})
		want(t, "second", d.apply(second, deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidChange: 2})
		third := d.plan(deadletter.Selection{Who: "cid"})
		want(t, "third", third.Counts, map[deadletter.Action]int{deadletter.Skip: 2})
		d.digest()
		d.once("a", "b")
		want(t, "what became of the second", d.outcomes(second), map[deadletter.Outcome]int{deadletter.NotSent: 2})
	})
}

// A plan is frozen: what fails again while it is applied does not join it.
func TestWhatFailsAgainDoesNotJoinTheJob(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.handleBy(terminal)
		d.digest(`{"order_id":"a"}`)
		f := d.plan(deadletter.Selection{})
		for range 3 {
			d.apply(f, deadletter.ApplyConfig{})
			d.digest()
		}
		if d.runs["a"] != 2 {
			t.Errorf("the handler ran %d times", d.runs["a"])
		}
		want(t, "outcome", d.outcomes(f), map[deadletter.Outcome]int{deadletter.FailedAgain: 1})
	})
}

func TestALetterWhoseThirdRunFailedIsHeldUntilItIsApproved(t *testing.T) {
	for name, payload := range map[string]string{"with a key": `{"order_id":"a"}`, "without a key": `{"no":"id"}`} {
		t.Run(name, func(t *testing.T) {
			atEveryDesk(t, func(t *testing.T, d *desk) {
				d.handleBy(terminal)
				d.digest(payload)
				sent := 0
				for range 4 {
					f := d.plan(deadletter.Selection{})
					sent += d.apply(f, deadletter.ApplyConfig{})[deadletter.DidSend]
					d.digest()
				}
				held := d.letters(deadletter.Filter{})
				if sent != 2 || len(held) != 1 || held[0].State() != dedup.LetterHeld {
					t.Fatalf("sent %d times, letters %+v", sent, held)
				}
				if h := held[0].Letter.Headers; len(h) != 1 || h[0].Key != "traceparent" {
					t.Errorf("the original's headers have become %+v", h)
				}
				id := held[0].Letter.ID
				if err := d.q.Move(t.Context(), id, dedup.LetterOpen, "ann", "seen"); err != nil {
					t.Fatal(err)
				}
				f := d.plan(deadletter.Selection{})
				want(t, "approved", d.apply(f, deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidSend: 1})
				d.digest()
				want(t, "outcome", d.outcomes(f), map[deadletter.Outcome]int{deadletter.Held: 1})
			})
		})
	}
}

func TestADuplicateOfTheOriginalRunsTheReopenedRecordAndResolvesItsLetter(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.handleBy(terminal)
		d.digest(`{"order_id":"a"}`)
		d.mend(nil)
		f := d.plan(deadletter.Selection{})
		d.mem.FailPublish("orders.billing.retry", errors.New("no connection"))
		if _, err := d.q.Apply(t.Context(), f, deadletter.ApplyConfig{}); err == nil {
			t.Fatal("nothing was published, and nobody is told")
		}
		d.digest(`{"order_id":"a"}`)
		d.once("a")
		d.mem.FailPublish("orders.billing.retry", nil)
		want(t, "applied again", d.apply(f, deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidBefore: 1})
		if n := len(d.mem.Messages("orders.billing.retry")); n != 0 {
			t.Errorf("%d copies were sent of what had succeeded", n)
		}
		want(t, "outcome", d.outcomes(f), map[deadletter.Outcome]int{deadletter.Succeeded: 1})
		if open := d.letters(deadletter.Filter{}); len(open) != 0 {
			t.Errorf("open: %+v", open)
		}
	})
}

func TestWhatHasChangedSinceThePlanIsLeftAlone(t *testing.T) {
	atEveryDesk(t, func(t *testing.T, d *desk) {
		d.handleBy(terminal)
		d.digest(`{"order_id":"sent"}`, `{"order_id":"discarded"}`, `{"order_id":"resolved"}`, `{"order_id":"left"}`)
		d.mend(nil)
		f := d.plan(deadletter.Selection{})
		for _, e := range d.letters(deadletter.Filter{}) {
			var err error
			switch e.Letter.Key.ID {
			case "sent":
				d.apply(d.plan(deadletter.Selection{Filter: deadletter.Filter{Key: "sent"}}), deadletter.ApplyConfig{})
			case "discarded":
				err = d.q.Move(t.Context(), e.Letter.ID, dedup.LetterDiscarded, "ann", "a test order")
			case "resolved":
				err = d.q.Move(t.Context(), e.Letter.ID, dedup.LetterResolved, "ann", "done by hand")
			}
			if err != nil {
				t.Error(err)
			}
		}
		want(t, "applied", d.apply(f, deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidChange: 3, deadletter.DidSend: 1})
		d.digest()
		d.once("sent", "left")
		if d.runs["discarded"] != 1 || d.runs["resolved"] != 1 {
			t.Errorf("runs %v", d.runs)
		}
		want(t, "a new plan", d.plan(deadletter.Selection{}).Counts, map[deadletter.Action]int{})
	})
}

func TestAnOperationThatSucceededSinceThePlanIsNotRunAgain(t *testing.T) {
	atEveryDesk(t, func(t *testing.T, d *desk) {
		d.handleBy(terminal)
		d.digest(`{"order_id":"a"}`)
		d.mend(nil)
		f := d.plan(deadletter.Selection{})
		// Somebody opens the record by hand, and the sender sends it again.
		key := dedup.Key{Consumer: "billing", Scope: "order.create", ID: "a"}
		records, err := d.store.Lookup(t.Context(), []dedup.Key{key})
		if err != nil {
			t.Fatal(err)
		}
		r := records[0]
		answers, err := d.store.Apply(t.Context(), []dedup.Op{{Kind: dedup.Reopen, Key: key, Operator: &dedup.OperatorOp{
			Seen: dedup.Seen{State: r.State, Run: r.Run, Fence: r.Fence}, Job: "by hand", LetterRun: r.Run, Fingerprint: r.Fingerprint,
		}}})
		if err != nil || answers[0].Kind != dedup.Done {
			t.Fatal(err, answers)
		}
		d.digest(`{"order_id":"a"}`)
		want(t, "applied", d.apply(f, deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidChange: 1})
		d.digest()
		d.once("a")
		want(t, "a new plan", d.plan(deadletter.Selection{}).Counts, map[deadletter.Action]int{deadletter.Resolve: 1})
	})
}

func TestLettersThatRetentionHasRemovedAreGoneAndOthersGoOn(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.handleBy(terminal)
		d.digest(orders(20)...)
		d.mend(nil)
		f := d.plan(deadletter.Selection{})
		d.mem.DropBelow(d.q.Topic, 0, 3)
		got := d.apply(f, deadletter.ApplyConfig{})
		want(t, "applied", got, map[deadletter.Did]int{deadletter.DidMiss: 3, deadletter.DidSend: 17})
		d.digest()
		want(t, "outcome", d.outcomes(f), map[deadletter.Outcome]int{deadletter.Gone: 3, deadletter.Succeeded: 17})
	})
}

func TestAPointerLetterSendsTheMessageThatItPointsTo(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.handleBy(terminal)
		// It leaves room for the headers of a copy, and not for those of a letter.
		large := `{"order_id":"large","note":"` + strings.Repeat("x", 1<<20-350) + `"}`
		d.digest(large, `{"order_id":"other"}`)
		e := d.letters(deadletter.Filter{Key: "large"})
		if len(e) != 1 || !e[0].Letter.Pointer {
			t.Fatalf("%d letters, none of them a pointer", len(e))
		}
		d.mend(nil)
		f := d.plan(deadletter.Selection{})
		want(t, "applied", d.apply(f, deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidSend: 2})
		if !slices.ContainsFunc(d.mem.Messages("orders.billing.retry"), func(m membroker.Message) bool { return string(m.Value) == large }) {
			t.Error("no copy of the large message is sent")
		}
	})
}

func TestTheCopyIsTheOriginalWithoutWhatCommandsTheBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, to := range []deadletter.Target{deadletter.ToRetry, deadletter.ToSource} {
			d := newDesk(t)
			d.handleBy(terminal)
			partition := int32(1)
			original := brokers.Outgoing{
				Partition: &partition, Value: []byte("\xff{not text"),
				Headers: []brokers.Header{
					{Key: "a", Value: []byte{0, 0xff}}, {Key: "a", Value: nil}, {Key: "a", Value: []byte{}},
					{Key: "Nats-Msg-Id", Value: []byte("1")}, {Key: "nats-rollup", Value: []byte("all")}, {Key: "DL-forged", Value: []byte("1")},
				},
			}
			d.mem.Produce("orders", original)
			d.digest()
			d.apply(d.plan(deadletter.Selection{To: to}), deadletter.ApplyConfig{})
			topic := map[deadletter.Target]string{deadletter.ToRetry: "orders.billing.retry", deadletter.ToSource: "orders"}[to]
			all := d.mem.Messages(topic)
			last := all[len(all)-1]
			var own []string
			kept := slices.DeleteFunc(slices.Clone(last.Headers), func(h brokers.Header) bool {
				if deadletter.IsOwnHeader(h.Key) {
					own = append(own, h.Key)
				}
				return deadletter.IsOwnHeader(h.Key)
			})
			if !bytes.Equal(last.Value, original.Value) || last.Key != nil || fmt.Sprintf("%#v", kept) != fmt.Sprintf("%#v", original.Headers[:3]) {
				t.Errorf("to %s: %+v", to, last)
			}
			if slices.Sort(own); !slices.Equal(own, []string{"dl-id", "dl-replay-count", "dl-replay-job", "dl-replay-token"}) {
				t.Errorf("to %s: own headers %v", to, own)
			}
			if to == deadletter.ToSource && last.Partition != 1 {
				t.Errorf("it went to partition %d", last.Partition)
			}
		}
	})
}

// detour is a broker that letters reach the later the older their message is.
type detour struct {
	browsing
	letters string
}

func (d detour) Publish(ctx context.Context, messages []brokers.Outgoing) []error {
	if len(messages) > 0 && messages[0].Topic == d.letters {
		time.Sleep(time.Duration('c'-orderOf(messages[0].Value)) * time.Second)
	}
	return d.browsing.Publish(ctx, messages)
}

// orderOf is the letter that names an order.
func orderOf(payload []byte) byte { return payload[len(`{"order_id":"`)] }

func TestOfOneOrderingKeyTheOlderMessageGoesFirst(t *testing.T) {
	atEveryDesk(t, func(t *testing.T, d *desk) {
		d.broker = detour{browsing: d.broker, letters: d.q.Topic}
		d.handleBy(terminal)
		for _, id := range []string{"a", "b", "c"} {
			d.publishTo(d.publish, brokers.Outgoing{Key: []byte("customer-1"), Value: []byte(`{"order_id":"` + id + `"}`)})
		}
		d.digest()
		sequence := func(topic string) (ids string) {
			for _, m := range d.messages(topic) {
				ids += string(orderOf(m.Value))
			}
			return ids
		}
		if died := sequence(d.q.Topic); died != "cba" {
			t.Fatalf("the letters came in the order %s", died)
		}
		d.apply(d.plan(deadletter.Selection{}), deadletter.ApplyConfig{})
		if sent := sequence(d.destinations().Retry); sent != "abc" {
			t.Errorf("sent in the order %s", sent)
		}
	})
}

func TestAnUndecodableLetterOlderThanTheWindowIsRefusedAsExpired(t *testing.T) {
	atEveryDesk(t, func(t *testing.T, d *desk) {
		d.remember(day)
		d.digest(`v2 {"order_id":"a"}`)
		d.digest(`{"order_id":"a"}`) // corrected, and sent again by its sender
		d.once("a")
		d.wait(3 * day)
		d.digest()
		if r, _ := d.store.Lookup(t.Context(), []dedup.Key{{Consumer: "billing", Scope: "order.create", ID: "a"}}); r[0].State != dedup.Absent {
			t.Fatalf("not swept: %+v", r[0])
		}
		d.mend(nil)
		d.refused("a")
	})
}

func TestAKeyedOpenLetterKeepsItsRecordFromTheSweeper(t *testing.T) {
	atEveryDesk(t, func(t *testing.T, d *desk) {
		d.remember(day)
		d.handleBy(terminal)
		d.digest(`{"order_id":"a"}`)
		d.wait(10 * day)
		d.digest()
		d.mend(nil)
		f := d.plan(deadletter.Selection{})
		want(t, "planned", f.Counts, map[deadletter.Action]int{deadletter.Reopen: 1})
		d.apply(f, deadletter.ApplyConfig{})
		d.digest()
		d.once("a")
	})
}

func TestADiscardedLetterLeavesListsAndPlansAndTheSameBytesOpenANewOne(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.digest(`v2 {"order_id":"a"}`)
		id := d.letters(deadletter.Filter{})[0].Letter.ID
		if err := d.q.Move(t.Context(), id, dedup.LetterDiscarded, "ann", "a test"); err != nil {
			t.Fatal(err)
		}
		d.digest()
		if open := d.letters(deadletter.Filter{}); len(open) != 0 || d.plan(deadletter.Selection{}).Letters != 0 {
			t.Errorf("still there: %+v", open)
		}
		d.digest(`v2 {"order_id":"a"}`)
		if open := d.letters(deadletter.Filter{}); len(open) != 1 || open[0].Letter.ID == id {
			t.Errorf("open: %+v", open)
		}
	})
}

func TestAnAcceptedExpiredLetterRuns(t *testing.T) {
	atEveryDesk(t, func(t *testing.T, d *desk) {
		d.remember(day)
		d.digest(`v2 {"order_id":"a"}`)
		d.wait(3 * day)
		d.mend(nil)
		f := d.plan(deadletter.Selection{AcceptExpired: "the customer asks for it"})
		d.apply(f, deadletter.ApplyConfig{})
		d.digest()
		d.once("a")
		want(t, "outcome", d.outcomes(f), map[deadletter.Outcome]int{deadletter.Succeeded: 1})
	})
}

func TestExpiredLettersThatAPlanRefusesAreAcceptedWhenItIsApplied(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.digest(`v2 {"order_id":"a"}`, `{"no":"id"}`)
		time.Sleep(30 * 24 * time.Hour)
		d.mend(nil)
		f := d.plan(deadletter.Selection{Why: "mended"})
		want(t, "planned", f.Counts, map[deadletter.Action]int{deadletter.Refuse: 2})
		want(t, "applied", d.apply(f, deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidRefuse: 2})
		accept := deadletter.ApplyConfig{AcceptExpired: "the customer asks for it"}
		want(t, "accepted", d.apply(f, accept), map[deadletter.Did]int{deadletter.DidSend: 2})
		want(t, "accepted again", d.apply(f, accept), map[deadletter.Did]int{deadletter.DidBefore: 2})
		d.digest()
		d.once("a")
		want(t, "outcome", d.outcomes(f), map[deadletter.Outcome]int{deadletter.Succeeded: 1, deadletter.FailedAgain: 1})
	})
}

func TestLettersOfAnotherConsumerAreAnError(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.handleBy(terminal)
		d.digest(`{"order_id":"a"}`)
		q := deadletter.Queue{Topic: d.q.Topic, Consumer: "shipping", Broker: d.broker, Store: d.store}
		var text bytes.Buffer
		if _, err := q.Plan(t.Context(), deadletter.Selection{}, &text); !errors.As(err, new(*deadletter.ForeignError)) {
			t.Error(err)
		}
		if owner, err := q.Owner(t.Context()); owner != "billing" || err != nil {
			t.Errorf("%q, %v", owner, err)
		}
	})
}

func TestWhatSucceededWronglyRunsAgainFromItsSource(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.mend(nil)
		d.digest(`{"order_id":"early"}`)
		wrongFrom := time.Now()
		d.digest(`{"order_id":"a"}`, `{"order_id":"b"}`)
		var text bytes.Buffer
		plan, err := d.q.PlanRerun(t.Context(), deadletter.Rerun{Scope: "order.create", From: wrongFrom, Until: time.Now(), Who: "ann", Why: "wrong price"}, &text)
		if err != nil || plan.Letters != 2 {
			t.Fatalf("%+v, %v", plan, err)
		}
		f := d.readPlan(text.Bytes())
		for _, did := range []deadletter.Did{deadletter.DidSend, deadletter.DidBefore} {
			want(t, "applied", d.apply(f, deadletter.ApplyConfig{}), map[deadletter.Did]int{did: 2})
			d.digest()
		}
		want(t, "outcome", d.outcomes(f), map[deadletter.Outcome]int{deadletter.Succeeded: 2})
		if d.runs["early"] != 1 || d.runs["a"] != 2 || d.runs["b"] != 2 {
			t.Errorf("runs %v", d.runs)
		}
		// Of a record that ran again since, nobody can say what this plan came to.
		var again bytes.Buffer
		if _, err := d.q.PlanRerun(t.Context(), deadletter.Rerun{Scope: "order.create", ID: "a", Who: "ann", Why: "wrong again"}, &again); err != nil {
			t.Fatal(err)
		}
		d.apply(d.readPlan(again.Bytes()), deadletter.ApplyConfig{})
		d.digest()
		want(t, "outcome after another", d.outcomes(f), map[deadletter.Outcome]int{deadletter.Succeeded: 1, deadletter.Unknown: 1})
	})
}
