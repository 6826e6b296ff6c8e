package deadletter_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/boltstore"
)

// site is a consumer with a file on a ground.
type site struct {
	ground
	t      *testing.T
	file   string
	broker browsing
	store  *boltstore.Store
	q      *deadletter.Queue

	mu      sync.Mutex
	mended  bool
	effects map[string]int
}

// everywhere runs a test on every broker, in real time.
func everywhere(t *testing.T, do func(*testing.T, *site)) {
	t.Parallel() // they mostly wait
	for name, on := range grounds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &site{ground: on(t), t: t, file: filepath.Join(t.TempDir(), "billing.db"), effects: map[string]int{}}
			s.open()
			t.Cleanup(s.close)
			do(t, s)
		})
	}
}

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) open() {
	s.t.Helper()
	var err error
	s.broker, err = s.connect()
	s.must(err)
	s.store, err = boltstore.Open(s.file, boltstore.Options{Logger: slog.New(slog.DiscardHandler)})
	s.must(err)
	s.q = &deadletter.Queue{Topic: s.broker.Destinations("billing", s.topic).DeadLetter, Consumer: "billing", Broker: s.broker, Store: s.store}
}

func (s *site) close() {
	if err := errors.Join(s.broker.Close(), s.store.Close()); err != nil {
		s.t.Error(err)
	}
}

func (s *site) create(_ context.Context, o order) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.mended {
		return terminal(o)
	}
	s.effects[o.ID]++
	return nil
}

func (s *site) mend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mended = true
}

// once says that these orders were booked, and once.
func (s *site) once(n int) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.effects) != n || slices.ContainsFunc(slices.Collect(maps.Values(s.effects)), func(n int) bool { return n != 1 }) {
		s.t.Errorf("booked, and how often: %v, want %d orders once", s.effects, n)
	}
}

// consume runs the consumer until stop is called.
func (s *site) consume() (c *consumer.Consumer, stop func()) {
	s.t.Helper()
	c, err := consumer.New(consumer.Config{
		Name: "billing", Broker: s.broker, Store: s.store, Topics: []string{s.topic}, StartFrom: consumer.Earliest,
		Logger: slog.New(slog.DiscardHandler), Breaker: consumer.Breaker{Off: true},
	}, consumer.JSON("order.create", func(o order) string { return o.ID }, s.create))
	s.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	return c, func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Error(err)
		}
	}
}

func (s *site) send(messages ...brokers.Outgoing) {
	s.t.Helper()
	for i := range messages {
		messages[i].Topic = s.publish
	}
	s.must(errors.Join(s.broker.Publish(s.t.Context(), messages)...))
}

func (s *site) orders(n int) {
	s.t.Helper()
	all := make([]brokers.Outgoing, n)
	for i := range all {
		id := fmt.Sprintf("o-%d", i)
		all[i] = brokers.Outgoing{Key: []byte(id), Value: []byte(`{"order_id":"` + id + `"}`)}
	}
	s.send(all...)
}

func (s *site) letters(f deadletter.Filter) (all []deadletter.Entry) {
	s.t.Helper()
	for e, err := range s.q.Letters(s.t.Context(), f) {
		s.must(err)
		all = append(all, e)
	}
	return all
}

// noted counts the letters in a state.
func (s *site) noted(state dedup.LetterState) (n int) {
	s.t.Helper()
	for l, err := range s.store.ScanLetters(s.t.Context(), "billing") {
		s.must(err)
		if l.State == state {
			n++
		}
	}
	return n
}

func (s *site) until(what string, is func() bool) {
	s.t.Helper()
	for end := time.Now().Add(30 * time.Second); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("waited in vain for %s", what)
		}
	}
}

// awaitLetters waits until so many letters are open, and confirmed.
func (s *site) awaitLetters(n int) {
	s.t.Helper()
	s.until(fmt.Sprint(n, " letters"), func() bool {
		for r, err := range s.store.Scan(s.t.Context(), "billing") {
			if s.must(err); r.Owed {
				return false
			}
		}
		return s.noted(dedup.LetterOpen) == n
	})
}

func (s *site) plan(sel deadletter.Selection) *deadletter.PlanFile {
	s.t.Helper()
	var text bytes.Buffer
	_, err := s.q.Plan(s.t.Context(), sel, &text)
	s.must(err)
	f, err := deadletter.ReadPlan(bytes.NewReader(text.Bytes()))
	s.must(err)
	return f
}

func (s *site) apply(f *deadletter.PlanFile, c deadletter.ApplyConfig) map[deadletter.Did]int {
	s.t.Helper()
	r, err := s.q.Apply(s.t.Context(), f, c)
	s.must(err)
	return r.Counts
}

