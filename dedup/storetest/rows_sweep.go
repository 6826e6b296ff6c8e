package storetest

import (
	"fmt"

	"github.com/onceward/onceward/dedup"
)

// sweepRows are about the end of a window.
var sweepRows = []check{
	{"sweep: a finished record goes when its window is over, not before", func(s *session) {
		done := s.claim("done", dedup.Acquired)
		s.end(done, dedup.Success, dedup.Succeeded)
		for range 9 {
			s.pass(11e9)
			if n := s.sweep(); n != 0 {
				s.Fatalf("swept %d records too early", n)
			}
			s.claim("done", dedup.DuplicateSucceeded)
		}
		s.pass(2e9)
		s.swept("with its window over", 1)
		s.is(done.key, dedup.Absent)
		if c := s.claim("done", dedup.Acquired); c.Fence <= done.Fence || c.Run != 1 {
			s.Errorf("claim after it: %+v, the fence was %d", c.Answer, done.Fence)
		}
	}},
	{"sweep: what is not finished stays", func(s *session) {
		s.claim("lapsed", dedup.Acquired)
		s.end(s.claim("retryable", dedup.Acquired), dedup.Failure, dedup.Retryable)
		s.end(s.claim("in doubt", dedup.Acquired), dedup.Doubt, dedup.InDoubt)
		s.end(s.claim("owed", dedup.Acquired), dedup.Terminal, dedup.Failed)
		s.end(s.claim("for ever", dedup.Acquired), dedup.Success, dedup.Succeeded, with(func(p *dedup.Policy) { p.Window = 0 }))
		s.pass(10 * windowOver)
		if n := s.sweep(); n != 0 {
			s.Errorf("swept %d records", n)
		}
		for id, state := range map[string]dedup.State{
			"lapsed": dedup.InProgress, "retryable": dedup.Retryable, "in doubt": dedup.InDoubt, "owed": dedup.Failed, "for ever": dedup.Succeeded,
		} {
			s.is(s.key(id), state)
		}
	}},
	{"sweep: an unfinished letter keeps its record", func(s *session) {
		c := s.claim("k", dedup.Acquired)
		s.end(c, dedup.Terminal, dedup.Failed)
		s.note("letter-1", c)
		s.pass(windowOver)
		for _, step := range [][2]dedup.LetterState{
			{dedup.LetterOpen, dedup.LetterHeld}, {dedup.LetterHeld, dedup.LetterSent}, {dedup.LetterSent, dedup.LetterResolved},
		} {
			if n := s.sweep(); n != 0 {
				s.Fatalf("swept with its letter %s", step[0])
			}
			s.move("letter-1", c.key, step[0], step[1], dedup.Done)
		}
		s.swept("after its letter was resolved", 1)
		if l := s.letter("letter-1"); l.State != dedup.LetterNone {
			s.Errorf("its letter stays: %+v", l)
		}
		s.is(c.key, dedup.Absent)
	}},
	{"sweep: a message that was not passed yet keeps its record", func(s *session) {
		for offset := range int64(4) {
			c := s.claim(fmt.Sprint(offset), dedup.Acquired, func(op *dedup.Op) { op.Position = at(offset) })
			s.end(c, dedup.Success, dedup.Succeeded)
		}
		s.pass(windowOver)
		if n := s.sweep(); n != 0 {
			s.Errorf("swept %d records before anything was passed", n)
		}
		s.advance(2)
		s.swept("with two passed", 2)
		s.claim("1", dedup.Acquired)
		s.claim("2", dedup.DuplicateSucceeded)
		s.advance(4)
		s.swept("with all passed", 2)
	}},
	{"sweep: an archived record leaves a tombstone that answers", func(s *session) {
		archive := with(func(p *dedup.Policy) { p.Archive = true })
		done := s.claim("succeeded", dedup.Acquired, archive)
		s.end(done, dedup.Success, dedup.Succeeded, archive)
		dead := s.claim("failed", dedup.Acquired, archive)
		s.end(dead, dedup.Terminal, dedup.Failed, archive, func(op *dedup.Op) { p := *op.Policy; p.NoLetters = true; op.Policy = &p })
		s.note("letter-1", dead)
		s.move("letter-1", dead.key, dedup.LetterOpen, dedup.LetterResolved, dedup.Done)
		s.pass(windowOver)
		s.swept("into tombstones", 2)
		s.pass(10 * windowOver)
		if n := s.sweep(); n != 0 {
			s.Errorf("swept %d tombstones", n)
		}
		for _, c := range []struct {
			held
			outcome dedup.State
			kind    dedup.AnswerKind
		}{{done, dedup.Succeeded, dedup.DuplicateSucceeded}, {dead, dedup.Failed, dedup.DuplicateFailed}} {
			r := s.is(c.key, dedup.Tombstone)
			if r.Outcome != c.outcome || r.Fingerprint != digest(1) || r.Run != 1 || r.Fence != c.Fence {
				s.Errorf("tombstone %+v", r)
			}
			s.claim(c.key.ID, c.kind)
			s.claim(c.key.ID, dedup.Conflict, func(op *dedup.Op) { op.Fingerprint = digest(2) })
		}
		if l := s.letter("letter-1"); l.State != dedup.LetterResolved {
			s.Errorf("the tombstone's letter: %+v", l)
		}
		s.operate(dedup.Reopen, done.key, dedup.Refused)
		s.operate(dedup.Delete, done.key, dedup.Refused)
	}},
	{"sweep: a record that was reopened is of today", func(s *session) {
		c := s.claim("k", dedup.Acquired)
		s.end(c, dedup.Success, dedup.Succeeded)
		s.pass(windowOver / 2)
		s.operate(dedup.Reopen, c.key, dedup.Done)
		c = s.claim("k", dedup.Acquired)
		s.end(c, dedup.Success, dedup.Succeeded)
		s.pass(windowOver / 2)
		s.pass(1e9)
		if n := s.sweep(); n != 0 {
			s.Errorf("swept %d records by the window of an earlier run", n)
		}
		s.pass(windowOver / 2)
		s.swept("by the window of the last run", 1)
	}},
	{"sweep: it goes in steps", func(s *session) {
		const n = 250
		ops := make([]dedup.Op, n)
		for i := range ops {
			ops[i] = s.claimOp(fmt.Sprint(i))
		}
		answers := s.apply(ops...)
		for i := range ops {
			ops[i] = endOp(held{Answer: answers[i], key: ops[i].Key, token: ops[i].Token}, dedup.Success)
		}
		s.apply(ops...)
		s.pass(windowOver + s.h.SweepLate)
		most := s.h.SweepStep
		if most == 0 {
			most = 20
		}
		swept, err := s.store.Sweep(s.Context(), 10)
		if err != nil || swept.Records == 0 || swept.Records > most || swept.More != (swept.Records < n) {
			s.Errorf("a step of about 10 swept %+v, %v", swept, err)
		}
		if rest := s.sweep(); swept.Records+rest != n {
			s.Errorf("swept %d and %d of %d", swept.Records, rest, n)
		}
	}},
}
