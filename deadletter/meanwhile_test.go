package deadletter_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
	d.broker.AddTopic("bare", 1)
	d.broker.Produce("bare", brokers.Outgoing{Value: []byte(payload), Headers: headers})
	d.q.Topic, d.q.Read = "bare", f.Read
	d.digest() // so that the retry topic is there
}

func keyed(id string) deadletter.Foreign {
	return deadletter.Foreign{Scope: "order.create", ID: func(*brokers.Delivery) (string, error) { return id, nil }}
}

func TestAPlanHasNoMoreLettersThanItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.handleBy(terminal)
		for i := range 20 {
			d.produce(fmt.Sprintf(`{"order_id":"o-%d"}`, i))
		}
		d.digest()
		want(t, "planned", d.plan(deadletter.Selection{Filter: deadletter.Filter{Limit: 3}}).Counts, map[deadletter.Action]int{deadletter.Reopen: 3})
	})
}

// The consumer has published a letter and notes it a moment after the plan.
func TestALetterThatIsNotedAfterThePlanIsSent(t *testing.T) {
	for _, payload := range []string{`{"order_id":"a"}`, `v2 {"order_id":"a"}`} {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(t)
			d.handleBy(terminal)
			d.produce(payload)
			d.digest()
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
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t)
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
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t)
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
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.handleBy(terminal)
		d.produce(`{"order_id":"a"}`)
		d.digest()
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
		d.produce(`{"order_id":"a"}`) // a late repeat
		d.digest()
		if got := d.record("a"); got.State != dedup.Failed || d.runs["a"] != 1 {
			t.Errorf("the record is %v, and it ran %d times", got.State, d.runs["a"])
		}
	})
}

// A job takes a letter and dies before it opens the record, which somebody else
// opens then.
func TestALetterWhoseRecordMovedOnBeforeItWasOpenedIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.handleBy(terminal)
		d.produce(`{"order_id":"a"}`)
		d.digest()
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
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.mend(nil)
		d.foreign(keyed("a"), `{"order_id":"a"}`)
		f := d.plan(deadletter.Selection{})
		w := wary{Store: d.store, Broker: d.broker, left: 2}
		q := w.queue(d.q)
		q.Read = d.q.Read
		if _, err := q.Apply(t.Context(), f, deadletter.ApplyConfig{}); !errors.Is(err, errDied) {
			t.Fatal(err)
		}
		d.produce(`{"order_id":"a","cents":5}`)
		d.digest()
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
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.produce(`v2 {"order_id":"a"}`)
		d.digest()
		d.mend(nil)
		text := d.planText(deadletter.Selection{})
		q := d.withStore(&meddler{Store: d.store, before: func() {
			w := wary{Store: d.store, Broker: d.broker, left: 2} // published, and not noted
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

// The corrected message has run and is forgotten by the time when the plan,
// made a moment before, is applied.
func TestALetterThatExpiresBetweenPlanAndApplyIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.produce(`v2 {"order_id":"a"}`)
		d.digest()
		d.produce(`{"order_id":"a"}`)
		d.digest()
		time.Sleep(14*24*time.Hour - 10*time.Minute)
		d.mend(nil)
		f := d.plan(deadletter.Selection{})
		want(t, "planned", f.Counts, map[deadletter.Action]int{deadletter.Send: 1})
		time.Sleep(20 * time.Hour)
		d.digest()
		want(t, "applied", d.apply(f, deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidRefuse: 1})
		d.digest()
		d.once("a")
	})
}

func TestARepeatThatCameTooLateIsNotSentUnlessItIsAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.produce(`v2 {"order_id":"a"}`)
		d.digest()
		d.mend(nil)
		d.apply(d.plan(deadletter.Selection{}), deadletter.ApplyConfig{})
		d.digest()
		time.Sleep(16 * 24 * time.Hour)
		d.digest()
		sent := d.broker.Messages("orders.billing.retry")[0]
		d.broker.Produce("orders.billing.retry", brokers.Outgoing{Key: sent.Key, Value: sent.Value, Headers: sent.Headers})
		d.digest()
		f := d.plan(deadletter.Selection{})
		want(t, "planned", f.Counts, map[deadletter.Action]int{deadletter.Refuse: 1})
		d.apply(f, deadletter.ApplyConfig{})
		d.digest()
		d.once("a")
	})
}

