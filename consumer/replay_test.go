package consumer_test

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/boltstore"
)

func TestALetterIsAnsweredWithWhatBecameOfItsCopy(t *testing.T) {
	refused := consumer.Terminal(errors.New("refused"))
	for name, c := range map[string]struct {
		then   error
		answer dedup.State
		dead   string // reason of the letter that the copy leaves
	}{
		"handled":   {nil, dedup.Succeeded, ""},
		"refused":   {refused, dedup.Failed, "terminal"},
		"exhausted": {errors.New("once more"), dedup.Failed, "exhausted"},
		"in doubt":  {consumer.InDoubt(errors.New("who knows")), dedup.InDoubt, "in-doubt"},
	} {
		for _, target := range []string{"retry", "source"} {
			bubble(t, func(t *testing.T) {
				r := newRig(t, 1)
				var h mendable
				h.fails(refused)
				r.run(h.route())
				r.send(orderJSON("o-1", 1))
				pass(time.Minute)
				s, first := r.resender("job-1"), r.letter(1)
				if target == "source" {
					s.target = topic
				}
				h.fails(c.then)
				s.resend(first)
				pass(time.Minute)
				s.want(first, dedup.LetterResolved, c.answer)
				want := []string{"terminal"}
				if c.dead != "" {
					want = append(want, c.dead)
					slices.Sort(want)
					second := r.letter(2)
					s.want(second, dedup.LetterOpen, dedup.Absent)
					if l := decoded(t, second); l.Run != 2 || l.ReplayJob != "job-1" || l.ReplayCount != 1 || l.ID == decoded(t, first).ID {
						t.Errorf("%s: the second letter is of run %d, sent %d times, last by %q", name, l.Run, l.ReplayCount, l.ReplayJob)
					}
				}
				r.wantReasons(want...)
				r.wantUnsettled(0)
				if n := len(r.broker.Waiting("billing", topic)); n != 0 {
					t.Errorf("%s: %d copies are unsettled", name, n)
				}
				r.end()
			})
		}
	}
}

// What the store was told of a copy is durable before the copy is gone.
func TestTheLetterIsToldBeforeItsCopyIsAcknowledged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		var h mendable
		r.die(&h, orderJSON("o-1", 1))
		r.end()
		s, first := r.resender("job-1"), r.letter(1)
		h.fails(nil)
		store := &heldStore{Store: r.store, let: make(chan error)}
		r.cfg.Store = store
		s.resend(first)
		r.run(h.route())
		completed := false
		for range 10 {
			settle()
			records, err := r.store.Lookup(t.Context(), []dedup.Key{{Consumer: "billing", Scope: "order.create", ID: "o-1"}})
			if err != nil {
				t.Fatal(err)
			}
			if s.note(header(first, "dl-id")).State == dedup.LetterResolved {
				break
			}
			completed = completed || records[0].State == dedup.Succeeded
			if len(r.broker.Waiting("billing", topic)) == 0 {
				t.Error("the copy is acknowledged before its letter is told")
			}
			store.let <- nil
		}
		if !completed {
			t.Error("nothing was seen of the time between")
		}
		s.want(first, dedup.LetterResolved, dedup.Succeeded)
		close(store.let)
		settle()
		if n := len(r.broker.Waiting("billing", topic)); n != 0 {
			t.Errorf("%d copies are unsettled", n)
		}
		r.end()
	})
}

// The process dies before the answer is written, and in the letters' case
// before the copy's own letter is noted.
func TestACrashBeforeTheAnswerIsHarmless(t *testing.T) {
	for name, c := range map[string]struct {
		at      dedup.Kind
		fails   error
		answer  dedup.State
		letters int
	}{
		"handled":                    {dedup.MoveLetter, nil, dedup.Succeeded, 1},
		"failed, its letter noted":   {dedup.MoveLetter, consumer.Terminal(errors.New("refused again")), dedup.Failed, 3},
		"in doubt, its letter noted": {dedup.NoteLetter, consumer.InDoubt(errors.New("who knows")), dedup.InDoubt, 3},
	} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, 1)
			var h mendable
			r.die(&h, orderJSON("o-1", 1))
			r.end()
			s, first := r.resender("job-1"), r.letter(1)
			h.fails(c.fails)
			s.resend(first)
			store := &stopsAt{Store: r.store, kind: c.at, over: make(chan struct{})}
			r.cfg.Store = store
			r.run(h.route())
			<-store.over
			settle()
			s.want(first, dedup.LetterSent, dedup.Absent)
			r.broker.Crash("billing")
			r.end()
			r.cfg.Store = r.store
			h.fails(nil)
			r.run(h.route())
			pass(time.Minute)
			s.want(first, dedup.LetterResolved, c.answer)
			if h.of("o-1") != 2 {
				t.Errorf("%s: %d runs, want 2", name, h.of("o-1"))
			}
			ids := map[string]bool{}
			for _, m := range r.broker.Letters("billing", topic) {
				ids[header(m, "dl-id")] = true
			}
			if want := min(c.letters, 2); len(ids) != want {
				t.Errorf("%s: %d incidents, want %d", name, len(ids), want)
			}
			if n := len(r.broker.Waiting("billing", topic)); n != 0 {
				t.Errorf("%s: %d copies are unsettled", name, n)
			}
			r.end()
		})
	}
}

