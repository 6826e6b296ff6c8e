package deadletter_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
)

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
	atDesk(t, func(t *testing.T, d *desk) {
		d.handleBy(terminal)
		d.digest(orders(20)...)
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
	atDesk(t, func(t *testing.T, d *desk) {
		d.handleBy(terminal)
		d.digest(`{"order_id":"a"}`)
		f := d.plan(deadletter.Selection{})
		d.mem.RemoveTopic(d.q.Topic)
		d.mem.AddTopic(d.q.Topic, 1)
		if _, err := d.q.Apply(t.Context(), f, deadletter.ApplyConfig{}); !errors.Is(err, deadletter.ErrRefused) {
			t.Errorf("applied: %v", err)
		}
		notes, err := d.store.Letters(t.Context(), []string{deadletter.ID(d.record("a").Key, d.record("a").Opened)})
		if err != nil || notes[0].State != dedup.LetterOpen {
			t.Errorf("the letter is %s: %v", notes[0].State, err)
		}
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
	atDesk(t, func(t *testing.T, d *desk) {
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

// A broker that knows ids drops what it takes for a repeat.
func TestACopyWithAnotherTokenIsNoRepeatOfTheOneBefore(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.digest(`v2 {"order_id":"a"}`)
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

func TestAForgedLetterIsNotSentToATopicOfOthers(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.digest() // so that the topics are there
		d.mem.AddTopic("payroll", 1)
		for i, topic := range []string{"payroll", "orders"} {
			d.mem.Produce(d.q.Topic, deadletter.Encode(deadletter.Letter{
				ID: fmt.Sprintf("forged-%d", i), Consumer: "billing", Reason: deadletter.ReasonDecode, Run: 1, Value: []byte("{}"),
				Source: deadletter.Source{Topic: topic, Offset: 1},
			}, d.q.Topic))
		}
		want(t, "applied", d.apply(d.plan(deadletter.Selection{To: deadletter.ToSource}), deadletter.ApplyConfig{}),
			map[deadletter.Did]int{deadletter.DidRefuse: 1, deadletter.DidSend: 1})
		if n := len(d.mem.Messages("payroll")); n != 0 {
			t.Errorf("%d messages were sent there", n)
		}
	})
}

func TestAForgedLetterCommandsNoServer(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.digest() // so that the topics are there
		for i, subject := range []string{"$JS.API.STREAM.PURGE.ORDERS", "_INBOX.somebody", "orders.new"} {
			d.mem.AddTopic(subject, 1)
			d.mem.Produce(d.q.Topic, deadletter.Encode(deadletter.Letter{
				ID: fmt.Sprintf("forged-%d", i), Consumer: "billing", Reason: deadletter.ReasonDecode, Run: 1, Value: []byte("{}"),
				Source: deadletter.Source{Topic: "ORDERS", Subject: subject, Offset: 1, JetStream: true},
			}, d.q.Topic))
		}
		want(t, "applied", d.apply(d.plan(deadletter.Selection{To: deadletter.ToSource}), deadletter.ApplyConfig{}),
			map[deadletter.Did]int{deadletter.DidRefuse: 2, deadletter.DidSend: 1})
		if n := len(d.mem.Messages("$JS.API.STREAM.PURGE.ORDERS")) + len(d.mem.Messages("_INBOX.somebody")); n != 0 {
			t.Errorf("%d commands were given", n)
		}
	})
}
