package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/memstore"
)

// moody is a store whose sweeps fail as it is told.
type moody struct {
	dedup.Store
	errs []error
}

func (s *moody) Sweep(ctx context.Context, limit int) (dedup.Swept, error) {
	if len(s.errs) > 0 {
		err := s.errs[0]
		s.errs = s.errs[1:]
		return dedup.Swept{}, err
	}
	return s.Store.Sweep(ctx, limit)
}

func TestAGuardsResultsAreKeptSwept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &moody{Store: memstore.New(), errs: []error{errors.New("connection refused")}}
		g := newGuard(s)
		g.Window = time.Hour
		for i := range 2500 {
			key := dedup.Key{Scope: "invoice.send", ID: fmt.Sprint(i)}
			if _, _, err := dedup.Do(t.Context(), g, key, func(context.Context) (int, error) { return i, nil }); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- dedup.KeepSwept(ctx, s, time.Minute) }()
		time.Sleep(59 * time.Minute)
		if n := s.Info().Records; n != 2500 {
			t.Errorf("%d records within the window", n)
		}
		time.Sleep(2 * time.Minute)
		if n := s.Info().Records; n != 0 {
			t.Errorf("%d records after the window", n)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
	})
}

func TestSweepingEndsWithTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		time.AfterFunc(time.Hour, func() { _ = s.Close() })
		if err := dedup.KeepSwept(t.Context(), s, time.Minute); !errors.Is(err, dedup.ErrClosed) {
			t.Errorf("ended with %v", err)
		}
		lost := &dedup.DamagedError{Where: "file"}
		if err := dedup.KeepSwept(t.Context(), &moody{errs: []error{lost}}, time.Minute); !errors.Is(err, lost) {
			t.Errorf("ended with %v", err)
		}
	})
}

// A zero interval is a default as everywhere, and no loop that never rests.
func TestAnIntervalOfNothingIsAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &counted{Store: memstore.New()}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute+time.Second)
		defer cancel()
		if err := dedup.KeepSwept(ctx, s, 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("ended with %v", err)
		}
		if s.sweeps != 10 {
			t.Errorf("%d sweeps in ten minutes", s.sweeps)
		}
	})
}

// counted counts its sweeps.
type counted struct {
	dedup.Store
	sweeps int
}

func (s *counted) Sweep(ctx context.Context, limit int) (dedup.Swept, error) {
	s.sweeps++
	return s.Store.Sweep(ctx, limit)
}
