package storetest

import (
	"github.com/onceward/onceward/dedup"
)

// peerChecks are about a store that several processes share. Each returns at
// once for a local one.
var peerChecks = []check{
	{"peer: a store that several processes share says so", func(s *session) {
		if local := s.store.Info().Local; local != (s.h.Peer == nil) {
			s.Errorf("the harness has peers: %v, the store says local: %v", s.h.Peer != nil, local)
		}
	}},
	{"peer: what one writes the other sees", func(s *session) {
		if s.h.Peer == nil {
			return
		}
		mine, theirs := s.store, s.h.Peer(s, s.store)
		defer func() { s.store = mine }()
		defer func() {
			if err := theirs.Close(); err != nil {
				s.Errorf("close: %v", err)
			}
			s.store = mine
			s.claim("after one has left", dedup.Acquired)
		}()
		if mine.Info().ID != theirs.Info().ID {
			s.Errorf("identity %q and %q", mine.Info().ID, theirs.Info().ID)
		}
		c := s.claim("k", dedup.Acquired)
		s.store = theirs
		s.claim("k", dedup.Busy)
		s.is(c.key, dedup.InProgress)
		s.pass(leaseOver)
		next := s.claim("k", dedup.Acquired)
		if next.Fence <= c.Fence || next.Crashes != 1 {
			s.Errorf("answer %+v", next.Answer)
		}
		s.store = mine
		s.by(c, dedup.Renew, dedup.Fenced)
		s.want("late success", s.do(endOp(c, dedup.Success)), dedup.Fenced)
		s.end(next, dedup.Success, dedup.Succeeded)
		s.store = theirs
		s.claim("k", dedup.DuplicateSucceeded)
	}},
}
