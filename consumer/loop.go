package consumer

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/dedup"
)

// pipeline is the loop that every delivery goes through. One goroutine runs
// rounds and owns every field that is not said to be shared.
type pipeline struct {
	cfg    *Config
	routes []Route
	store  dedup.Store
	source brokers.Source
	log    *slog.Logger
	local  bool            // the store covers this process only
	hard   context.Context // ends when the drain is over
	base   context.Context // parent of the handlers' contexts
	fail   func(error)     // ends Run; shared
	work   *workers
	health *health // shared
	// letterWindow is how long the records of letters without a key are kept.
	letterWindow time.Duration

	// Shared with the receiver, the publisher and the source's callbacks.
	in struct {
		sync.Mutex
		tasks  [][]task
		calls  []func()
		next   *commit   // collected, for the store when it has done the last one
		repeat *commit   // failed, to be written before any other
		failed bool      // the last one did
		landed []*commit // by the store
		closed bool      // nothing is written any more
	}
	wake  chan struct{} // something came in
	room  *budget
	gate  gate       // of the receiver
	fresh freshLanes // whose prefix is to be looked up
	// absorbed counts repeats of what had passed when their lane began.
	absorbed atomic.Int64
	moved    atomic.Int64 // when the loop last moved, for liveness
	// resolving is since when the receiver has been finding keys, 0 when it is
	// not: a user's function may block it.
	resolving atomic.Int64

	now      time.Time
	timer    *time.Timer
	finish   []*task // scratch: finished tasks of this round
	lanes    map[*brokers.Lane]*lane
	lastLane *lane
	chains   map[uint64]*task // by ordering key: its last task
	wanted   queue            // to be claimed, in order
	parked   parkedHeap
	paused   map[*Route]bool // nil while nothing is
	held     []*task         // of paused routes, not claimed
	owned    []*task         // claims that are held
	readied  []*task         // owned, to be handed to the workers
	handed   int             // handed over and not started, as last seen
	busy     int             // running, as last seen
	ahead    int             // bound on readied + handed
	// carefulUntil is for how long ahead does not grow.
	carefulUntil time.Time
	active       int // tasks that something outside is being done for
	breaker      *breaker

	suspects    []*task // owned, must run alone
	alone       *task   // runs alone, or is about to
	aloneAsked  bool    // its mark is to be written
	aloneMarked bool    // its mark is durable: it may be handed over

	ends       []*task // outcome decided
	notes      []*task // letter confirmed
	answers    []*task // outcome durable, the letter of which it is a copy is to be told
	prefixes   []dedup.Position
	outbox     []*task        // letters and copies to publish
	publishing int            // batches under way
	sending    sync.WaitGroup // goroutines of send, which Run waits for
	acks       []*task
	settled    []*brokers.Delivery // scratch

	next         *commit       // being collected
	filled       bool          // the next one takes no more
	written      chan struct{} // rung when there is something to write
	writing      int           // commits that are collected and not answered
	landed       []*commit     // answered, in this round
	undone       *commit       // to be repeated
	spare        []*commit     // for their memory
	asked        int           // claims that are collected and not answered
	renewing     int           // renewals likewise
	storeTries   int
	storeRetryAt time.Time
	renewalDue   time.Time
	superviseDue time.Time

	freedCount, freedBytes int // since the receiver was told
	decisions              []Decision
	prefixed               map[dedup.Position]int64 // what was last put into a commit
	said                   struct {                 // see say
		second        time.Time
		lines, unsaid int
	}
	sample   *task     // the first with a key, until the greeting
	greetBy  time.Time // zero: done
	refused  bool      // the store did not take a claim
	stopping bool
	stopped  bool
}

// linger bounds how long a commit waits for handlers that are quick.
const linger = time.Millisecond

// post runs f in the loop's goroutine, soon.
func (p *pipeline) post(f func()) {
	p.in.Lock()
	p.in.calls = append(p.in.calls, f)
	p.in.Unlock()
	p.ring()
}

// deliver hands the receiver's tasks to the loop.
func (p *pipeline) deliver(tasks []task) {
	p.in.Lock()
	p.in.tasks = append(p.in.tasks, tasks)
	p.in.Unlock()
	p.ring()
}

func (p *pipeline) ring() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// run turns until the pipeline is stopped and everything is settled, or until
// the drain is over.
func (p *pipeline) run() {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		unlessExited(p.write, func() { p.fail(errWriterExited) })
	}()
	defer func() { // also when a function of the user's takes the goroutine along
		p.in.Lock()
		p.in.closed = true
		p.in.Unlock()
		p.ringWriter()
		<-ended
	}()
	for !p.stopped {
		p.round()
	}
}

