package consumer

import (
	"errors"
	"maps"
	"sync"
	"time"
)

var errBreakerOpen = errors.New("breaker is open: a dependency fails for most keys, one at a time probes")

// loopStuck is how long the loop may stand still, in a commit for example,
// before the consumer is no longer live.
const loopStuck = time.Minute

// Status is what a consumer says of itself.
type Status struct {
	// Live: the loop moves and no handler has outlived twice its timeout. Not
	// live means: restart the process.
	Live bool
	// Ready: the source was opened once.
	Ready bool
	// Degraded lists what does not work at the moment, by what it affects. It
	// heals by itself: red readiness would only block the rollout of a fix.
	Degraded map[string]string
	// Unfinished deliveries in the process, and their bytes.
	Unfinished, Bytes int
	// Hung handlers.
	Hung int
}

// health is what the loop and the source know of the consumer's state.
type health struct {
	mu       sync.Mutex
	ready    bool
	hungNow  int
	degraded map[string]string
}

func newHealth() *health { return &health{degraded: map[string]string{}} }

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

func (h *health) hung(n int) {
	h.mu.Lock()
	h.hungNow = n
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
	s := Status{Ready: c.health.ready, Hung: c.health.hungNow, Degraded: maps.Clone(c.health.degraded)}
	c.health.mu.Unlock()
	s.Unfinished, s.Bytes = p.room.used()
	moved := p.moved.Load()
	s.Live = s.Hung == 0 && (moved == 0 || time.Since(time.Unix(0, moved)) < loopStuck)
	return s
}
