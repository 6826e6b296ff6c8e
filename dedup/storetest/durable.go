package storetest

import (
	"fmt"

	"github.com/onceward/onceward/dedup"
)

// durableChecks are about what is left when the store is opened again, after
// Close and after a crash. Each returns at once for a store that forgets.
var durableChecks = []check{
	{"durable: what was answered is there again", func(s *session) { s.again((*session).everything) }},
	{"durable: a claim outlives its process in a shared store, and lapses at once in a local one", func(s *session) {
		s.again(func(s *session, reopen func()) {
			c := s.claim("k", dedup.Acquired)
			s.by(c, dedup.Alone, dedup.Done)
			effect := s.claim("effect", dedup.Acquired)
			s.by(effect, dedup.Dispatch, dedup.Done, sms)
			reopen()
			if !s.store.Info().Local {
				s.claim("k", dedup.Busy)
				s.by(c, dedup.Renew, dedup.Done)
				return
			}
			// The dead owner's lock is free, so nobody can be running it.
			if r := s.record(c.key); r.Live {
				s.Errorf("record %+v", r)
			}
			next := s.claim("k", dedup.Acquired)
			if next.Fence <= c.Fence || next.Crashes != 1 || next.Lone != 1 {
				s.Errorf("answer %+v", next.Answer)
			}
			s.claim("effect", dedup.HeldInDoubt)
			s.want("the dead owner's end", s.do(endOp(c, dedup.Success)), dedup.Fenced)
		})
	}},
	{"durable: a claim repeated after a crash is not its own again where the owner must be dead", func(s *session) {
		s.again(func(s *session, reopen func()) {
			c := s.claim("k", dedup.Acquired)
			reopen()
			again := s.claim("k", dedup.Acquired, func(op *dedup.Op) { op.Token = c.token })
			if local := s.store.Info().Local; (again.Fence > c.Fence) != local {
				s.Errorf("fence %d, then %d", c.Fence, again.Fence)
			}
		})
	}},
	{"durable: fences rise over a crash", func(s *session) {
		s.again(func(s *session, reopen func()) {
			var last uint64
			for range 5 {
				c := s.claim("k", dedup.Acquired)
				if c.Fence <= last {
					s.Fatalf("fence %d after %d", c.Fence, last)
				}
				last = c.Fence
				s.end(c, dedup.Skip, dedup.Absent)
				reopen()
			}
		})
	}},
	{"durable: windows and not-befores go on", func(s *session) {
		s.again(func(s *session, reopen func()) {
			s.end(s.claim("done", dedup.Acquired), dedup.Success, dedup.Succeeded)
			s.end(s.claim("early", dedup.Acquired), dedup.Failure, dedup.Retryable, func(op *dedup.Op) { op.Wait = pause })
			reopen()
			s.claim("early", dedup.NotBefore)
			s.pass(pauseOver)
			s.claim("early", dedup.Acquired)
			if n := s.sweep(); n != 0 {
				s.Errorf("swept %d records early", n)
			}
			s.pass(windowOver)
			s.swept("after the window", 1)
			reopen()
			s.is(s.key("done"), dedup.Absent)
			s.is(s.key("early"), dedup.InProgress)
		})
	}},
	{"durable: the identity stays and the sequence does not fall", func(s *session) {
		s.again(func(s *session, reopen func()) {
			for i := range 5 {
				s.claim(fmt.Sprint(i), dedup.Acquired)
				before := s.store.Info()
				reopen()
				after := s.store.Info()
				if after.ID != before.ID || after.Sequence < before.Sequence || after.Records != before.Records {
					s.Errorf("info %+v, then %+v", before, after)
				}
			}
		})
	}},
}

// again runs part with an orderly reopening and with a crash, as far as the
// store has them.
func (s *session) again(part func(s *session, reopen func())) {
	consumer := s.consumer
	for name, open := range map[string]func() dedup.Store{
		"reopened": func() dedup.Store { return s.h.Reopen(s, s.store) },
		"crashed":  func() dedup.Store { return s.h.Crash(s, s.store) },
	} {
		if name == "reopened" && s.h.Reopen == nil || name == "crashed" && s.h.Crash == nil {
			continue
		}
		s.consumer = consumer + " " + name
		part(s, func() { s.store = open() })
	}
}

