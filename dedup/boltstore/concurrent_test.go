package boltstore

import (
	"fmt"
	"sync"
	"testing"

	"github.com/onceward/onceward/dedup"
)

// Writers, readers, scans and sweeps at the same time; the race detector and
// the file opened afterwards judge.
func TestAllCallsMayBeConcurrent(t *testing.T) {
	s := newStore(t, short)
	const writers, rounds = 4, 30
	var writing, all sync.WaitGroup
	done := make(chan struct{})
	for w := range writers {
		writing.Go(func() {
			for n := range rounds {
				complete(t, s, 10_000*w+10*n, 10)
			}
		})
	}
	beside := func(f func() error) {
		all.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := f(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	beside(func() error {
		r, err := s.Lookup(t.Context(), []dedup.Key{key("7"), key("10003"), key("nowhere")})
		if err == nil && r[2].State != dedup.Absent {
			return fmt.Errorf("record %+v", r[2])
		}
		return err
	})
	beside(func() error {
		for r, err := range s.Scan(t.Context(), "billing") {
			if err != nil || r.Key.ID == "" {
				return fmt.Errorf("record %+v: %w", r, err)
			}
		}
		return nil
	})
	beside(func() error { _, err := s.Sweep(t.Context(), 10); return err })
	beside(func() error {
		s.Info()
		_, err := s.Prefixes(t.Context(), "billing")
		return err
	})
	writing.Wait()
	close(done)
	all.Wait()
	s = again(t, s, short)
	if n := s.Info().Records; n != writers*rounds*10 {
		t.Errorf("%d records, want %d", n, writers*rounds*10)
	}
}
