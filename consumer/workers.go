package consumer

import (
	"errors"
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

// workers run handlers. The loop hands slices of owned tasks over and takes
// slices of finished ones back; each worker takes one task at a time, so that
// a slow handler holds up none that was handed over beside it.
type workers struct {
	run  func(*task)
	wake func() // tells the loop that there is something finished

	mu      sync.Mutex
	arrived *sync.Cond
	queue   []*task // handed over, not started; taken from head
	head    int
	done    []*task
	current []*task // by worker, nil when idle
	busy    int
	average time.Duration // of how long handlers ran lately
	overdue bool          // a worker found one that is late
	closed  bool
}

// quick handlers take less than it costs to wake a goroutine for each.
const quick = 50 * time.Microsecond

func newWorkers(run func(*task), wake func()) *workers {
	w := &workers{run: run, wake: wake}
	w.arrived = sync.NewCond(&w.mu)
	return w
}

// start begins n workers, which end after close, once their handlers return.
func (w *workers) start(n int, ended *sync.WaitGroup) {
	w.current = make([]*task, n)
	for i := range n {
		ended.Go(func() { w.work(i, ended) })
	}
}

func (w *workers) work(i int, ended *sync.WaitGroup) {
	var t *task
	defer func() {
		if t != nil {
			// The handler called runtime.Goexit (a test's FailNow does), which
			// took this goroutine along: its place goes on in another one.
			ended.Go(func() { w.workAfter(i, t, ended) })
		}
	}()
	for {
		if t = w.exchange(i, t); t == nil {
			return
		}
		w.run(t)
	}
}

func (w *workers) workAfter(i int, finished *task, ended *sync.WaitGroup) {
	w.mu.Lock()
	w.done = append(w.done, finished)
	w.current[i] = nil
	w.busy--
	w.mu.Unlock()
	w.wake()
	w.work(i, ended)
}

// exchange gives back a finished task and takes the next one.
func (w *workers) exchange(i int, finished *task) *task {
	w.mu.Lock()
	defer w.mu.Unlock()
	if finished != nil {
		w.done = append(w.done, finished)
		w.current[i] = nil
		w.busy--
		w.average += (finished.ran - w.average) / 16
		// While more is handed over and handlers are quick, the loop takes the
		// finished ones by itself within a millisecond: a wake for each would
		// cost a commit for each.
		if w.head == len(w.queue) || finished.ran > 200*time.Microsecond {
			w.wake()
		}
	}
	for w.head == len(w.queue) || w.late(w.queue[w.head]) {
		if w.closed {
			return nil
		}
		w.arrived.Wait()
	}
	t := w.queue[w.head]
	w.queue[w.head] = nil
	if w.head++; w.head == len(w.queue) {
		w.queue, w.head = w.queue[:0], 0
	}
	w.current[i] = t
	w.busy++
	t.began = time.Now()
	t.attempt.deadline = t.began.Add(t.route.Timeout)
	return t
}

// hand gives owned tasks to the workers.
func (w *workers) hand(tasks []*task) {
	w.mu.Lock()
	if w.head > len(w.queue)/2 { // it may never be empty, and must not grow for ever
		kept := copy(w.queue, w.queue[w.head:])
		clear(w.queue[kept:])
		w.queue, w.head = w.queue[:kept], 0
	}
	w.queue = append(w.queue, tasks...)
	few := w.average < quick
	w.mu.Unlock()
	if !few {
		w.arrived.Broadcast()
		return
	}
	// A few workers are through with quick handlers before the others are
	// awake. Where one of them meets a slow handler after all, help wakes the
	// others.
	for range min(len(tasks), runtime.GOMAXPROCS(0)) {
		w.arrived.Signal()
	}
}

// late says that a task may not start any more: its claim has lapsed while it
// was queued, as after a pause of the process, and may be another's. The loop
// takes it back; w.mu is held.
func (w *workers) late(t *task) bool {
	if t.attempt.startBy.IsZero() || time.Now().Before(t.attempt.startBy) {
		return false
	}
	w.overdue = true
	w.wake()
	return true
}

// tardy says once that something has become too late to start.
func (w *workers) tardy() (was bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	was, w.overdue = w.overdue, false
	return was
}

// quick says that handlers are, lately.
func (w *workers) quick() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.average < quick
}

// help wakes all workers where something has been waiting since the last look.
func (w *workers) help() { w.arrived.Broadcast() }

// retract takes back what has not been started.
func (w *workers) retract() []*task {
	w.mu.Lock()
	defer w.mu.Unlock()
	back := append([]*task(nil), w.queue[w.head:]...)
	w.queue, w.head = w.queue[:0], 0
	return back
}

// take returns the finished tasks, appended to into, and how many are handed
// over but not started, and how many run.
func (w *workers) take(into []*task) (done []*task, waiting, busy int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	into = append(into, w.done...)
	clear(w.done)
	w.done = w.done[:0]
	return into, len(w.queue) - w.head, w.busy
}

// each calls f for every task that a handler has now. f must be quick.
func (w *workers) each(f func(*task)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.current {
		if t != nil {
			f(t)
		}
	}
}

func (w *workers) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.arrived.Broadcast()
}

var errGoexit = errors.New("handler called runtime.Goexit")

// handle runs the handler of an owned task.
func handle(t *task) {
	t.err = errGoexit
	defer func() {
		if v := recover(); v != nil {
			e := &PanicError{Value: v, Stack: debug.Stack()}
			t.result, t.err, t.stack = nil, e, string(e.Stack)
		}
		t.ran = time.Since(t.began)
		t.attempt.release()
	}()
	t.result, t.err = t.route.Run(t.attempt, &t.view)
}
