package consumer

import (
	"context"
	"slices"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/dedup"
)

const (
	// askPauses bounds one look at what is paused; the next comes by itself.
	askPauses = 5 * time.Second
	// heldWithBroker is how long a delivery of the retry lane stays with the
	// broker while its scope is paused, before it is looked at again.
	heldWithBroker = 10 * time.Second
	// noPauses is what is degraded while the store does not tell what is paused.
	noPauses = "pauses"
)

// firstPauses learns what is paused before anything is received, again until
// the store answers: a pause outlives the process that was told of it.
func (c *Consumer) firstPauses(ctx context.Context) {
	for tries := 1; c.lookAtPauses(ctx) != nil; tries++ {
		if again(ctx, tries) != nil {
			return
		}
	}
}

// lookAtPauses asks the store what is paused and heeds it. While the store does
// not answer, what it said last holds.
func (c *Consumer) lookAtPauses(ctx context.Context) error {
	c.pausing.Lock() // so that what was asked later is heeded later
	defer c.pausing.Unlock()
	asking, cancel := context.WithTimeout(ctx, askPauses)
	defer cancel()
	pauses, err := dedup.Pauses(asking, c.cfg.Store, c.cfg.Name, c.scopes())
	if err != nil {
		if ctx.Err() == nil {
			c.degraded(noPauses, err)
		}
		return err
	}
	c.degraded(noPauses, nil)
	c.heedPauses(pauses)
	return nil
}

// scopes are those of the routes.
func (c *Consumer) scopes() []string {
	scopes := make([]string, len(c.routes))
	for i := range c.routes {
		scopes[i] = c.routes[i].Scope
	}
	return scopes
}

// heedPauses lets the receiver and the loop know what is paused.
func (c *Consumer) heedPauses(pauses []dedup.Pause) {
	before := c.health.pauses(pauses)
	if slices.EqualFunc(before, pauses, samePause) {
		return
	}
	for _, p := range pauses {
		if !slices.ContainsFunc(before, func(o dedup.Pause) bool { return samePause(o, p) }) {
			c.log.Info("paused: nothing new starts until it is resumed", "scope", pausedName(p), "since", p.Since, "who", p.Who, "why", p.Why)
		}
	}
	for _, p := range before {
		if !slices.ContainsFunc(pauses, func(o dedup.Pause) bool { return samePause(o, p) }) {
			c.log.Info("resumed", "scope", pausedName(p))
		}
	}
	whole := slices.ContainsFunc(pauses, func(p dedup.Pause) bool { return p.Scope == "" })
	var paused map[*Route]bool
	for i := range c.routes {
		if whole || slices.ContainsFunc(pauses, func(p dedup.Pause) bool { return p.Scope == c.routes[i].Scope }) {
			if paused == nil {
				paused = make(map[*Route]bool, len(c.routes))
			}
			paused[&c.routes[i]] = true
		}
	}
	c.pipeline.gate.set(whole)
	c.pipeline.post(func() { c.pipeline.pause(paused) })
}

func samePause(a, b dedup.Pause) bool { return a.Scope == b.Scope && a.Since.Equal(b.Since) }

func pausedName(p dedup.Pause) string {
	if p.Scope == "" {
		return "all"
	}
	return p.Scope
}

// pause changes what is paused. What was claimed and has not started goes back,
// what runs may finish.
func (p *pipeline) pause(routes map[*Route]bool) {
	waiting := slices.Concat(p.held, p.wanted.drain())
	p.paused, p.held = routes, nil
	for _, t := range waiting {
		p.want(t)
	}
	if len(routes) > 0 {
		p.unready(func(t *task) bool { return routes[t.route] })
	}
}

// hold keeps a task whose scope is paused. Its ordering key waits with it, so
// that nothing overtakes what is held.
func (p *pipeline) hold(t *task) {
	if t.lane.Retry && p.source.Defer([]*brokers.Delivery{t.d}, heldWithBroker) == nil {
		p.drop(t) // only its place is kept, and it has no order to keep
		return
	}
	t.phase = held
	p.held = append(p.held, t)
}
