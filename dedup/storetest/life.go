package storetest

import (
	"context"
	"errors"

	"github.com/onceward/onceward/dedup"
)

// lifeChecks are about contexts and Close.
var lifeChecks = []check{
	{"life: a closed store says so", func(s *session) {
		s.claim("k", dedup.Acquired)
		for range 2 {
			if err := s.store.Close(); err != nil {
				s.Errorf("close: %v", err)
			}
		}
		s.calls(s.Context(), dedup.ErrClosed)
		s.store.Info() // answers something
	}},
	{"life: a context that has ended is no call", func(s *session) {
		ctx, cancel := context.WithCancel(s.Context())
		cancel()
		s.calls(ctx, context.Canceled)
		s.is(s.key("refused"), dedup.Absent)
	}},
	{"life: two stores share nothing", func(s *session) {
		other := s.h.Open(s)
		defer func() {
			if err := other.Close(); err != nil {
				s.Errorf("close: %v", err)
			}
		}()
		s.claim("k", dedup.Acquired)
		r, err := other.Lookup(s.Context(), []dedup.Key{s.key("k")})
		if err != nil || r[0].State != dedup.Absent || other.Info().ID == s.store.Info().ID {
			s.Errorf("record %+v, %v, id %q", r, err, other.Info().ID)
		}
	}},
}

// calls makes every call that takes a context and expects the error.
func (s *session) calls(ctx context.Context, want error) {
	s.Helper()
	expect := func(call string, err error) {
		s.Helper()
		if !errors.Is(err, want) {
			s.Errorf("%s: %v, want %v", call, err, want)
		}
	}
	_, err := s.store.Apply(ctx, []dedup.Op{s.claimOp("refused")})
	expect("apply", err)
	_, err = s.store.Lookup(ctx, []dedup.Key{s.key("k")})
	expect("lookup", err)
	_, err = s.store.Letters(ctx, []string{"letter-1"})
	expect("letters", err)
	_, err = s.store.Prefixes(ctx, s.consumer)
	expect("prefixes", err)
	_, err = s.store.Sweep(ctx, 10)
	expect("sweep", err)
	err = nil
	for _, err = range s.store.Scan(ctx, "") {
		break
	}
	expect("scan", err)
	err = nil
	for _, err = range s.store.ScanLetters(ctx, "") {
		break
	}
	expect("scan of letters", err)
}
