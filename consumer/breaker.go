package consumer

import (
	"maps"
	"math"
	"sync"
	"time"
)

// breaker tells an outage of a dependency from messages that fail, and holds
// new work while it lasts.
//
// Closed, every handler may start and failures count. Open, nothing starts
// until the pause is over; then one attempt probes. Each probe that fails
// doubles the pause up to 30 s. Half open, after a probe that succeeded, 1, 2, 4, ...
// attempts may run at once, and once that reaches the number of workers it is
// closed; or once it has seen a success and no fresh failure for 30 s, which is
// how a quiet topic gets there. It closes as well when only few keys are left to
// probe, fewer than would have opened it: those are those messages' fault, and
// must be used up for what waits behind them. A failure counts only if it is
// closed from the attempt's start to its end.
//
// What opens it is the failure of keys that had not failed before. A key with
// counted failures failed while others succeeded, so its next failure says
// nothing about a dependency; otherwise the last few poisoned messages of a
// quiet topic would look like an outage that never ends.
type breaker struct {
	workers int
	share   float64
	minKeys int
	probe   time.Duration
	off     bool

	mu    sync.Mutex
	state breakerState
	epoch attemptEpoch // of the state; attempts of an earlier one prove nothing

	// Closed: the last attempts in a ring; zero is a success, else the hash of
	// the key that failed.
	recent  []uint64
	next    int
	filled  int
	failing map[uint64]struct{} // the keys in recent
	streak  int                 // failing keys since the last success

	// Not closed.
	pause   time.Duration
	resume  time.Time // when the next probe may start
	allowed int       // attempts at once
	running int       // of this epoch
	good    int       // results of this step
	bad     int
	tried   map[uint64]struct{} // keys that failed since it opened
	calm    time.Time           // half open: no fresh failure since
	since   time.Time           // when it opened
	probes  int                 // that failed since lately was emptied
	lately  map[uint64]struct{} // their keys
}

// maxTried bounds the keys that are remembered while it is not closed. They
// fail one at a time with a pause between: this is hours.
const maxTried = 10_000

type breakerState uint8

const (
	breakerClosed breakerState = iota
	breakerOpen
	breakerHalfOpen
)

func (s breakerState) String() string { return [...]string{"closed", "open", "half open"}[s] }

// attemptEpoch is given out to each handler that starts and given back with its
// result.
type attemptEpoch uint32

// proof is what a handler's end says about its dependencies.
type proof uint8

const (
	// provesNothing: refused for good, skipped, in doubt, cut short by a
	// shutdown or a lost partition: the dependency may not have been asked.
	provesNothing proof = iota
	provesUp
	provesDown // a retryable or unclassified failure, a timeout
)

func newBreaker(c Breaker, workers int) *breaker {
	b := &breaker{
		workers: max(workers, 1),
		share:   c.Share,
		minKeys: c.MinKeys,
		probe:   c.Probe,
		off:     c.Off,
		recent:  make([]uint64, max(c.Recent, c.MinKeys, 1)),
		failing: make(map[uint64]struct{}),
	}
	return b
}

// admit says how many more handlers may start now, and after how long it may
// say something else although nothing was recorded; 0 for never.
func (b *breaker) admit(now time.Time) (n int, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settle(now)
	if b.state == breakerClosed {
		return math.MaxInt, 0
	}
	if wait = b.resume.Sub(now); wait > 0 {
		return 0, wait
	}
	if b.state == breakerHalfOpen {
		wait = b.calm.Add(maxProbe).Sub(now)
	}
	return max(b.allowed-b.running, 0), max(wait, 0)
}

// start notes that a handler starts. Exactly one record must follow.
func (b *breaker) start() attemptEpoch {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running++
	return b.epoch
}

// record notes how a handler ended, or that it will not end in time, and says
// whether its failure counts. failures is how many had been counted for the key
// before. The failures that open the breaker do not count themselves.
func (b *breaker) record(began attemptEpoch, key uint64, failures int, p proof, now time.Time) (counts bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.off {
		return true
	}
	b.settle(now)
	if began != b.epoch {
		return false
	}
	b.running--
	if b.state != breakerClosed {
		b.probed(key, failures, p, now)
		return false
	}
	b.observe(key, failures, p, now)
	return b.state == breakerClosed
}