func (s *site) outcomes(f *deadletter.PlanFile) map[deadletter.Outcome]int {
	s.t.Helper()
	counts := map[deadletter.Outcome]int{}
	for e, err := range s.q.Outcome(s.t.Context(), f) {
		s.must(err)
		counts[e.Outcome]++
	}
	return counts
}

// bytesOf is what a topic holds, byte for byte and in no order, but for headers
// of onceward's own: messages, and copies of a replay.
func (s *site) bytesOf(topic string) (messages, copies []string) {
	s.t.Helper()
	for d, err := range s.broker.Browse(s.t.Context(), topic, brokers.From{}) {
		s.must(err)
		text, to := fmt.Sprintf("key %#v headers", d.Key), &messages
		for _, h := range d.Headers {
			switch {
			case !deadletter.IsOwnHeader(h.Key):
				text += fmt.Sprintf(" %q %#v", h.Key, h.Value)
			case h.Key == "dl-replay-token":
				to = &copies
			}
		}
		*to = append(*to, fmt.Sprintf("%s value %#v", text, d.Value))
	}
	slices.Sort(messages)
	slices.Sort(copies)
	return messages, copies
}

// counting counts copies: a retry stream keeps none that is answered.
type counting struct {
	deadletter.Broker
	copies atomic.Int64
}

func (c *counting) Publish(ctx context.Context, messages []brokers.Outgoing) []error {
	c.copies.Add(int64(len(messages)))
	return c.Broker.Publish(ctx, messages)
}

func (s *site) watched() *deadletter.Queue {
	q := *s.q
	q.Broker = &counting{Broker: s.broker}
	return &q
}

func TestOfTwoOperatorsAtOnceOneHasEachLetterOnEveryBroker(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		const n = 60
		_, stop := s.consume()
		defer stop()
		s.orders(n)
		s.awaitLetters(n)
		s.mend()
		q := s.watched()
		plans := []*deadletter.PlanFile{s.plan(deadletter.Selection{Who: "ann"}), s.plan(deadletter.Selection{Who: "bob"})}
		counts, errs := make([]map[deadletter.Did]int, 2), make([]error, 2)
		var both sync.WaitGroup
		for i, f := range plans {
			both.Go(func() {
				r, err := q.Apply(t.Context(), f, deadletter.ApplyConfig{Rate: 200}) // many batches, so that they meet
				counts[i], errs[i] = r.Counts, err
			})
		}
		both.Wait()
		s.must(errors.Join(errs...))
		for i, c := range counts {
			if c[deadletter.DidSend]+c[deadletter.DidChange] != n || c[deadletter.DidSend] != counts[1-i][deadletter.DidChange] {
				t.Errorf("operators did %v", counts)
			}
		}
		s.until("all answers", func() bool { return s.noted(dedup.LetterResolved) == n })
		s.once(n)
		for i, f := range plans {
			sent := counts[i][deadletter.DidSend]
			again := s.apply(f, deadletter.ApplyConfig{})
			if again[deadletter.DidSend] != 0 || again[deadletter.DidBefore] != sent || s.outcomes(f)[deadletter.Succeeded] != sent {
				t.Errorf("applied again: %v, outcomes %v; %d were sent", again, s.outcomes(f), sent)
			}
		}
		if copies := q.Broker.(*counting).copies.Load(); copies != n {
			t.Errorf("%d copies of %d letters", copies, n)
		}
	})
}

// mute publishes nothing.
type mute struct{ deadletter.Broker }

func (mute) Publish(_ context.Context, messages []brokers.Outgoing) []error {
	return slices.Repeat([]error{brokers.ErrNoDestination}, len(messages))
}

func TestADuplicateThatComesBeforeTheCopyRunsAndResolvesTheLetterOnEveryBroker(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		_, stop := s.consume()
		defer stop()
		s.orders(1)
		s.awaitLetters(1)
		s.mend()
		f := s.plan(deadletter.Selection{})
		dying := *s.q
		dying.Broker = mute{s.broker}
		if r, err := dying.Apply(t.Context(), f, deadletter.ApplyConfig{}); err == nil || r.Counts[deadletter.DidSend] != 0 {
			t.Fatalf("nothing was published: %+v, %v", r, err)
		}
		s.orders(1)
		s.until("the letter's end", func() bool { return s.noted(dedup.LetterResolved) == 1 })
		q := s.watched()
		r, err := q.Apply(t.Context(), f, deadletter.ApplyConfig{})
		s.must(err)
		want(t, "applied again", r.Counts, map[deadletter.Did]int{deadletter.DidBefore: 1})
		want(t, "outcome", s.outcomes(f), map[deadletter.Outcome]int{deadletter.Succeeded: 1})
		if copies := q.Broker.(*counting).copies.Load(); copies != 0 {
			t.Errorf("%d copies of what had run", copies)
		}
		s.once(1)
	})
}

