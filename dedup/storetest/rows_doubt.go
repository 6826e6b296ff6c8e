package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward/dedup"
)

// doubtRows are about effects: dispatched, and nobody knows whether they
// happened.
var doubtRows = []check{
	{"effect: an intent is dispatched once, confirmed or refused", func(s *session) {
		c := s.claim("k", dedup.Acquired)
		s.by(c, dedup.Dispatch, dedup.Done, charge)
		s.by(c, dedup.Dispatch, dedup.Fenced, charge)
		s.by(c, dedup.Refuse, dedup.Done, charge)
		s.by(c, dedup.Refuse, dedup.Fenced, charge)
		s.by(c, dedup.Dispatch, dedup.Done, charge)
		s.by(c, dedup.Confirm, dedup.Done, dedup.EffectOp{Name: "charge", External: "ch_1", Outcome: []byte("paid")})
		s.by(c, dedup.Dispatch, dedup.Fenced, charge)
		s.by(c, dedup.Refuse, dedup.Fenced, charge)
		s.by(c, dedup.Confirm, dedup.Fenced, sms)
		r := s.record(c.key)
		if len(r.Intents) != 1 || r.Intents[0].Effect != "charge" || r.Intents[0].Status != dedup.Confirmed ||
			r.Intents[0].External != "ch_1" || string(r.Intents[0].Outcome) != "paid" || r.Intents[0].QuietFor != quiet {
			s.Errorf("intents %+v", r.Intents)
		}
		s.end(c, dedup.Success, dedup.Succeeded)
	}},
	{"effect: what was not confirmed is verified by the next owner", func(s *session) {
		c := s.claim("k", dedup.Acquired)
		s.by(c, dedup.Dispatch, dedup.Done, charge)
		s.pass(leaseOver)
		next := s.claim("k", dedup.AcquiredInDoubt)
		if next.Record == nil || !next.Record.Doubt() || next.Record.Intents[0].Effect != "charge" || next.Crashes != 1 {
			s.Fatalf("answer %+v, record %+v", next.Answer, next.Record)
		}
		s.by(next, dedup.VerifyNot, dedup.Done, charge)
		s.by(next, dedup.Dispatch, dedup.Done, charge)
		s.by(next, dedup.Confirm, dedup.Done, charge)
		s.end(next, dedup.Success, dedup.Succeeded)
	}},
	{"effect: asked before the quiet period is over, not is no answer", func(s *session) {
		c := s.claim("k", dedup.Acquired, func(op *dedup.Op) { op.Lease = time.Hour })
		s.by(c, dedup.Dispatch, dedup.Done, charge)
		asked := charge
		s.pass(5 * time.Second)
		asked.AskedAt = s.now()
		s.by(c, dedup.VerifyNot, dedup.Fenced, charge)
		ahead := charge
		ahead.AskedAt = s.now().Add(time.Hour)
		s.by(c, dedup.VerifyNot, dedup.Fenced, ahead)
		s.pass(5 * time.Second)
		s.by(c, dedup.VerifyNot, dedup.Fenced, asked)
		s.by(c, dedup.VerifyNot, dedup.Done, charge)
	}},
	{"effect: a blind one has nobody to ask", func(s *session) {
		c := s.claim("k", dedup.Acquired)
		s.by(c, dedup.Dispatch, dedup.Done, sms)
		s.by(c, dedup.VerifyNot, dedup.Fenced, sms)
		s.pass(leaseOver)
		d := s.claim("k", dedup.HeldInDoubt)
		r := s.is(c.key, dedup.InDoubt)
		if r.Fence != c.Fence || r.Crashes != 0 || !r.Owed || r.Reason != dedup.ReasonInDoubt || d.Record == nil {
			s.Errorf("record %+v", r)
		}
	}},
	{"effect: the late owner of a held record may still tell", func(s *session) {
		happened := s.claim("happened", dedup.Acquired)
		not := s.claim("not", dedup.Acquired)
		silent := s.claim("silent", dedup.Acquired)
		for _, c := range []held{happened, not, silent} {
			s.by(c, dedup.Dispatch, dedup.Done, sms)
		}
		s.pass(leaseOver)
		for _, id := range []string{"happened", "not", "silent"} {
			s.claim(id, dedup.HeldInDoubt)
		}
		s.by(happened, dedup.Confirm, dedup.Done, sms)
		s.end(happened, dedup.Success, dedup.Succeeded)
		s.by(not, dedup.Refuse, dedup.Done, sms)
		s.note("letter-not", not)
		a := s.end(not, dedup.Failure, dedup.Retryable)
		if a.Run != 2 || a.Fence <= not.Fence || a.Failures != 0 || a.Opened != a.Fence {
			s.Errorf("answer %+v", a)
		}
		s.end(silent, dedup.Success, dedup.InDoubt)
		if r := s.record(silent.key); len(r.Evidence) != 1 || r.Evidence[0].Outcome != dedup.Success {
			s.Errorf("evidence %+v", r.Evidence)
		}
		s.by(silent, dedup.Renew, dedup.Fenced)
		s.by(silent, dedup.Dispatch, dedup.Fenced, charge)
	}},
	{"effect: the late owner ends a held record for good and owes no second letter", func(s *session) {
		for _, noted := range []bool{false, true} {
			c := s.claim(fmt.Sprint(noted), dedup.Acquired)
			s.end(c, dedup.Doubt, dedup.InDoubt)
			if noted {
				s.note("letter-noted", c)
			}
			s.end(c, dedup.Terminal, dedup.Failed)
			if r := s.record(c.key); r.Owed == noted {
				s.Errorf("letter noted %v, owed %v", noted, r.Owed)
			}
		}
	}},
	{"effect: no end but a retry leaves a doubt behind", func(s *session) {
		for _, c := range []struct {
			o      dedup.Outcome
			effect dedup.EffectOp
			state  dedup.State
			counts uint32
		}{
			{dedup.Success, charge, dedup.InDoubt, 0},
			{dedup.Terminal, charge, dedup.InDoubt, 0},
			{dedup.Exhausted, charge, dedup.InDoubt, 1},
			{dedup.Doubt, charge, dedup.InDoubt, 0},
			{dedup.Failure, charge, dedup.Retryable, 1},
			{dedup.Release, charge, dedup.Retryable, 0},
			{dedup.Skip, charge, dedup.Retryable, 1},
			{dedup.Success, sms, dedup.InDoubt, 0},
			{dedup.Failure, sms, dedup.InDoubt, 1},
			{dedup.Release, sms, dedup.InDoubt, 0},
			{dedup.Skip, sms, dedup.InDoubt, 1},
		} {
			name := c.effect.Name + " " + c.o.String()
			h := s.claim(name, dedup.Acquired)
			s.by(h, dedup.Dispatch, dedup.Done, c.effect)
			a := s.end(h, c.o, c.state)
			r := s.record(h.key)
			if !r.Doubt() || r.Failures != c.counts || r.Owed != (c.state == dedup.InDoubt) {
				s.Errorf("%s: record %+v", name, r)
			}
			if held := a.Record != nil; held != (c.state == dedup.InDoubt) {
				s.Errorf("%s: the answer to what is held in doubt comes with its record, others without: %+v", name, a)
			}
		}
		s.claim("charge failure", dedup.AcquiredInDoubt)
	}},
	{"effect: a burying claim verifies, and is held when it crashes with the doubt", func(s *session) {
		for range 3 {
			c := s.do(s.claimOp("k"))
			h := held{Answer: c, key: s.key("k")}
			if c.Failures == 2 {
				s.by(h, dedup.Dispatch, dedup.Done, charge)
			}
			s.want("failure", s.do(endOp(h, dedup.Failure)), dedup.Done)
		}
		c := s.claim("k", dedup.AcquiredToBury)
		if c.Record == nil || !c.Record.Doubt() {
			s.Errorf("the one who buries is not told of the doubt: %+v", c.Answer)
		}
		s.pass(leaseOver)
		s.claim("k", dedup.HeldInDoubt)
		if r := s.is(c.key, dedup.InDoubt); r.Fence != c.Fence || r.Crashes != 0 || !r.Owed {
			s.Errorf("record %+v", r)
		}
	}},
	{"effect: one key has sixteen at most", func(s *session) {
		c := s.claim("k", dedup.Acquired)
		for n := range dedup.MaxIntents {
			s.by(c, dedup.Dispatch, dedup.Done, dedup.EffectOp{Name: fmt.Sprint("effect ", n)})
		}
		a := s.by(c, dedup.Dispatch, dedup.Invalid, charge)
		if !errors.Is(a.Err, dedup.ErrInvalidOp) {
			s.Errorf("answer %+v", a)
		}
		if r := s.record(c.key); len(r.Intents) != dedup.MaxIntents {
			s.Errorf("%d intents", len(r.Intents))
		}
	}},
	{"effect: what a superseded owner knows of it is kept as evidence", func(s *session) {
		late := s.claim("k", dedup.Acquired)
		s.by(late, dedup.Dispatch, dedup.Done, charge)
		s.pass(leaseOver)
		s.claim("k", dedup.AcquiredInDoubt)
		s.by(late, dedup.Confirm, dedup.Fenced, dedup.EffectOp{Name: "charge", External: "ch_1"})
		r := s.record(late.key)
		if len(r.Evidence) != 1 || r.Evidence[0].Kind != dedup.Confirm || r.Evidence[0].Fence != late.Fence || r.Evidence[0].Note != "charge: ch_1" || !r.Doubt() {
			s.Errorf("intents %+v, evidence %+v", r.Intents, r.Evidence)
		}
	}},
}