// settle closes a half-open breaker to which nothing has happened for long.
func (b *breaker) settle(now time.Time) {
	if b.state == breakerHalfOpen && now.Sub(b.calm) >= maxProbe {
		b.close()
	}
}

// observe looks at one result of normal work.
func (b *breaker) observe(key uint64, failures int, p proof, now time.Time) {
	if key == 0 {
		key = 1 // zero is a success in the ring
	}
	switch {
	case p == provesNothing, p == provesDown && failures > 0:
		return
	case p == provesUp:
		b.streak = 0
		b.push(0)
		return
	}
	if _, again := b.failing[key]; again {
		return // one key is never more than one
	}
	b.push(key)
	b.streak++
	keys := len(b.failing)
	switch {
	case keys < b.minKeys:
	case b.streak >= b.minKeys, float64(keys) >= b.share*float64(b.filled):
		b.open(now, b.probe)
	}
}

func (b *breaker) push(entry uint64) {
	if b.filled == len(b.recent) {
		if old := b.recent[b.next]; old != 0 {
			delete(b.failing, old)
		}
	} else {
		b.filled++
	}
	b.recent[b.next] = entry
	if entry != 0 {
		b.failing[entry] = struct{}{}
	}
	if b.next++; b.next == len(b.recent) {
		b.next = 0
	}
}

// probed looks at one result while the breaker is not closed.
func (b *breaker) probed(key uint64, failures int, p proof, now time.Time) {
	switch p {
	case provesNothing:
		return // its place is free for another
	case provesUp:
		b.good++
		b.forgetProbes()
	case provesDown:
		_, again := b.tried[key]
		if b.state == breakerHalfOpen && (again || failures > 0) {
			// It failed before and others succeeded since: its own fault.
			return
		}
		if len(b.tried) < maxTried {
			b.tried[key] = struct{}{}
		}
		if b.few(key) {
			b.close()
			return
		}
		b.bad++
		b.calm = now
		if float64(b.bad) >= b.share*float64(b.allowed) {
			// The single probe, or too many of a step: still down.
			b.open(now, min(2*b.pause, maxProbe))
			return
		}
	}
	if b.good+b.bad < b.allowed {
		return
	}
	// One step up. Some failures are allowed for, since poisoned messages
	// come by in an outage as well.
	if b.state == breakerOpen {
		b.state, b.calm = breakerHalfOpen, now
	}
	b.allowed, b.good, b.bad = 2*b.allowed, 0, 0
	if b.allowed > b.workers {
		b.close()
	}
}

// few says that the last probes, a quarter of an hour of them, failed for fewer
// keys than open it. Whatever else waits has them before it.
func (b *breaker) few(key uint64) bool {
	const fewest = 10 // the default of minKeys: a larger one must not make it wait for days
	if b.lately == nil {
		b.lately = make(map[uint64]struct{})
	}
	limit := min(b.minKeys, fewest)
	b.probes++
	b.lately[key] = struct{}{}
	if b.probes < 3*limit {
		return false
	}
	few := len(b.lately) < limit
	b.forgetProbes()
	return few
}

func (b *breaker) forgetProbes() {
	b.probes = 0
	clear(b.lately)
}

// open begins a pause. What still runs belongs to an earlier epoch: its
// success may be older than the outage, and proves nothing.
func (b *breaker) open(now time.Time, pause time.Duration) {
	if b.state == breakerClosed {
		b.since = now
	}
	b.state = breakerOpen
	b.epoch++
	b.pause, b.resume = pause, now.Add(pause)
	b.allowed, b.running, b.good, b.bad = 1, 0, 0, 0
	if b.tried == nil {
		b.tried = maps.Clone(b.failing)
	}
}

func (b *breaker) close() {
	b.state = breakerClosed
	b.epoch++
	b.running, b.next, b.filled, b.streak = 0, 0, 0, 0
	b.tried = nil
	b.forgetProbes()
	clear(b.failing)
}

// status is for reports: the state, and since when it has not been closed.
func (b *breaker) status() (breakerState, time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state == breakerClosed {
		return breakerClosed, time.Time{}
	}
	return b.state, b.since
}
