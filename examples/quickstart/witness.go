package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// witness is the service outside: it runs in the parent, knows no idempotency
// and counts every call. What the proof says of handlers and calls is what the
// witness has seen.
//
// Each life of the consumer process, from a start to a kill, is served at an
// address of its own, so that a call that was still under way when the process
// died is never taken for one of the next.
type witness struct {
	mu      sync.Mutex
	orders  map[string]*tally
	strange []string // calls that no order explains
	begins  int
	calls   int
	called  int // distinct orders called
	life    int // the present one, counted from 0
	trap    *trap
	server  *http.Server
	closing sync.WaitGroup
}

// tally is what the witness has seen of one order.
type tally struct {
	plan   *plannedOrder
	failed int // begins that were failed
	begins int
	calls  []int // by life
	doneIn int   // the life at whose end it was found booked; -1: none yet
}

// trap catches running handlers, so that a kill falls among them.
type trap struct {
	at     int           // closes when so many orders have been called
	want   int           // and snaps when so many handlers are in it
	held   int           // how many are
	snap   chan struct{} // closed when enough are held
	opened chan struct{} // closed to let them go
}

func newWitness(orders map[string]*plannedOrder) *witness {
	w := &witness{orders: make(map[string]*tally, len(orders)), life: -1}
	for id, plan := range orders {
		w.orders[id] = &tally{plan: plan, doneIn: -1}
	}
	return w
}

// nextLife serves the next process at an address of its own, which it returns.
func (w *witness) nextLife(ctx context.Context) (address string, err error) {
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	w.mu.Lock()
	w.life++
	life := w.life
	w.server = &http.Server{
		Handler:           http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { w.serve(life, rw, r) }),
		ReadHeaderTimeout: 10 * time.Second,
	}
	server := w.server
	w.mu.Unlock()
	w.closing.Go(func() { _ = server.Serve(l) }) // ends with ErrServerClosed
	return "http://" + l.Addr().String(), nil
}

// endLife ends the service of the present life, whose process is dead, and
// notes what it has left behind as booked.
func (w *witness) endLife(booked map[string]int) error {
	w.mu.Lock()
	for id := range booked {
		if t := w.orders[id]; t != nil && t.doneIn < 0 {
			t.doneIn = w.life
		}
	}
	if w.trap != nil {
		close(w.trap.opened)
		w.trap = nil
	}
	server := w.server
	w.server = nil
	w.mu.Unlock()
	if server == nil {
		return nil
	}
	err := server.Close()
	w.closing.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// serve answers one call: POST /begin/ID or POST /notify/ID.
func (w *witness) serve(life int, rw http.ResponseWriter, r *http.Request) {
	what, id, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	w.mu.Lock()
	status := w.note(life, what, id)
	held := w.trap
	if held != nil && (w.called < held.at || life != w.life) {
		held = nil
	}
	if held != nil {
		if held.held++; held.held == held.want {
			close(held.snap)
		}
	}
	w.mu.Unlock()
	if held != nil {
		select {
		case <-held.opened:
		case <-r.Context().Done(): // the process that called is dead
		}
	}
	rw.WriteHeader(status)
}

// note counts a call and says how it is answered. With w.mu.
func (w *witness) note(life int, what, id string) int {
	t := w.orders[id]
	if t == nil {
		w.strange = append(w.strange, what+" of unknown "+id)
		return http.StatusNotFound
	}
	if what == "begin" {
		w.begins++
		t.begins++
		switch t.plan.fate {
		case refused:
			return http.StatusUnprocessableEntity
		case failing:
			return http.StatusServiceUnavailable
		case flaky:
			if t.failed < t.plan.fails {
				t.failed++
				return http.StatusServiceUnavailable
			}
		}
		return http.StatusNoContent
	}
	w.calls++
	if len(t.calls) == 0 {
		w.called++
	}
	for len(t.calls) <= life {
		t.calls = append(t.calls, 0)
	}
	t.calls[life]++
	if t.plan.fate.reason() != "" {
		w.strange = append(w.strange, what+" of "+id+", which should have failed before")
	}
	return http.StatusNoContent
}

// set sets a trap for at least want handlers, when so many orders have been
// called.
func (w *witness) set(at, want int) *trap {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trap = &trap{at: at, want: want, snap: make(chan struct{}), opened: make(chan struct{})}
	return w.trap
}

// caught is how many handlers are in the trap.
func (w *witness) caught(t *trap) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return t.held
}

// progress is how many begins were seen, and distinct orders called.
func (w *witness) progress() (begins, called int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.begins, w.called
}

// seen is what the witness says in the end.
type seen struct {
	begins, calls   int
	begun, called   int // distinct orders
	afterDone       int // calls for an order that was done already
	repeats         int // other further calls
	strange         []string
	plannedFailures int // begins that were bound to be followed by another
}

// testify sums up. A further call in the same life as another one cannot be
// explained by a kill, and one in a life after the order was found booked is
// plainly too late: both are calls after done.
func (w *witness) testify() seen {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := seen{begins: w.begins, calls: w.calls, called: w.called, strange: w.strange}
	for _, t := range w.orders {
		if t.begins > 0 {
			s.begun++
		}
		switch t.plan.fate {
		case flaky:
			s.plannedFailures += t.plan.fails
		case failing:
			s.plannedFailures += maxFailures - 1
		}
		total, late := 0, 0
		for life, n := range t.calls {
			total += n
			switch {
			case t.doneIn >= 0 && life > t.doneIn:
				late += n
			case n > 1:
				late += n - 1
			}
		}
		s.afterDone += late
		s.repeats += max(0, total-late-1)
	}
	return s
}