// everything writes one of each and reads it back from the store as it is
// opened again after every step.
func (s *session) everything(reopen func()) {
	letter1, letter2 := s.consumer+"/1", s.consumer+"/2"
	c := s.claim("k", dedup.Acquired)
	s.by(c, dedup.Dispatch, dedup.Done, charge)
	s.by(c, dedup.Confirm, dedup.Done, dedup.EffectOp{Name: "charge", External: "ch_1", Outcome: []byte("paid\x00")})
	kept := func(id string) {
		s.Helper()
		before := s.record(s.key(id))
		reopen()
		s.same(before)
	}
	s.end(c, dedup.Failure, dedup.Retryable, func(op *dedup.Op) {
		op.Error, op.ErrorType, op.Stack, op.Wait = "timeout", "net.Error", "main.go:1", pause
	})
	kept("k")
	s.pass(pauseOver)
	c = s.claim("k", dedup.Acquired, func(op *dedup.Op) { op.Position = at(7) })
	s.end(c, dedup.Terminal, dedup.Failed, func(op *dedup.Op) { op.Reason, op.Error = "terminal", "no such customer" })
	kept("k")
	if d := s.claim("k", dedup.DuplicateFailed); !d.Record.Owed {
		s.Errorf("the debt of a letter was forgotten")
	}
	s.note(letter1, c)
	s.move(letter1, c.key, dedup.LetterOpen, dedup.LetterOpen, dedup.Done, func(l *dedup.Letter) { l.Job, l.Token = "job-1", "secret" })
	s.advance(100)
	s.operate(dedup.Reopen, c.key, dedup.Done)
	kept("k")
	if l := s.letter(letter1); l.State != dedup.LetterOpen || l.Job != "job-1" || l.Token != "secret" || l.Key != c.key {
		s.Errorf("letter %+v", l)
	}
	s.note(letter2, held{key: s.key("old")})
	s.move(letter2, s.key("old"), dedup.LetterOpen, dedup.LetterSent, dedup.Done, func(l *dedup.Letter) { l.Token, l.Job, l.Expired = s.consumer, "job-1", true })
	reopen()
	p, err := s.store.Prefixes(s.Context(), s.consumer)
	if err != nil || len(p) != 1 || p[0] != at(100) {
		s.Errorf("prefixes %+v, %v", p, err)
	}
	old := func(op *dedup.Op) { op.Position, op.Stored = at(1), s.now().Add(-2*windowOver) }
	s.claim("old", dedup.TooOld, old)
	late := s.claim("old", dedup.Acquired, old, func(op *dedup.Op) { op.ReplayToken = s.consumer })
	s.end(late, dedup.Success, dedup.Succeeded, func(op *dedup.Op) { op.Result = []byte{0, 0xff} })
	kept("old")
	c = s.claim("k", dedup.Acquired)
	s.end(c, dedup.Doubt, dedup.InDoubt)
	kept("k")
	s.operate(dedup.Reconcile, c.key, dedup.Done, func(o *dedup.OperatorOp) { o.To, o.Result = dedup.Success, []byte("by the books") })
	kept("k")
	s.pass(windowOver)
	reopen()
	if n := s.sweep(); n != 0 {
		s.Errorf("swept %d records whose letters are open", n)
	}
	for _, l := range []struct {
		id, record string
		state      dedup.LetterState
	}{{letter1, "k", dedup.LetterOpen}, {letter2, "old", dedup.LetterSent}} {
		s.move(l.id, s.key(l.record), l.state, dedup.LetterResolved, dedup.Done, func(l *dedup.Letter) { l.Job = "job-1" })
	}
	reopen()
	s.swept("with their letters resolved", 2)
}