// cutter ends every browse after so many messages.
type cutter struct {
	deadletter.Broker
	after int
}

var errCut = errors.New("the stream was cut")

func (c *cutter) Browse(ctx context.Context, topic string, from brokers.From) iter.Seq2[*brokers.Delivery, error] {
	return func(yield func(*brokers.Delivery, error) bool) {
		n := 0
		for d, err := range c.Broker.Browse(ctx, topic, from) {
			if n++; n > c.after {
				yield(nil, errCut)
				return
			}
			if !yield(d, err) {
				return
			}
		}
	}
}

// Who waits for a canary, or keeps to a rate, reads on after a while, when a peer
// may have given up.
func TestAnApplicationGoesOnWhereItsReadingWasCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.handleBy(terminal)
		for i := range 20 {
			d.produce(fmt.Sprintf(`{"order_id":"o-%d"}`, i))
		}
		d.digest()
		f := d.plan(deadletter.Selection{})
		q := *d.q
		q.Broker = &cutter{Broker: d.broker, after: 3}
		r, err := q.Apply(t.Context(), f, deadletter.ApplyConfig{})
		if err != nil {
			t.Fatal(err)
		}
		want(t, "applied", r.Counts, map[deadletter.Did]int{deadletter.DidSend: 20})
		q.Broker = &cutter{Broker: d.broker}
		if _, err := q.Apply(t.Context(), d.plan(deadletter.Selection{Filter: deadletter.Filter{States: []dedup.LetterState{dedup.LetterSent}}}), deadletter.ApplyConfig{}); err != nil {
			t.Error(err)
		}
	})
}

// The same topic, consumer and store, and the address of another broker.
func TestAPlanIsRefusedWhereAnotherTopicHasTheName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.handleBy(terminal)
		d.produce(`{"order_id":"a"}`)
		d.digest()
		f := d.plan(deadletter.Selection{})
		d.broker.RemoveTopic(d.q.Topic)
		d.broker.AddTopic(d.q.Topic, 1)
		if _, err := d.q.Apply(t.Context(), f, deadletter.ApplyConfig{}); !errors.Is(err, deadletter.ErrRefused) {
			t.Errorf("applied: %v", err)
		}
		notes, err := d.store.Letters(t.Context(), []string{deadletter.ID(d.record("a").Key, d.record("a").Opened)})
		if err != nil || notes[0].State != dedup.LetterOpen {
			t.Errorf("the letter is %s: %v", notes[0].State, err)
		}
	})
}

// The consumer has failed an operation and cannot publish its letter so far; the
// same message lies in a topic of others.
func TestANoteForALetterOfOthersLeavesAnOwedLetterOwed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.handleBy(terminal)
		dead := d.q.Topic
		d.broker.FailPublish(dead, errors.New("no connection"))
		d.produce(`{"order_id":"a"}`)
		d.foreign(keyed("a"), `{"order_id":"a"}`)
		if !d.record("a").Owed {
			t.Fatal("nothing is owed")
		}
		e := d.letters(deadletter.Filter{})[0]
		if err := d.q.Note(t.Context(), &e); !errors.Is(err, deadletter.ErrRefused) {
			t.Errorf("noted: %v", err)
		}
		d.broker.FailPublish(dead, nil)
		d.digest()
		if n := len(d.broker.Messages(dead)); n != 1 {
			t.Errorf("%d letters were written", n)
		}
	})
}