// The job has reopened the record and died before it sent the copy. The sender
// repeats the message meanwhile, and the copy comes at last.
func TestADuplicateOfTheOriginalAnswersTheLetterThatTheRecordWaitsFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		var h mendable
		r.die(&h, orderJSON("o-1", 1))
		s, first := r.resender("job-1"), r.letter(1)
		h.fails(nil)
		copied := s.take(first)
		r.send(orderJSON("o-1", 1))
		pass(time.Minute)
		if h.of("o-1") != 2 {
			t.Errorf("%d runs, want one of each run", h.of("o-1"))
		}
		s.want(first, dedup.LetterResolved, dedup.Succeeded)
		s.publish(copied)
		s.noted(first)
		pass(time.Minute)
		if h.of("o-1") != 2 {
			t.Errorf("%d runs after the copy", h.of("o-1"))
		}
		s.want(first, dedup.LetterResolved, dedup.Succeeded)
		r.wantReasons("terminal")
		r.wantUnsettled(0)
		r.end()
	})
}

// The end is durable, the answer is not: the repeat of the original answers.
func TestARepeatThatFindsTheRecordFinishedAnswersItsLetter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		var h mendable
		r.die(&h, orderJSON("o-1", 1))
		r.end()
		s, first := r.resender("job-1"), r.letter(1)
		h.fails(nil)
		s.take(first)
		r.send(orderJSON("o-1", 1))
		store := &stopsAt{Store: r.store, kind: dedup.MoveLetter, over: make(chan struct{})}
		r.cfg.Store = store
		r.run(h.route())
		<-store.over
		r.broker.Crash("billing")
		r.end()
		s.want(first, dedup.LetterOpen, dedup.Absent)
		r.cfg.Store = r.store
		r.run(h.route())
		pass(time.Minute)
		s.want(first, dedup.LetterResolved, dedup.Succeeded)
		if h.of("o-1") != 2 {
			t.Errorf("%d runs", h.of("o-1"))
		}
		r.end()
	})
}

func TestATokenThatTheStoreDoesNotHoldDecidesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		var log logged
		r.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		var h mendable
		r.die(&h, "{garbage", orderJSON("o-1", 1))
		letters := r.broker.Letters("billing", topic)
		s := r.resender("job-1")
		h.fails(nil)
		copies := []brokers.Outgoing{s.take(letters[0]), s.take(letters[1])}
		retry := r.broker.Destinations("billing", topic).Retry
		forged := func(id, token, value string) {
			r.broker.Produce(retry, brokers.Outgoing{Value: []byte(value), Headers: deadletter.Ticket{ID: id, Token: token, Job: "job-1", Count: 1}.Headers()})
		}
		for i, l := range letters {
			id, token := header(l, "dl-id"), ""
			for _, h := range copies[1-i].Headers {
				if h.Key == "dl-replay-token" {
					token = string(h.Value)
				}
			}
			forged(id, "guessed", fmt.Sprintf("{forged %d", i))          // garbage under the letter's name
			forged(id, token, fmt.Sprintf("{exchanged %d", i))           // another letter's token
			forged("00000000000000000000000000000000", token, "{no one") // of no letter
		}
		pass(time.Minute)
		for _, l := range letters {
			s.want(l, dedup.LetterOpen, dedup.Absent)
			if n := s.note(header(l, "dl-id")); n.Job != "job-1" || n.Run != 1 {
				t.Errorf("letter %+v", n)
			}
		}
		ids := map[string]bool{}
		for _, m := range r.broker.Letters("billing", topic)[2:] {
			l := decoded(t, m)
			if ids[l.ID] = true; l.Run != 1 || l.ReplayCount != 0 || l.ReplayJob != "" {
				t.Errorf("a forged one leaves %+v", l)
			}
		}
		if len(ids) != 6 || ids[header(letters[0], "dl-id")] || ids[header(letters[1], "dl-id")] {
			t.Errorf("six forged ones leave letters %v beside %v", ids, letters)
		}
		if n := log.count("replay tokens that the store does not have"); n != 1 {
			t.Errorf("it is told of %d times", n)
		}
		r.end()
	})
}

// The token of a copy that was answered gives no right to be run once more.
func TestAnAnsweredTokenIsOfNoUse(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		var h mendable
		r.die(&h, orderJSON("o-1", 1))
		s, first := r.resender("job-1"), r.letter(1)
		h.fails(nil)
		copied := s.take(first)
		s.publish(copied)
		s.noted(first)
		pass(time.Minute)
		s.want(first, dedup.LetterResolved, dedup.Succeeded)
		moved := s.note(decoded(t, first).ID).Moved
		copied.Value = []byte(orderJSON("o-2", 2)) // another operation under the old token
		s.publish(copied)
		copied.Value = []byte(orderJSON("o-1", 1))
		s.publish(copied)
		pass(time.Minute)
		if h.of("o-1") != 2 || h.of("o-2") != 1 {
			t.Errorf("runs %v", h.runs)
		}
		if n := s.note(decoded(t, first).ID); !n.Moved.Equal(moved) {
			t.Errorf("the letter was touched: %+v", n)
		}
		r.end()
	})
}