// gather waits for something to do and takes it in.
func (p *pipeline) gather() {
	var until time.Time // of lingering
	for {
		if p.hard.Err() != nil {
			p.stopped = true
			return
		}
		p.in.Lock()
		tasks, calls := p.in.tasks, p.in.calls
		p.in.tasks, p.in.calls = nil, nil
		p.landed, p.in.landed = p.in.landed, p.landed[:0]
		p.filled = p.filled && p.in.next != nil
		p.in.Unlock()
		p.finish, p.handed, p.busy = p.work.take(p.finish[:0])
		if p.work.tardy() {
			p.retract()
		}
		p.now = time.Now()
		if p.writing == 0 || len(p.landed) > 0 { // a store that does not answer holds everything up
			p.moved.Store(p.now.UnixNano())
		}
		for _, f := range calls {
			f()
		}
		for _, batch := range tasks {
			p.arrive(batch)
		}
		for _, t := range p.finish {
			p.finished(t)
		}
		wait := p.idle()
		news := len(tasks)+len(calls)+len(p.finish) > 0
		clear(p.finish)
		if len(p.landed) > 0 {
			return
		}
		if news || p.hasWork() || !until.IsZero() {
			// Handlers that are quick are through before a commit would be: the
			// ends of what was just claimed go into it, and not into the next.
			if until.IsZero() {
				until = p.now.Add(linger)
			}
			if wait = until.Sub(p.now); p.handed == 0 || wait <= 0 || !p.work.quick() {
				return
			}
		}
		if wait <= 0 {
			return
		}
		p.timer.Reset(wait)
		select {
		case <-p.wake:
		case <-p.timer.C:
			if p.handed > 0 {
				p.work.help()
			}
		case <-p.hard.Done():
			p.stopped = true
			return
		}
	}
}

// hasWork says that a round has something to do without being told.
func (p *pipeline) hasWork() bool {
	if len(p.acks) > 0 || len(p.outbox) > 0 && p.publishing < maxPublishing || p.startRoom() > 0 || p.aloneReady() {
		return true
	}
	if p.storeTries > 0 {
		return p.undone != nil && !p.now.Before(p.storeRetryAt)
	}
	if p.filled {
		return false
	}
	return len(p.ends)+len(p.notes)+len(p.answers)+len(p.prefixes) > 0 ||
		p.aloneDue() || p.wanted.len() > 0 && p.claimRoom() > 0
}

// idle is how long the loop may wait when it is told of nothing.
func (p *pipeline) idle() time.Duration {
	until := p.superviseDue
	earlier := func(t time.Time) {
		if t.Before(until) {
			until = t
		}
	}
	if len(p.parked) > 0 {
		earlier(p.parked[0].due)
	}
	if p.undone != nil {
		earlier(p.storeRetryAt)
	}
	if _, wait := p.breaker.admit(p.now); wait > 0 {
		earlier(p.now.Add(wait))
	}
	wait := until.Sub(p.now)
	if p.handed > 0 {
		// Workers that are quick do not ring for each task.
		wait = min(wait, time.Millisecond)
	}
	return wait
}

// startRoom is how many more handlers may be started now.
func (p *pipeline) startRoom() int {
	if p.stopping || p.storeTries > 0 || len(p.suspects) > 0 || p.alone != nil {
		return 0
	}
	n, _ := p.breaker.admit(p.now)
	return min(len(p.readied), n)
}

// dispatch hands what may start to the workers.
func (p *pipeline) dispatch() {
	if p.aloneReady() {
		t := p.alone
		p.aloneMarked = false
		p.start(t)
		p.work.hand([]*task{t})
		p.handed++
		return
	}
	p.unlapsed()
	n := p.startRoom()
	if n <= 0 {
		return
	}
	for _, t := range p.readied[:n] {
		p.start(t)
	}
	p.work.hand(p.readied[:n])
	rest := copy(p.readied, p.readied[n:])
	clear(p.readied[rest:])
	p.readied = p.readied[:rest]
	p.handed += n
}

// unlapsed gives back what waits to start under a claim that has lapsed, as
// after a pause of the process: another may have it, and may be through.
func (p *pipeline) unlapsed() {
	if p.local || len(p.readied) == 0 {
		return
	}
	now := time.Now() // the round may have begun before the pause
	p.readied = filter(p.readied, func(t *task) bool {
		if now.Before(t.leaseEnd) {
			return true
		}
		p.giveBack(t)
		return false
	})
}

// start makes the context in which a task's handler runs.
func (p *pipeline) start(t *task) {
	p.place(t)
	t.phase, t.epoch = running, p.breaker.start()
	t.attempt = &attempt{
		parent: p.base, enlisted: *dedup.NewEnlistment(p.store),
		op: Operation{
			Key: t.view.Key, Run: t.run, Failures: t.failures, Fence: t.fence, opened: t.opened,
			Topic: t.view.Topic, Partition: t.view.Partition, Offset: t.view.Offset,
		},
	}
	if !p.local && t != p.alone {
		t.attempt.startBy = t.leaseEnd // of now: renewals come to the loop, and it starts again what is late
	}
}

// acquired decides how an owned task is to run.
func (p *pipeline) acquired(t *task) {
	t.phase = ready
	switch {
	case t.lane.ended || p.stopping, p.lapses(t): // such as by a claim that was repeated for long
		p.giveBack(t)
	case p.paused[t.route]:
		p.giveBack(t)
	case t.crashes >= suspectCrashes:
		p.suspects = append(p.suspects, t)
	default:
		p.readied = append(p.readied, t)
	}
}

// giveBack releases a claim whose handler has not started.
func (p *pipeline) giveBack(t *task) {
	t.outcome, t.wait, t.err, t.reason, t.attempt = dedup.Release, 0, nil, "", nil
	p.end(t)
}

// report tells the observer and the receiver what this round has done.
func (p *pipeline) report() {
	p.balance()
	p.greet()
	if p.freedCount > 0 {
		p.room.free(p.freedCount, p.freedBytes)
		p.freedCount, p.freedBytes = 0, 0
	}
	if len(p.decisions) > 0 {
		p.observed()
	}
	if p.stopping && p.active == 0 {
		p.stopped = true
	}
}
