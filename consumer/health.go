package consumer

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/dedup"
)

// loopStuck is how long the loop may stand still, in a commit for example, or
// the finding of keys, in a user's function, before the consumer is no longer
// live.
const loopStuck = time.Minute

// Status is what a consumer says of itself.
type Status struct {
	// Live: the loop moves, keys are found, and no handler has outlived twice
	// its timeout. Not live means: restart the process.
	Live bool
	// Ready: the source was opened once.
	Ready bool
	// Degraded lists what does not work at the moment, by what it affects. It
	// heals by itself: red readiness would only block the rollout of a fix.
	Degraded map[string]string
	// Paused is what somebody has paused, on purpose: nothing new starts there
	// until it is resumed. A Pause without a scope is that of the whole consumer.
	Paused []dedup.Pause
	// Unfinished deliveries in the process, and their bytes.
	Unfinished, Bytes int
	// Hung handlers.
	Hung int
	// Lag is how many messages of the topics are not settled, as the broker said
	// within the last seconds: of the partitions that this process owns, without
	// those that wait to be tried again. -1 until it is known.
	Lag int64
}

// health is what the loop and the source know of the consumer's state.
type health struct {
	mu       sync.Mutex
	ready    bool
	hungNow  int
	lag      int64
	degraded map[string]string
	paused   []dedup.Pause // replaced, never written into
}

func newHealth() *health { return &health{degraded: map[string]string{}, lag: -1} }

// degrade notes trouble and says whether it is new.
func (h *health) degrade(what string, err error) (fresh bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, known := h.degraded[what]
	h.degraded[what] = err.Error()
	return !known
}

// restore takes trouble back and says whether there was any.
func (h *health) restore(what string) (was bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, was = h.degraded[what]
	delete(h.degraded, what)
	return was
}

// pauses notes what is paused and returns what was.
func (h *health) pauses(now []dedup.Pause) (before []dedup.Pause) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before, h.paused = h.paused, now
	return before
}

func (h *health) hung(n int) {
	h.mu.Lock()
	h.hungNow = n
	h.mu.Unlock()
}

func (h *health) lags(n int64) {
	h.mu.Lock()
	h.lag = n
	h.mu.Unlock()
}

func (h *health) joined() {
	h.mu.Lock()
	h.ready = true
	h.mu.Unlock()
}

// Status reports what works. It may be called at any time, from anywhere.
func (c *Consumer) Status() Status {
	p := c.pipeline
	c.health.mu.Lock()
	s := Status{Ready: c.health.ready, Hung: c.health.hungNow, Lag: c.health.lag, Degraded: maps.Clone(c.health.degraded), Paused: slices.Clone(c.health.paused)}
	c.health.mu.Unlock()
	s.Unfinished, s.Bytes = p.room.used()
	s.Live = s.Hung == 0 && !stuck(p.moved.Load()) && !stuck(p.resolving.Load())
	return s
}

// stuck says that something has stood still for too long since a time in
// nanoseconds; 0 is never.
func stuck(since int64) bool { return since != 0 && time.Since(time.Unix(0, since)) >= loopStuck }
