package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/onceward/onceward/brokers/membroker"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup"
)

// counted counts how often letters are gone through.
type counted struct {
	dedup.Store
	scans int
	err   error
}

func (c *counted) ScanLetters(ctx context.Context, consumer string) iter.Seq2[dedup.Letter, error] {
	c.scans++
	if c.err != nil {
		return func(yield func(dedup.Letter, error) bool) { yield(dedup.Letter{}, c.err) }
	}
	return c.Store.ScanLetters(ctx, consumer)
}

func TestStatsTellWhatWaitsForPeople(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		store := &counted{Store: r.store}
		r.cfg.Store = store
		r.run(consumer.JSON("order.create", order.ID, func(context.Context, order) error {
			return consumer.Terminal(errors.New("refused"))
		}))
		stats := func() consumer.Stats {
			t.Helper()
			s, err := r.c.Stats(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		if s := stats(); s.Open != 0 || !s.Oldest.IsZero() || len(s.Reasons) != 0 || !s.At.Equal(time.Now()) {
			t.Errorf("of nothing: %+v", s)
		}
		pass(time.Minute)
		began := time.Now()
		r.send(orderJSON("o-1", 1), "{garbage")
		pass(time.Minute)
		r.send(orderJSON("o-2", 1), orderJSON("o-3", 1), orderJSON("o-4", 1))
		pass(time.Minute)
		s := stats()
		if s.Open != 5 || s.Held != 0 || s.Reasons["terminal"] != 4 || s.Reasons["decode"] != 1 || s.Oldest.Sub(began) > time.Second {
			t.Errorf("of five: %+v", s)
		}
		if store.scans != 2 {
			t.Errorf("%d scans", store.scans)
		}
		move := func(i int, from, to dedup.LetterState) {
			t.Helper()
			l := decoded(t, r.broker.Letters("billing", topic)[i])
			a, err := r.store.Apply(t.Context(), []dedup.Op{{Kind: dedup.MoveLetter, Key: l.Key, Letter: &dedup.LetterOp{
				Letter: dedup.Letter{ID: l.ID, Who: "ann"}, From: from, To: to,
			}}})
			if err != nil || a[0].Kind != dedup.Done {
				t.Fatal(a, err)
			}
		}
		for i, m := range r.broker.Letters("billing", topic) {
			switch l := decoded(t, m); l.Key.ID {
			case "o-1":
				move(i, dedup.LetterOpen, dedup.LetterResolved)
			case "o-2":
				move(i, dedup.LetterOpen, dedup.LetterHeld)
			case "o-3":
				move(i, dedup.LetterOpen, dedup.LetterSent)
			}
		}
		for range 1000 {
			if s := stats(); s.Open != 5 {
				t.Fatal("counted anew at once")
			}
			s.Reasons["terminal"] = 99 // the caller's own
		}
		if store.scans != 2 {
			t.Errorf("%d scans", store.scans)
		}
		pass(6 * time.Second)
		if s := stats(); s.Open != 2 || s.Held != 1 || s.Sent != 1 || s.Reasons["terminal"] != 2 || s.Reasons["decode"] != 1 {
			t.Errorf("afterwards: %+v", s)
		}
		store.err = errDiskFull
		pass(6 * time.Second)
		if _, err := r.c.Stats(t.Context()); !errors.Is(err, errDiskFull) {
			t.Errorf("%v", err)
		}
		r.end()
	})
}

func TestStatsTellHowMuchOfAPositionThatWasSetBackIsAbsorbed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 3)
		var runs counter
		r.run(runs.route())
		for i := range 30 {
			r.send(orderJSON(fmt.Sprint("o-", i), 1))
		}
		pass(time.Minute)
		r.send(orderJSON("o-7", 1)) // a repeat like any other
		pass(time.Minute)
		absorbed := func() int64 {
			s, err := r.c.Stats(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return s.Absorbed
		}
		if n := absorbed(); n != 0 {
			t.Errorf("%d are absorbed though no position was set back", n)
		}
		r.end()

		// The same messages, and a group that stands nowhere.
		r.broker = membroker.New(membroker.Config{Topics: map[string]int{topic: 3}})
		r.cfg.Broker = r.broker
		for i := range 30 {
			r.send(orderJSON(fmt.Sprint("o-", i), 1))
		}
		r.send(orderJSON("o-7", 1))
		r.run(runs.route())
		pass(time.Minute)
		if n := absorbed(); n != 31 || runs.total() != 30 {
			t.Errorf("%d are absorbed, %d runs", n, runs.total())
		}
		r.send(orderJSON("o-8", 1), orderJSON("new", 1))
		pass(time.Minute)
		if n := absorbed(); n != 31 || runs.total() != 31 {
			t.Errorf("%d are absorbed afterwards, %d runs", n, runs.total())
		}
		r.end()
	})
}