// Without the store nobody can tell a copy from what somebody made up.
func TestNothingIsDecidedOfACopyWhileTheStoreDoesNotTellOfLetters(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		store := &mute{Store: r.store}
		r.cfg.Store = store
		var h mendable
		r.run(h.route())
		r.send("{garbage")
		pass(time.Minute)
		s, first := r.resender("job-1"), r.letter(1)
		store.set(errDiskFull)
		s.resend(first)
		pass(time.Minute)
		if n := len(r.broker.Letters("billing", topic)); n != 1 {
			t.Errorf("%d letters while the store does not tell of them", n)
		}
		if r.c.Status().Degraded["replay tokens"] == "" {
			t.Errorf("status %+v", r.c.Status())
		}
		store.set(nil)
		pass(time.Minute)
		if len(r.c.Status().Degraded) != 0 {
			t.Errorf("status %+v", r.c.Status())
		}
		second := r.letter(2)
		if header(first, "dl-id") != header(second, "dl-id") {
			t.Error("the copy has left another incident")
		}
		r.end()
	})
}

// A copy that waits long leaves the process once more, and is still a copy of
// its letter when it comes back.
func TestACopyThatWaitsLongStillAnswersItsLetter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		var h mendable
		h.fails(consumer.Terminal(errors.New("refused")))
		r.run(h.route())
		r.broker.Produce(topic, brokers.Outgoing{Value: []byte(orderJSON("o-1", 1)), Headers: []brokers.Header{{Key: "kept", Value: []byte("x")}}})
		pass(time.Minute)
		s, first := r.resender("job-1"), r.letter(1)
		s.target = topic // from there it has to leave
		h.fails(consumer.RetryAfter(errors.New("not now"), time.Hour))
		s.resend(first)
		pass(time.Minute)
		waiting := r.broker.Waiting("billing", topic)
		if len(waiting) != 1 {
			t.Fatalf("%d copies wait", len(waiting))
		}
		var names []string
		for _, h := range waiting[0].Headers {
			names = append(names, h.Key)
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != "dl-id dl-replay-count dl-replay-job dl-replay-token kept" {
			t.Errorf("the copy bears %s", got)
		}
		s.want(first, dedup.LetterSent, dedup.Absent)
		h.fails(nil)
		pass(2 * time.Hour)
		s.want(first, dedup.LetterResolved, dedup.Succeeded)
		if h.of("o-1") != 3 {
			t.Errorf("%d runs", h.of("o-1"))
		}
		r.wantUnsettled(0)
		r.end()
	})
}

// A message whose key belongs to other content dies each time it is sent back.
func TestAConflictThatIsSentBackUnmendedIsTheSameIncident(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		var runs counter
		r.run(runs.route())
		r.send(orderJSON("o-1", 1), orderJSON("o-1", 2))
		pass(time.Minute)
		s, first := r.resender("job-1"), r.letter(1)
		s.resend(first)
		pass(time.Minute)
		second := r.letter(2)
		if header(first, "dl-id") != header(second, "dl-id") || header(second, "dl-source-offset") != "1" {
			t.Errorf("letters %v and %v", first.Headers, second.Headers)
		}
		s.want(first, dedup.LetterOpen, dedup.Absent)
		if n := s.note(header(first, "dl-id")); n.Run != 2 || n.Job != "" {
			t.Errorf("letter %+v", n)
		}
		if runs.total() != 1 {
			t.Errorf("%d runs", runs.total())
		}
		r.end()
	})
}

func TestAFileKnowsAfterARestartWhichLetterACopyAnswers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "billing.db")
	open := func() dedup.Store {
		store, err := boltstore.Open(file, boltstore.Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		return store
	}
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.store.Store = open()
		var h mendable
		r.die(&h, orderJSON("o-1", 1), "{garbage")
		s := r.resender("job-1")
		letters := r.broker.Letters("billing", topic)
		if len(letters) != 2 {
			t.Fatalf("%d letters", len(letters))
		}
		r.end()
		for _, l := range letters {
			s.resend(l)
		}
		if err := r.store.Close(); err != nil {
			t.Fatal(err)
		}
		h.fails(nil)
		r.store.Store = open()
		s.store = r.store.Store
		r.run(h.route())
		pass(time.Minute)
		for _, l := range letters {
			if decoded(t, l).Reason == deadletter.ReasonDecode {
				s.want(l, dedup.LetterOpen, dedup.Absent)
			} else {
				s.want(l, dedup.LetterResolved, dedup.Succeeded)
			}
		}
		if h.of("o-1") != 2 {
			t.Errorf("%d runs", h.of("o-1"))
		}
		r.wantUnsettled(0)
		r.end()
		if err := r.store.Close(); err != nil {
			t.Error(err)
		}
	})
}