// As TestAnUndecodableLetterOlderThanTheWindowIsRefusedAsExpired, where nobody
// says how short the window is.
func TestAPlanFindsAShorterWindowInTheRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.window = 24 * time.Hour
		d.produce(`v2 {"order_id":"a"}`)
		d.digest()
		d.produce(`{"order_id":"a"}`)
		d.digest()
		time.Sleep(3 * 24 * time.Hour)
		d.produce(`{"order_id":"b"}`)
		d.digest()
		if got := d.record("a"); got.State != dedup.Absent {
			t.Fatalf("not swept: %+v", got)
		}
		d.mend(nil)
		f := d.plan(deadletter.Selection{})
		want(t, "planned", f.Counts, map[deadletter.Action]int{deadletter.Refuse: 1})
		d.apply(f, deadletter.ApplyConfig{})
		d.digest()
		d.once("a")
	})
}

// weigher is a broker that knows the most bytes of one publish, and all ids.
type weigher struct {
	deadletter.Broker
	most int
	ids  []string
}

func (w *weigher) Publish(ctx context.Context, messages []brokers.Outgoing) []error {
	n := 0
	for i := range messages {
		n += len(messages[i].Value)
		w.ids = append(w.ids, messages[i].ID)
	}
	w.most = max(w.most, n)
	return w.Broker.Publish(ctx, messages)
}

func TestLargeLettersAreSentAFewAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.handleBy(terminal)
		const letters, size = 60, 900_000
		for i := range letters {
			d.produce(fmt.Sprintf(`{"order_id":"o-%d","note":"%s"}`, i, strings.Repeat("x", size)))
		}
		d.digest()
		d.mend(nil)
		f := d.plan(deadletter.Selection{})
		w := &weigher{Broker: d.broker}
		q := *d.q
		q.Broker = w
		r, err := q.Apply(t.Context(), f, deadletter.ApplyConfig{})
		if err != nil {
			t.Fatal(err)
		}
		want(t, "applied", r.Counts, map[deadletter.Did]int{deadletter.DidSend: letters})
		if w.most > 16<<20+size+100 {
			t.Errorf("%d bytes were sent at once", w.most)
		}
	})
}

// The corrected message has run and is forgotten, and the letter is new: that of
// a copy which has died, too.
func TestALetterIsAsOldAsTheFirstDeathOfItsMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.produce(`v2 {"order_id":"a"}`)
		d.digest()
		d.produce(`{"order_id":"a"}`)
		d.digest()
		d.apply(d.plan(deadletter.Selection{}), deadletter.ApplyConfig{})
		time.Sleep(15 * 24 * time.Hour) // nobody reads the copy for so long
		d.digest()
		if e := d.letters(deadletter.Filter{})[0]; e.Letter.Run != 2 || time.Since(e.Stored) > time.Hour {
			t.Fatalf("the letter is %+v", e)
		}
		d.mend(nil)
		f := d.plan(deadletter.Selection{})
		want(t, "planned", f.Counts, map[deadletter.Action]int{deadletter.Refuse: 1})
		d.apply(f, deadletter.ApplyConfig{})
		d.digest()
		d.once("a")
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
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.handleBy(terminal)
		d.produce(`{"order_id":"a"}`, `{"order_id":"b"}`)
		d.digest()
		d.mend(nil)
		if _, err := d.withStore(bounded{d.store}).Apply(t.Context(), d.plan(deadletter.Selection{}), deadletter.ApplyConfig{}); !errors.Is(err, brokers.ErrUnauthorized) {
			t.Fatal(err)
		}
		want(t, "another's", d.apply(d.plan(deadletter.Selection{}), deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidSend: 2})
		d.digest()
		d.once("a", "b")
	})
}

