package service

import (
	"maps"
	"sync"

	"github.com/onceward/onceward/consumer"
)

// counts is how often each verdict was given, by its name. A program with a
// metrics library would count there instead.
type counts struct {
	mu sync.Mutex
	by map[string]int
}

// observe is the consumer's observer: it is called in between, so it is quick.
func (c *counts) observe(decisions []consumer.Decision) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		c.by = map[string]int{}
	}
	for i := range decisions {
		c.by[decisions[i].Verdict.String()]++
	}
}

// now is a copy, for a log or a status.
func (c *counts) now() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.by)
}