func TestLettersThatRetentionRemovesAfterThePlanAreGoneOnEveryBroker(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		const n = 12
		_, stop := s.consume()
		defer stop()
		s.orders(n)
		s.awaitLetters(n)
		s.mend()
		f := s.plan(deadletter.Selection{})
		at := s.letters(deadletter.Filter{})[0].At
		s.must(s.drop(s.q.Topic, at.Partition, at.Offset+1))
		want(t, "applied", s.apply(f, deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidMiss: 1, deadletter.DidSend: n - 1})
		s.until("the others' answers", func() bool { return s.noted(dedup.LetterResolved) == n-1 })
		want(t, "outcome", s.outcomes(f), map[deadletter.Outcome]int{deadletter.Gone: 1, deadletter.Succeeded: n - 1})
		s.once(n - 1)
	})
}

func TestADiscardedLetterStaysAwayAfterARestartOnEveryBroker(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		garbage := brokers.Outgoing{Value: []byte("no order")}
		_, stop := s.consume()
		s.send(garbage)
		s.awaitLetters(1)
		id := s.letters(deadletter.Filter{})[0].Letter.ID
		s.must(s.q.Move(t.Context(), id, dedup.LetterDiscarded, "ann", "a test"))
		stop()
		s.close()
		s.open()
		c, stop := s.consume()
		defer stop()
		if stats, err := c.Stats(t.Context()); err != nil || stats.Open != 0 {
			t.Errorf("stats %+v, %v", stats, err)
		}
		var text bytes.Buffer
		if p, err := s.q.Plan(t.Context(), deadletter.Selection{}, &text); err != nil || p.Letters != 0 || len(s.letters(deadletter.Filter{})) != 0 {
			t.Errorf("planned %+v, %v", p, err)
		}
		s.send(garbage)
		s.awaitLetters(1)
		if now := s.letters(deadletter.Filter{}); len(now) != 1 || now[0].Letter.ID == id {
			t.Errorf("open: %+v", now)
		}
	})
}

// Whatever a source can hold comes back as it was, to the retry topic and to the
// source, but for headers of onceward's own.
func TestACopyHasTheBytesOfItsOriginalOnEveryBroker(t *testing.T) {
	for _, to := range []deadletter.Target{deadletter.ToRetry, deadletter.ToSource} {
		t.Run(string(to), func(t *testing.T) { copiesHaveTheirBytes(t, to) })
	}
}

func copiesHaveTheirBytes(t *testing.T, to deadletter.Target) {
	everywhere(t, func(t *testing.T, s *site) {
		h := func(name string, value []byte) brokers.Header { return brokers.Header{Key: name, Value: value} }
		messages := []brokers.Outgoing{
			{}, {Value: []byte{}}, {Key: []byte{}, Value: []byte("an empty key")}, {Value: []byte("no key")},
			{Key: []byte("k\xff\x00"), Value: []byte("\xff\xfe\x00 no text")}, {Value: bytes.Repeat([]byte("x"), 1<<20-20_000)},
			{Value: []byte("headers"), Headers: []brokers.Header{
				h("a", []byte{0, 0xff}), h("a", nil), h("a", []byte{}), h("A", []byte("other case")), h("", []byte("no name")),
				h("line\nbreak", []byte("\r\n\x1b[31m")), h("dl-id", []byte("forged")), h("traceparent", []byte("00-1-2-01")),
			}},
		}
		_, stop := s.consume()
		s.send(messages...)
		s.awaitLetters(len(messages))
		stop()
		if n := len(s.letters(deadletter.Filter{})); n != len(messages) {
			t.Errorf("%d letters are listed of %d", n, len(messages))
		}
		want(t, "applied", s.apply(s.plan(deadletter.Selection{To: to}), deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidSend: len(messages)})
		was, is := s.bytesOf(s.topic)
		if to == deadletter.ToRetry {
			_, is = s.bytesOf(s.broker.Destinations("billing", s.topic).Retry)
		}
		if len(was) != len(messages) || len(is) != len(was) {
			t.Fatalf("%d messages, %d copies", len(was), len(is))
		}
		for i := range was {
			if was[i] != is[i] {
				t.Errorf("was %.2000s\nis  %.2000s", was[i], is[i])
			}
		}
	})
}
