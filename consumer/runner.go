package consumer

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/brokers"
)

// runner is what one [Consumer.Run] has started, and what ends it.
type runner struct {
	c             *Consumer
	p             *pipeline
	stopReceiving context.CancelFunc
	endDrain      context.CancelFunc    // of pipeline.hard
	failed        atomic.Pointer[error] // the first that ended it
	looped        chan struct{}         // closed when the loop has ended
	handlers      sync.WaitGroup
	helpers       sync.WaitGroup // receiver and housekeeping
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
	unended := context.WithoutCancel(ctx)
	base, cutShort := context.WithCancel(unended)
	defer cutShort()
	hard, endDrain := context.WithCancel(unended)
	defer endDrain()
	receiving, stopReceiving := context.WithCancel(ctx)
	defer stopReceiving()
	c.pipeline.base, c.pipeline.hard = base, hard
	source, err := c.open(ctx)
	if err != nil || source == nil {
		return err
	}
	r := &runner{c: c, p: c.pipeline, stopReceiving: stopReceiving, endDrain: endDrain, looped: make(chan struct{})}
	r.p.source, r.p.fail = source, r.fail
	r.begin(receiving)
	<-receiving.Done()
	if ctx.Err() != nil { // else an error is returned, which is not for Run to log
		c.log.Info("stopping: handlers may finish", "drain", c.cfg.Drain)
	}
	r.drain()
	r.close(unended)
	return r.result()
}

// fail ends the run with err, unless it has ended with another.
func (r *runner) fail(err error) {
	r.failed.CompareAndSwap(nil, &err)
	r.stopReceiving()
}

// begin starts workers, loop, receiver and housekeeping.
func (r *runner) begin(receiving context.Context) {
	r.p.timer = time.NewTimer(time.Hour)
	r.p.greetBy = time.Now().Add(time.Second)
	r.p.work.start(r.c.cfg.Workers, &r.handlers)
	go func() {
		defer close(r.looped)
		unlessExited(r.p.run, func() { r.fail(errLoopExited) })
	}()
	r.helpers.Go(func() {
		unlessExited(func() { r.receive(receiving) }, func() { r.fail(errReceiverExited) })
	})
	r.helpers.Go(func() { r.c.keep(r.p.hard, r.fail) })
	r.c.health.joined()
}

func (r *runner) receive(ctx context.Context) {
	r.c.firstPauses(ctx)
	in := &receiver{p: r.p, seed: maphash.MakeSeed(), first: r.c.firstMark}
	if err := in.run(ctx); err != nil {
		r.fail(err)
	}
}

// drain lets handlers finish and writes down what they leave, until the time for
// it is over.
func (r *runner) drain() {
	limit := r.c.cfg.Drain
	timer := time.AfterFunc(limit, r.endDrain)
	defer timer.Stop()
	cancelAt := time.Now().Add(limit - drainMargin(limit))
	r.p.post(func() { r.p.stop(cancelAt) })
	select {
	case <-r.looped:
	case <-r.p.hard.Done():
		select { // the loop sees it too, unless the store holds it
		case <-r.looped:
		case <-time.After(time.Second):
		}
	}
	r.endDrain()
	select {
	case <-r.looped:
		r.p.sending.Wait() // their context has just ended
	default: // the loop may start another one yet
		r.fail(errLoopStuck)
	}
}

// close leaves the broker, and waits for the receiver and the housekeeping.
func (r *runner) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, drainMargin(r.c.cfg.Drain)+time.Second)
	defer cancel()
	r.c.lastMark(ctx)
	if err := r.p.source.Close(ctx); err != nil && !errors.Is(err, brokers.ErrClosed) {
		r.c.log.Warn("source did not close cleanly", "error", err)
	}
	helped := make(chan struct{})
	go func() { defer close(helped); r.helpers.Wait() }()
	select {
	case <-helped:
	case <-time.After(helpersEnd):
		r.fail(errReceiverStuck)
	}
}

// result is what the run has failed with, and which handlers it leaves behind.
func (r *runner) result() error {
	r.p.work.close()
	left := r.leftRunning()
	if left == nil {
		r.handlers.Wait()
	}
	switch first := r.failed.Load(); {
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
func (r *runner) leftRunning() error {
	var keys []string
	r.p.work.each(func(t *task) { keys = append(keys, t.view.Key.String()) })
	if keys == nil {
		return nil
	}
	return fmt.Errorf("consumer %s: %d handlers ignored the end of their context and still run; their messages will run again: %s",
		r.c.cfg.Name, len(keys), strings.Join(keys[:min(len(keys), 5)], ", "))
}
