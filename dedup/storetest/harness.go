package storetest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/dedup"
)

// Harness is what the suite needs to know of a store.
type Harness struct {
	// Open makes a new, empty store. The suite closes it. Required.
	Open func(tb testing.TB) dedup.Store

	// Reopen closes s in good order and opens its data again; Crash abandons it
	// as a killed process does, with no call under way. Both nil for a store
	// that is not durable.
	Reopen func(tb testing.TB, s dedup.Store) dedup.Store
	Crash  func(tb testing.TB, s dedup.Store) dedup.Store

	// Peer opens the data of s once more beside it, as another process does;
	// nil for a local store.
	Peer func(tb testing.TB, s dedup.Store) dedup.Store

	// Advance moves the store's clock forward. Nil: the store's clock is
	// time.Now, and each check runs in a testing/synctest bubble, where
	// everything that the store starts must end with its Close.
	Advance func(d time.Duration)
	// ShiftWall moves the wall clock, forward or back, while time passes as
	// ever. Nil: the store does not look at it, or it cannot be moved.
	ShiftWall func(d time.Duration)

	// Work makes work that the store takes into a completing commit; do is to
	// be run in it. Nil: the store takes none.
	Work func(do func() error) any

	// SweepLate is how long a record may stay after its window, where a store
	// drops many at a time, and SweepStep the most records that Sweep ends when
	// asked for about 10, 0 for 20.
	SweepLate time.Duration
	SweepStep int

	// Sequences of random operations, 0 for 200. Each makes some 15 commits.
	Sequences int
}

// check is one promise, or a few that belong together.
type check struct {
	name string
	run  func(*session)
}

// checks are all of the suite, in the order in which one wants to see them
// fail.
func checks() []check {
	var all []check
	for _, part := range [][]check{
		claimRows, ownerRows, doubtRows, letterRows, operatorRows, sweepRows,
		batchChecks, keyChecks, timeChecks, readChecks, lifeChecks, durableChecks, peerChecks,
		concurrentChecks, randomChecks,
	} {
		all = append(all, part...)
	}
	return all
}

// Run checks that a store keeps every promise of [dedup.Store]. Each is a
// subtest, named by what it promises.
func Run(t *testing.T, h Harness) {
	t.Helper()
	for _, c := range checks() {
		t.Run(c.name, func(t *testing.T) {
			if h.Advance != nil {
				begin(t, h).check(c)
				return
			}
			synctest.Test(t, func(t *testing.T) { begin(t, h).check(c) })
		})
	}
}

// session is one check on one store.
type session struct {
	testing.TB
	h        Harness
	store    dedup.Store
	consumer string
	tokens   uint64        // given so far
	moved    time.Duration // by Advance
}

func begin(tb testing.TB, h Harness) *session {
	tb.Helper()
	if h.Sequences == 0 {
		h.Sequences = 200
	}
	return &session{TB: tb, h: h, consumer: "billing"}
}

func (s *session) check(c check) {
	s.Helper()
	s.store = s.h.Open(s)
	defer func() {
		if err := s.store.Close(); err != nil {
			s.Errorf("close: %v", err)
		}
	}()
	c.run(s)
}

// pass lets time pass for the store.
func (s *session) pass(d time.Duration) {
	if s.h.Advance == nil {
		time.Sleep(d)
		return
	}
	s.h.Advance(d)
	s.moved += d
}

// now by the store's clock, to within what a call takes.
func (s *session) now() time.Time {
	return time.Now().Add(s.moved)
}
