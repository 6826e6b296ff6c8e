package boltstore

import (
	"errors"
	"testing"

	"github.com/onceward/onceward/dedup"
)

// A commit may have happened although it failed: the sync behind it did.
func TestAFailedCommitThatHappenedIsAnsweredAsWritten(t *testing.T) {
	var fault error
	s := newStore(t, func(o *Options) { o.fault = func() error { return fault } })
	complete(t, s, 0, 10)
	broken := errors.New("sync: input/output error")

	fault = broken
	c := claim("a", 100)
	if _, err := s.Apply(t.Context(), []dedup.Op{c}); !errors.Is(err, broken) {
		t.Fatalf("claim: %v", err)
	}
	fault = nil
	a := apply(t, s, c)[0]
	if a.Kind != dedup.Acquired {
		t.Fatalf("the same claim again: %v", a.Kind)
	}
	fence := a.Fence

	fault = broken
	end := success(c, a)
	if _, err := s.Apply(t.Context(), []dedup.Op{end}); !errors.Is(err, broken) {
		t.Fatalf("end: %v", err)
	}
	fault = nil
	a = apply(t, s, end)[0]
	if a.Kind != dedup.Fenced || a.Record == nil || a.Record.State != dedup.Succeeded || a.Record.Token != c.Token || a.Record.Fence != fence {
		t.Errorf("the same end again: %+v", a)
	}
	if s.Info().Records != 11 {
		t.Errorf("%d records", s.Info().Records)
	}
	complete(t, s, 20, 10)
}

func TestASecondConsumerOfOneFileIsNotLetInWhileItIsReadAgain(t *testing.T) {
	var fault error
	s := newStore(t, func(o *Options) { o.fault = func() error { return fault } })
	fault = errors.New("sync: input/output error")
	_, _ = s.Apply(t.Context(), []dedup.Op{claim("a", 1)})
	fault = nil
	if _, err := Open(s.path, Options{LockWait: -1, Logger: quiet}); !errors.Is(err, ErrLocked) {
		t.Errorf("open: %v", err)
	}
	apply(t, s, claim("b", 2))
}
