package storetest

import (
	"time"

	"github.com/onceward/onceward/dedup"
)

// timeChecks are about the store's clock: it alone judges.
var timeChecks = []check{
	{"time: a lease ends when it is over, to the second", func(s *session) {
		s.claim("k", dedup.Acquired)
		s.pass(10 * time.Second)
		s.claim("k", dedup.Busy)
		s.pass(time.Second)
		s.claim("k", dedup.Acquired)
	}},
	{"time: the longest lease and the shortest", func(s *session) {
		s.claim("short", dedup.Acquired, func(op *dedup.Op) { op.Lease = dedup.MinLease })
		s.claim("long", dedup.Acquired, func(op *dedup.Op) { op.Lease = dedup.MaxLease })
		s.pass(2 * time.Second)
		s.claim("short", dedup.Acquired)
		s.pass(dedup.MaxLease - time.Minute)
		s.claim("long", dedup.Busy)
		s.pass(time.Minute)
		s.claim("long", dedup.Acquired)
	}},
	{"time: what the record says is when it was", func(s *session) {
		near := func(what string, t, want time.Time) {
			s.Helper()
			if d := t.Sub(want); d < -time.Second || d > time.Second {
				s.Errorf("%s at %v, want about %v", what, t, want)
			}
		}
		began := s.now()
		c := s.claim("k", dedup.Acquired)
		s.pass(3 * time.Second)
		s.by(c, dedup.Dispatch, dedup.Done, charge)
		s.pass(time.Second)
		s.end(c, dedup.Failure, dedup.Retryable, func(op *dedup.Op) { op.Wait = pause })
		r := s.record(c.key)
		near("created", r.Created, began)
		near("claimed", r.Claimed, began)
		near("dispatched", r.Intents[0].Dispatched, began.Add(3*time.Second))
		near("failed first", r.FirstFailed, began.Add(4*time.Second))
		near("failed last", r.LastFailed, began.Add(4*time.Second))
		near("not before", r.NotBefore, began.Add(4*time.Second+pause))
		s.pass(pauseOver)
		c = s.claim("k", dedup.AcquiredInDoubt)
		s.by(c, dedup.Confirm, dedup.Done, charge)
		s.end(c, dedup.Success, dedup.Succeeded)
		r = s.record(c.key)
		near("claimed again", r.Claimed, began.Add(10*time.Second))
		near("finished", r.Finished, began.Add(10*time.Second))
		near("created still", r.Created, began)
	}},
	{"time: the wall clock may jump", func(s *session) {
		if s.h.ShiftWall == nil {
			return
		}
		for _, jump := range []time.Duration{time.Hour, -2 * time.Hour, time.Hour} {
			live := s.claim("live", dedup.Acquired)
			lapsed := s.claim("lapsed", dedup.Acquired)
			done := s.claim("done", dedup.Acquired)
			s.end(done, dedup.Success, dedup.Succeeded)
			s.pass(leaseOver)
			s.want("renew", s.do(dedup.Op{Kind: dedup.Renew, Key: live.key, Fence: live.Fence, Lease: lease}), dedup.Fenced)
			live = s.claim("live", dedup.Acquired)
			s.h.ShiftWall(jump)
			s.claim("live", dedup.Busy)
			s.by(live, dedup.Renew, dedup.Done)
			if n := s.sweep(); n != 0 {
				s.Errorf("swept %d records early after a jump of %v", n, jump)
			}
			s.claim("done", dedup.DuplicateSucceeded)
			s.end(s.claim("lapsed", dedup.Acquired), dedup.Skip, dedup.Retryable)
			s.operate(dedup.Delete, lapsed.key, dedup.Done)
			s.operate(dedup.Delete, done.key, dedup.Done)
			s.end(live, dedup.Success, dedup.Succeeded)
			s.operate(dedup.Delete, live.key, dedup.Done)
		}
	}},
}
