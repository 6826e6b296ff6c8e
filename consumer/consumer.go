package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/dedup"
)

// Consumer runs handlers for the deliveries of some topics, each operation
// once. Make it with [New]; it starts nothing before [Consumer.Run].
type Consumer struct {
	cfg      Config
	routes   []Route
	log      *slog.Logger
	health   *health
	pipeline *pipeline
	ran      atomic.Bool
	accepted atomic.Bool // the store was, by the marks of the first lanes
	pausing  sync.Mutex  // held while what is paused is asked and heeded
	stats    stats
}

// New checks a configuration and returns the consumer that it describes. It
// opens no connection and starts nothing.
//
// Errors: a [*ConfigError] that lists every fault, with the field, what is
// wrong and what would be right.
func New(cfg Config, routes ...Route) (*Consumer, error) {
	cfg, routes, err := cfg.normalize(routes)
	if err != nil {
		return nil, err
	}
	for i := range routes {
		for at, m := range slices.Backward(cfg.Middleware) {
			if routes[i].Run = m(routes[i].Run); routes[i].Run == nil {
				return nil, &ConfigError{Consumer: cfg.Name, Faults: []Fault{{
					Field: fmt.Sprintf("Config.Middleware[%d]", at), Wrong: fmt.Sprintf("gives nil for Routes[%d]", i), Right: "a handler",
				}}}
			}
		}
	}
	c := &Consumer{cfg: cfg, routes: routes, health: newHealth()}
	c.log = cfg.Logger.With("consumer", cfg.Name)
	c.pipeline = newPipeline(c)
	return c, nil
}

func newPipeline(c *Consumer) *pipeline {
	p := &pipeline{
		cfg: &c.cfg, routes: c.routes, store: c.cfg.Store, log: c.log, local: c.cfg.Store.Info().Local, health: c.health,
		wake: make(chan struct{}, 1), written: make(chan struct{}, 1), room: newBudget(c.cfg.Unfinished),
		lanes: map[*brokers.Lane]*lane{}, chains: map[uint64]*task{}, prefixed: map[dedup.Position]int64{}, ahead: 2 * c.cfg.Workers,
		breaker: newBreaker(c.cfg.Breaker, c.cfg.Workers),
	}
	for i := range p.routes {
		// The longest: nobody knows whose message it is that has no key.
		p.letterWindow = max(p.letterWindow, p.routes[i].policy.Window)
	}
	p.work = newWorkers(handle, p.ring)
	return p
}

// open opens the source, again while the trouble may pass. It returns nil, nil
// when ctx ends first.
func (c *Consumer) open(ctx context.Context) (brokers.Source, error) {
	spec := brokers.Spec{
		Consumer: c.cfg.Name, Topics: c.cfg.Topics, StartFrom: c.cfg.StartFrom,
		Unfinished: c.cfg.Unfinished, LongestWait: c.longestWait(), Drain: c.cfg.Drain,
		Events: brokers.Events{
			Assigned: c.assigned, Revoked: c.revoked, Lost: c.lostLanes,
			Degraded: c.degraded,
		},
	}
	for tries := 1; ; tries++ {
		source, err := c.cfg.Broker.Open(ctx, spec)
		var start *brokers.StartError
		switch {
		case err == nil:
			c.health.restore("broker")
			return source, nil
		case ctx.Err() != nil:
			return nil, nil
		case errors.As(err, &start):
			return nil, err
		}
		c.health.degrade("broker", err)
		c.log.Warn("broker could not be opened; trying again", "error", err, "after", againIn(tries))
		if again(ctx, tries) != nil {
			return nil, nil
		}
	}
}

// longestWait is the longest time for which a copy can wait.
func (c *Consumer) longestWait() time.Duration {
	longest := time.Duration(0)
	for i := range c.routes {
		longest = max(longest, c.routes[i].Retry.longest())
	}
	return longest
}

// degraded notes trouble, or its end where err is nil.
func (c *Consumer) degraded(what string, err error) {
	if err == nil {
		c.pipeline.restore(what)
	} else {
		c.pipeline.degrade(what, err)
	}
}
