package boltstore

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/dedup"
)

// sweepAll sweeps until nothing more is due.
func sweepAll(t testing.TB, s *Store) (records int) {
	t.Helper()
	for {
		swept, err := s.Sweep(t.Context(), 100)
		if err != nil {
			t.Fatal(err)
		}
		if records += swept.Records; !swept.More {
			return records
		}
	}
}

// entriesOf counts what the log holds.
func entriesOf(s *Store) (n int) {
	for _, g := range s.segments {
		n += int(g.count)
	}
	return n
}

func short(o *Options) { o.noSync, o.entries = true, 50 }

func TestWhatExpiresLeavesTheFileAndTheIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, short)
		complete(t, s, 0, 300)
		apply(t, s, claim("unfinished", 7777))
		time.Sleep(30 * time.Minute)
		complete(t, s, 300, 300)
		if n := sweepAll(t, s); n != 0 {
			t.Fatalf("swept %d early", n)
		}
		time.Sleep(31 * time.Minute) // by the advances below, all messages are passed
		for _, p := range []int64{200, 10_000} {
			apply(t, s, dedup.Op{
				Kind: dedup.Advance, Key: dedup.Key{Consumer: "billing"}, Position: dedup.Position{Source: "orders@1", Partition: 3, Offset: p},
			})
			sweepAll(t, s)
		}
		if n := s.Info().Records; n != 301 {
			t.Errorf("%d records are left, want 301", n)
		}
		if n := entriesOf(s); n > 601+300 {
			t.Errorf("%d entries are left", n)
		}
		s = again(t, s, short)
		if n := s.Info().Records; n != 301 {
			t.Errorf("%d records after opening again, want 301", n)
		}
		if r := lookup(t, s, "unfinished"); r.State != dedup.InProgress {
			t.Errorf("the unfinished record is %s", r.State)
		}
		time.Sleep(time.Hour)
		sweepAll(t, s)
		if n := s.Info().Records; n != 1 {
			t.Errorf("%d records are left, want 1", n)
		}
		if n := entriesOf(s); n > 10 {
			t.Errorf("%d entries are left", n)
		}
		again(t, s, short)
	})
}

// The file is opened again after every step of a sweep, as after a crash.
func TestASweepMayEndAnywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, short)
		archived := *policy
		archived.Archive = true
		for i := range 200 {
			c := claim(fmt.Sprint(i), uint64(i+1))
			c.Position = dedup.Position{}
			if i%5 == 0 {
				c.Policy = &archived
			}
			a := apply(t, s, c)[0]
			switch {
			case i%7 == 0: // stays claimed
			case i%11 == 0:
				op := success(c, a)
				op.Outcome = dedup.Failure
				apply(t, s, op)
			default:
				apply(t, s, success(c, a))
			}
		}
		time.Sleep(time.Hour)
		for more := true; more; {
			swept, err := s.Sweep(t.Context(), 9)
			if err != nil {
				t.Fatal(err)
			}
			more = swept.More
			s = again(t, s, short)
		}
		for i := range 200 {
			want := dedup.Absent
			switch {
			case i%7 == 0:
				want = dedup.InProgress
			case i%11 == 0:
				want = dedup.Retryable
			case i%5 == 0:
				want = dedup.Tombstone
			}
			if r := lookup(t, s, fmt.Sprint(i)); r.State != want {
				t.Errorf("record %d is %s, want %s", i, r.State, want)
			}
		}
	})
}

func TestFencesRiseOverExpiryAndDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, short)
		var last uint64
		for n := range 20 {
			c := claim("k", uint64(n+1))
			c.Position = dedup.Position{}
			a := apply(t, s, c)[0]
			if a.Kind != dedup.Acquired || a.Fence <= last {
				t.Fatalf("claim %d: %v, fence %d after %d", n, a.Kind, a.Fence, last)
			}
			last = a.Fence
			apply(t, s, success(c, a))
			if n%2 == 0 {
				time.Sleep(time.Hour)
				if sweepAll(t, s) != 1 {
					t.Fatal("not swept")
				}
			} else {
				apply(t, s, dedup.Op{Kind: dedup.Delete, Key: c.Key, Operator: &dedup.OperatorOp{
					Seen: dedup.Seen{State: dedup.Succeeded, Run: 1, Fence: a.Fence}, Who: "ann", Why: "test",
				}})
			}
			if n%3 == 0 {
				s = again(t, s, short)
			}
		}
	})
}

// A record whose window changes moves to the segments of the new one; the old
// ones go without it and say nothing of it any more.
func TestARecordMayChangeItsWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, short)
		long := *policy
		long.Window = 100 * time.Hour
		var ends []dedup.Op
		for i := range 60 {
			c := claim(fmt.Sprint(i), uint64(i+1))
			c.Position = dedup.Position{}
			end := success(c, apply(t, s, c)[0])
			if i%2 == 0 {
				end.Policy = &long
			}
			ends = append(ends, end)
		}
		apply(t, s, ends...)
		s = again(t, s, short)
		for _, step := range []struct {
			sleep time.Duration
			left  int64
		}{{2 * time.Hour, 30}, {97 * time.Hour, 30}, {2 * time.Hour, 0}} {
			time.Sleep(step.sleep)
			sweepAll(t, s)
			s = again(t, s, short)
			if n := s.Info().Records; n != step.left {
				t.Errorf("%d records are left, want %d", n, step.left)
			}
		}
	})
}

func TestManyWindowsAreFewClasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, short)
		for i := range 500 {
			p := *policy
			p.Window = time.Hour + time.Duration(i)*time.Second
			c := claim(fmt.Sprint(i), uint64(i+1))
			c.Position, c.Policy = dedup.Position{}, &p
			apply(t, s, success(c, apply(t, s, c)[0]))
		}
		keep(t, s, 1000, 10, policy)
		if n := len(s.current); n > maxWindows+10 {
			t.Errorf("%d classes", n)
		}
		s = again(t, s, short)
		time.Sleep(time.Hour)
		sweepAll(t, s)
		if n := s.Info().Records; n < 480 {
			t.Errorf("%d records are left: some were swept early", n)
		}
		time.Sleep(time.Hour)
		sweepAll(t, s)
		if n := s.Info().Records; n != 0 {
			t.Errorf("%d records are left", n)
		}
	})
}

func keep(t testing.TB, s *Store, first, n int, p *dedup.Policy) {
	t.Helper()
	ops := make([]dedup.Op, n)
	for i := range ops {
		ops[i] = claim(fmt.Sprint(first+i), uint64(first+i+1))
		ops[i].Policy, ops[i].Position = p, dedup.Position{}
	}
	for i, a := range apply(t, s, ops...) {
		ops[i] = success(ops[i], a)
	}
	apply(t, s, ops...)
}