// Others tell partition and offset, and not which life of the topic they are of.
func TestTheRecordOfALetterOfOthersIsForgottenAfterItsWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.mend(nil)
		d.foreign(keyed("a"), `{"order_id":"a"}`,
			brokers.Header{Key: "kafka_dlt-original-topic", Value: []byte("orders")},
			brokers.Header{Key: "kafka_dlt-original-partition", Value: []byte{0, 0, 0, 1}},
			brokers.Header{Key: "kafka_dlt-original-offset", Value: []byte{0, 0, 0, 0, 0, 0, 0, 5}})
		d.apply(d.plan(deadletter.Selection{}), deadletter.ApplyConfig{})
		d.digest()
		d.once("a")
		time.Sleep(15 * 24 * time.Hour)
		d.digest()
		if r := d.record("a"); r.State != dedup.Absent {
			t.Errorf("still there: %+v", r)
		}
	})
}

// The note of a conflict's letter is forgotten with the record that it met, which
// had ended long before.
func TestADiscardedLetterIsNotSentOnceItsNoteIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.window = 24 * time.Hour
		d.q.Window = d.window
		d.produce(`{"order_id":"a"}`)
		d.digest()
		time.Sleep(14 * time.Hour)
		d.produce(`{"order_id":"a","cents":5}`)
		d.digest()
		if err := d.q.Move(t.Context(), d.letters(deadletter.Filter{})[0].Letter.ID, dedup.LetterDiscarded, "ann", "a test order"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(11 * time.Hour)
		d.digest()
		if r := d.record("a"); r.State != dedup.Absent {
			t.Fatalf("not swept: %+v", r)
		}
		d.apply(d.plan(deadletter.Selection{}), deadletter.ApplyConfig{})
		d.digest()
		d.once("a")
	})
}

// A broker that knows ids drops what it takes for a repeat.
func TestACopyWithAnotherTokenIsNoRepeatOfTheOneBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.produce(`v2 {"order_id":"a"}`)
		d.digest()
		text := d.planText(deadletter.Selection{})
		w := &weigher{Broker: &wary{Store: d.store, Broker: d.broker, left: 1}}
		q := *d.q
		q.Broker = w
		for _, free := range []bool{false, true} {
			if free {
				if err := d.q.Move(t.Context(), d.letters(deadletter.Filter{})[0].Letter.ID, dedup.LetterOpen, "ann", "that job is dead"); err != nil {
					t.Fatal(err)
				}
			}
			_, _ = q.Apply(t.Context(), d.readPlan(text), deadletter.ApplyConfig{}) // dies before it is noted
			w.Broker = &wary{Store: d.store, Broker: d.broker, left: 1}
			_, _ = q.Apply(t.Context(), d.readPlan(text), deadletter.ApplyConfig{})
			w.Broker = &wary{Store: d.store, Broker: d.broker, left: 1}
		}
		if len(w.ids) != 4 || w.ids[0] != w.ids[1] || w.ids[1] == w.ids[2] || w.ids[2] != w.ids[3] {
			t.Errorf("the copies have the ids %q", w.ids)
		}
	})
}

func TestAForgedLetterCommandsNoServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.digest() // so that the topics are there
		for i, subject := range []string{"$JS.API.STREAM.PURGE.ORDERS", "_INBOX.somebody", "orders.new"} {
			d.broker.AddTopic(subject, 1)
			d.broker.Produce(d.q.Topic, deadletter.Encode(deadletter.Letter{
				ID: fmt.Sprintf("forged-%d", i), Consumer: "billing", Reason: deadletter.ReasonDecode, Run: 1, Value: []byte("{}"),
				Source: deadletter.Source{Topic: "ORDERS", Subject: subject, Offset: 1, JetStream: true},
			}, d.q.Topic))
		}
		want(t, "applied", d.apply(d.plan(deadletter.Selection{To: deadletter.ToSource}), deadletter.ApplyConfig{}),
			map[deadletter.Did]int{deadletter.DidRefuse: 2, deadletter.DidSend: 1})
		if n := len(d.broker.Messages("$JS.API.STREAM.PURGE.ORDERS")) + len(d.broker.Messages("_INBOX.somebody")); n != 0 {
			t.Errorf("%d commands were given", n)
		}
	})
}
