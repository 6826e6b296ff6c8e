package boltstore

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/dedup"
)

// The wall clock is taken once, at opening. A file that has seen a later time
// goes on from there.
func TestTheClockNeverRunsBackwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		s.clock.first += int64(time.Hour) // the wall clock was an hour ahead
		c := claim("a", 1)
		c.Position = dedup.Position{}
		apply(t, s, success(c, apply(t, s, c)[0]))
		ahead := s.clock.now()
		s = again(t, s)
		if now := s.clock.now(); now.Before(ahead) {
			t.Errorf("the clock went from %v to %v", ahead, now)
		}
		time.Sleep(59 * time.Minute)
		if n := sweepAll(t, s); n != 0 {
			t.Errorf("swept %d early", n)
		}
		time.Sleep(time.Minute)
		if n := sweepAll(t, s); n != 1 {
			t.Errorf("swept %d when it was time", n)
		}
	})
}

func TestTheClockIsMonotonicBetween(t *testing.T) {
	c := startClock(0)
	wall := time.Now()
	// A wall clock that is set changes what time.Now says without its monotonic
	// reading; the clock looks at the latter alone.
	if d := c.now().Sub(wall); d < -time.Second || d > time.Second {
		t.Errorf("the clock is off by %v", d)
	}
	c.began = c.began.Add(-time.Hour)
	if d := c.now().Sub(wall); d < time.Hour-time.Second || d > time.Hour+time.Second {
		t.Errorf("an hour took %v", d)
	}
	if c := startClock(wall.Add(time.Hour).UnixNano()); c.now().Before(wall.Add(time.Hour)) {
		t.Error("the clock is behind what the file has seen")
	}
}
