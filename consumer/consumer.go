package consumer

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"slices"
	"strings"
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

// Run consumes until ctx ends, then lets handlers finish for Config.Drain,
// gives back what has not run, and returns nil. It may be called once.
//
// Run does not close the store or the broker: do that when it has returned. A
// handler that ignores its context may still run then, and is named in the
// error.
//
// Errors: a [*brokers.StartError] for what no retry mends, when starting or
// later: a missing topic, wrong credentials, a deleted durable, another store
// on the same durable, a store that was closed or found damaged meanwhile. An
// error that names handlers that did not return, or says which other functions
// of the configuration did not. What heals by itself is no error: see
// [Consumer.Status].
func (c *Consumer) Run(ctx context.Context) error {
	if c.ran.Swap(true) {
		return errors.New("consumer: Run was called before")
	}
	p := c.pipeline
	base, cutShort := context.WithCancel(context.WithoutCancel(ctx))
	defer cutShort()
	hard, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	p.base, p.hard = base, hard

	var failed atomic.Pointer[error] // the first
	receiving, stopReceiving := context.WithCancel(ctx)
	defer stopReceiving()
	fail := func(err error) {
		failed.CompareAndSwap(nil, &err)
		stopReceiving()
	}

	source, err := c.open(ctx)
	if err != nil || source == nil {
		return err
	}
	p.source, p.fail = source, fail
	p.timer = time.NewTimer(time.Hour)
	p.greetBy = time.Now().Add(time.Second)

	var handlers, helpers sync.WaitGroup
	p.work.start(c.cfg.Workers, &handlers)
	looped := make(chan struct{})
	go func() {
		defer close(looped)
		unlessExited(p.run, func() { fail(errLoopExited) })
	}()
	helpers.Go(func() {
		unlessExited(func() {
			c.firstPauses(receiving)
			r := &receiver{p: p, seed: maphash.MakeSeed(), first: c.firstMark}
			if err := r.run(receiving); err != nil {
				fail(err)
			}
		}, func() { fail(errReceiverExited) })
	})
	keeping, stopKeeping := context.WithCancel(hard)
	helpers.Go(func() { c.keep(keeping, fail) })
	c.health.joined()

	<-receiving.Done()
	stopped := time.Now()
	drain := time.AfterFunc(c.cfg.Drain, end)
	defer drain.Stop()
	if ctx.Err() != nil { // else an error is returned, which is not for Run to log
		c.log.Info("stopping: handlers may finish", "drain", c.cfg.Drain)
	}
	p.post(func() { p.stop(stopped.Add(c.cfg.Drain - drainMargin(c.cfg.Drain))) })
	select {
	case <-looped:
	case <-hard.Done():
		select { // the loop sees it too, unless the store holds it
		case <-looped:
		case <-time.After(time.Second):
		}
	}
	stopKeeping()
	end()
	select {
	case <-looped:
		p.sending.Wait() // their context has just ended
	default: // the loop may start another one yet
		fail(errLoopStuck)
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainMargin(c.cfg.Drain)+time.Second)
	defer cancel()
	c.lastMark(closing)
	if err := source.Close(closing); err != nil && !errors.Is(err, brokers.ErrClosed) {
		c.log.Warn("source did not close cleanly", "error", err)
	}
	helped := make(chan struct{})
	go func() { defer close(helped); helpers.Wait() }()
	select {
	case <-helped:
	case <-time.After(helpersEnd):
		fail(errReceiverStuck)
	}
	p.work.close()
	left := c.leftRunning()
	if left == nil {
		handlers.Wait()
	}
	switch first := failed.Load(); {
	case first == nil:
		return left
	case left == nil:
		return *first
	default:
		return errors.Join(*first, left)
	}
}

// helpersEnd is how long the receiver and the housekeeping may take to notice
// that they have ended: the rest of one batch, or one step of expiry.
const helpersEnd = 2 * time.Second

// Functions of a configuration run in the loop and in the receiver. One that
// does not come back must not keep the process from ending, nor go unseen.
var (
	errLoopExited     = errors.New("consumer: Classify, Redact, OnDuplicate or Observer called runtime.Goexit")
	errWriterExited   = errors.New("consumer: the store, or work enlisted with it, called runtime.Goexit; nothing can be recorded any more")
	errReceiverExited = errors.New("consumer: Match, Decode, ID, Order or Fingerprint called runtime.Goexit")
	errLoopStuck      = errors.New("consumer: the store, Classify, Redact, OnDuplicate or Observer did not return; what it held up will be delivered again")
	errReceiverStuck  = errors.New("consumer: Match, Decode, ID, Order or Fingerprint, or the store's expiry, did not return")
)

// unlessExited calls f, and then exited where f took the goroutine along.
func unlessExited(f, exited func()) {
	returned := false
	defer func() {
		if !returned {
			exited()
		}
	}()
	f()
	returned = true
}

// drainMargin is the end of the drain that is kept for writing down what
// handlers that were cut short have left.
func drainMargin(drain time.Duration) time.Duration { return min(drain/5, 2*time.Second) }

// leftRunning names handlers that have not returned.
func (c *Consumer) leftRunning() error {
	var keys []string
	c.pipeline.work.each(func(t *task) { keys = append(keys, t.view.Key.String()) })
	if keys == nil {
		return nil
	}
	return fmt.Errorf("consumer %s: %d handlers ignored the end of their context and still run; their messages will run again: %s",
		c.cfg.Name, len(keys), strings.Join(keys[:min(len(keys), 5)], ", "))
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
		wait := publishBackoff(tries)
		c.log.Warn("broker could not be opened; trying again", "error", err, "after", wait)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
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
