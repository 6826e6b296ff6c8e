package storetest

import (
	"errors"
	"time"

	"github.com/onceward/onceward/dedup"
)

// ownerRows are about the owner of a claim without effects.
var ownerRows = []check{
	{"owner: renewing begins the lease again", func(s *session) {
		c := s.claim("k", dedup.Acquired)
		for range 3 {
			s.pass(9 * time.Second)
			s.by(c, dedup.Renew, dedup.Done)
		}
		s.pass(9 * time.Second)
		s.claim("k", dedup.Busy)
	}},
	{"owner: a lapsed lease is not renewed and not marked alone", func(s *session) {
		c := s.claim("k", dedup.Acquired)
		s.pass(leaseOver)
		before := s.record(c.key)
		if a := s.by(c, dedup.Renew, dedup.Fenced); a.Record == nil || a.Record.Token != c.token {
			s.Errorf("answer %+v", a)
		}
		s.by(c, dedup.Alone, dedup.Fenced)
		s.same(before)
		s.claim("k", dedup.Acquired)
	}},
	{"owner: an unlocked lease is not renewed", func(s *session) {
		c := s.claim("k", dedup.Acquired)
		s.operate(dedup.Unlock, c.key, dedup.Done)
		s.by(c, dedup.Renew, dedup.Fenced)
		s.claim("k", dedup.Acquired)
	}},
	{"owner: a superseded one changes nothing", func(s *session) {
		late := s.claim("k", dedup.Acquired)
		s.pass(leaseOver)
		owner := s.claim("k", dedup.Acquired)
		before := s.record(owner.key)
		s.by(late, dedup.Renew, dedup.Fenced)
		s.by(late, dedup.Alone, dedup.Fenced)
		s.by(late, dedup.Dispatch, dedup.Fenced, charge)
		s.want("release", s.do(endOp(late, dedup.Release)), dedup.Fenced)
		s.same(before)
		s.end(owner, dedup.Success, dedup.Succeeded)
	}},
	{"owner: what a superseded one has to say is kept as evidence, once", func(s *session) {
		late := s.claim("k", dedup.Acquired)
		s.pass(leaseOver)
		owner := s.claim("k", dedup.Acquired)
		for range 2 {
			a := s.do(endOp(late, dedup.Success, func(op *dedup.Op) { op.Result = []byte("receipt 6") }))
			s.want("late success", a, dedup.Fenced)
			if a.Record == nil || a.Record.Fence != owner.Fence || a.Record.Token != owner.token {
				s.Errorf("answer %+v", a)
			}
		}
		s.end(owner, dedup.Success, dedup.Succeeded, func(op *dedup.Op) { op.Result = []byte("receipt 7") })
		r := s.record(owner.key)
		if len(r.Evidence) != 1 || string(r.Result) != "receipt 7" {
			s.Fatalf("result %q, evidence %+v", r.Result, r.Evidence)
		}
		if e := r.Evidence[0]; e.Kind != dedup.End || e.Fence != late.Fence || e.Outcome != dedup.Success || e.Note != "receipt 6" || e.At.IsZero() {
			s.Errorf("evidence %+v", e)
		}
	}},
	{"owner: late but unfenced is true", func(s *session) {
		c := s.claim("k", dedup.Acquired)
		s.pass(10 * leaseOver)
		s.end(c, dedup.Success, dedup.Succeeded)
		s.claim("k", dedup.DuplicateSucceeded)
	}},
	{"owner: failed for good owes its letter", func(s *session) {
		for _, o := range []dedup.Outcome{dedup.Terminal, dedup.Exhausted} {
			c := s.claim(o.String(), dedup.Acquired)
			s.end(c, o, dedup.Failed)
			r := s.record(c.key)
			if !r.Owed || r.Finished.IsZero() {
				s.Errorf("%s: record %+v", o, r)
			}
			if want := uint32(o - dedup.Terminal); r.Failures != want {
				s.Errorf("%s: %d failures counted, want %d", o, r.Failures, want)
			}
		}
		c := s.claim("guarded", dedup.Acquired)
		s.end(c, dedup.Terminal, dedup.Failed, with(func(p *dedup.Policy) { p.NoLetters = true }))
		if s.record(c.key).Owed {
			s.Errorf("a letter is owed where nobody writes any")
		}
	}},
	{"owner: a failure is counted and a release is not", func(s *session) {
		c := s.claim("k", dedup.Acquired)
		s.end(c, dedup.Failure, dedup.Retryable, func(op *dedup.Op) { op.Error = "timeout" })
		c = s.claim("k", dedup.Acquired)
		s.end(c, dedup.Release, dedup.Retryable, func(op *dedup.Op) { op.Wait = pause })
		r := s.record(c.key)
		if r.Failures != 1 || r.Crashes != 0 || r.Error != "timeout" || r.FirstFailed.IsZero() || r.LastFailed.IsZero() {
			s.Errorf("record %+v", r)
		}
		s.claim("k", dedup.NotBefore)
		s.pass(pauseOver)
		if c = s.claim("k", dedup.Acquired); c.Failures != 1 || c.Record == nil {
			s.Errorf("answer %+v", c.Answer)
		}
	}},
	{"owner: skip leaves no record", func(s *session) {
		c := s.claim("k", dedup.Acquired)
		s.end(c, dedup.Skip, dedup.Absent)
		if next := s.claim("k", dedup.Acquired); next.Fence <= c.Fence || next.Run != 1 || next.Failures != 0 {
			s.Errorf("claim after it: %+v, the fence was %d", next.Answer, c.Fence)
		}
	}},
	{"owner: skip after an effect, or in a later run, is a failure", func(s *session) {
		c := s.claim("effect", dedup.Acquired)
		s.by(c, dedup.Dispatch, dedup.Done, charge)
		s.by(c, dedup.Confirm, dedup.Done, charge)
		s.end(c, dedup.Skip, dedup.Retryable)
		if r := s.record(c.key); r.Failures != 1 {
			s.Errorf("record %+v", r)
		}
		c = s.claim("run 2", dedup.Acquired)
		s.end(c, dedup.Success, dedup.Succeeded)
		s.operate(dedup.Reopen, c.key, dedup.Done)
		c = s.claim("run 2", dedup.Acquired)
		s.end(c, dedup.Skip, dedup.Retryable)
		if r := s.record(c.key); r.Failures != 1 || r.Run != 2 {
			s.Errorf("record %+v", r)
		}
	}},
	{"owner: an end that is repeated tells that it is its own", func(s *session) {
		for _, o := range []dedup.Outcome{dedup.Success, dedup.Terminal, dedup.Failure, dedup.Release, dedup.Doubt} {
			c := s.claim(o.String(), dedup.Acquired)
			s.want("end", s.do(endOp(c, o)), dedup.Done)
			before := s.record(c.key)
			a := s.do(endOp(c, o))
			if a.Kind != dedup.Fenced || a.Record == nil || a.Record.Fence != c.Fence || a.Record.Token != c.token {
				s.Errorf("%s again: %+v, record %+v", o, a, a.Record)
			}
			s.same(before)
		}
	}},
	{"owner: what has ended stays ended", func(s *session) {
		c := s.claim("k", dedup.Acquired)
		s.end(c, dedup.Success, dedup.Succeeded)
		for _, o := range []dedup.Outcome{dedup.Terminal, dedup.Failure, dedup.Release, dedup.Doubt, dedup.Skip} {
			s.want(o.String(), s.do(endOp(c, o)), dedup.Fenced)
			s.is(c.key, dedup.Succeeded)
		}
		s.by(c, dedup.Renew, dedup.Fenced)
	}},
	{"owner: a fence that was never given is the item's fault", func(s *session) {
		c := s.claim("k", dedup.Acquired)
		before := s.record(c.key)
		c.Fence += 1000
		a := s.do(endOp(c, dedup.Success))
		if a.Kind != dedup.Invalid || !errors.Is(a.Err, dedup.ErrInvalidOp) {
			s.Errorf("answer %+v", a)
		}
		s.same(before)
	}},
	{"owner: an absent key has none", func(s *session) {
		c := held{key: s.key("k"), Answer: dedup.Answer{Fence: 1}}
		s.want("end", s.do(endOp(c, dedup.Success)), dedup.Fenced)
		s.is(c.key, dedup.Absent)
	}},
	{"owner: the result may be a digest", func(s *session) {
		c := s.claim("k", dedup.Acquired)
		s.end(c, dedup.Success, dedup.Succeeded, func(op *dedup.Op) { op.Result, op.Digest = make([]byte, 32), true })
		if d := s.claim("k", dedup.DuplicateSucceeded); d.Record == nil || !d.Record.Digest || len(d.Record.Result) != 32 {
			s.Errorf("record %+v", d.Record)
		}
	}},
	{"owner: enlisted work is done with a success and with nothing else", func(s *session) {
		if s.h.Work == nil {
			return
		}
		ran := 0
		work := func(op *dedup.Op) { op.Enlisted = []any{s.h.Work(func() error { ran++; return nil })} }
		c := s.claim("k", dedup.Acquired)
		s.end(c, dedup.Failure, dedup.Retryable, work)
		s.pass(leaseOver)
		late := s.claim("k", dedup.Acquired)
		s.pass(leaseOver)
		c = s.claim("k", dedup.Acquired)
		s.want("late success", s.do(endOp(late, dedup.Success, work)), dedup.Fenced)
		if ran != 0 {
			s.Fatalf("ran with a failure or a superseded success")
		}
		broken := errors.New("no such account")
		a := s.do(endOp(c, dedup.Success, func(op *dedup.Op) {
			op.Enlisted = []any{s.h.Work(func() error { return broken })}
		}))
		if a.Kind != dedup.Invalid || !errors.Is(a.Err, broken) {
			s.Errorf("work that fails: answer %+v", a)
		}
		s.is(c.key, dedup.InProgress)
		s.end(c, dedup.Success, dedup.Succeeded, work)
		if ran == 0 {
			s.Errorf("not run with a success")
		}
	}},
}
