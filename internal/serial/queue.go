// Package serial calls functions one after the other, in a goroutine beside
// those that ask for it: how a source tells its events.
package serial

import "sync"

// Queue holds functions that wait to be called. Make it with [New], and give
// [Queue.Run] a goroutine. All methods may be called concurrently, with any
// lock held that the functions do not need to return.
type Queue struct {
	mu      sync.Mutex
	waiting []func()
	stopped bool
	wake    chan struct{} // capacity 1
	done    chan struct{}
}

// New makes an empty queue.
func New() *Queue {
	return &Queue{wake: make(chan struct{}, 1), done: make(chan struct{})}
}

// Run calls what is put into the queue, until it is stopped and empty.
func (q *Queue) Run() {
	defer close(q.done)
	for {
		q.mu.Lock()
		if len(q.waiting) == 0 {
			stopped := q.stopped
			q.mu.Unlock()
			if stopped {
				return
			}
			<-q.wake
			continue
		}
		f := q.waiting[0]
		q.waiting = q.waiting[1:]
		q.mu.Unlock()
		f()
	}
}

// Call puts f at the end of the queue and returns at once. After Stop it does
// nothing.
func (q *Queue) Call(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.stopped {
		q.waiting = append(q.waiting, f)
		q.nudge()
	}
}

// Stop takes no more functions; those that wait are still called.
func (q *Queue) Stop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stopped = true
	q.nudge()
}

// Drop is Stop without the functions that wait.
func (q *Queue) Drop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stopped, q.waiting = true, nil
	q.nudge()
}

// Done is closed when Run has returned.
func (q *Queue) Done() <-chan struct{} { return q.done }

func (q *Queue) nudge() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}
