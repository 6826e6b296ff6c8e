package natsbroker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/internal/serial"
)

// source reads the streams of one consumer and their retry streams, each
// through a durable of its own.
type source struct {
	b      *Broker
	spec   brokers.Spec
	lanes  []*lane // set by Open, then never changed
	events *serial.Queue
	marks  *marks

	wake    chan struct{} // capacity 1: Receive should look again
	waiting atomic.Bool   // Receive waits for wake
	turn    int           // which lane Receive begins with; its goroutine's own

	ctx    context.Context // ends with the source; for its own calls
	cancel context.CancelFunc
	own    sync.WaitGroup // goroutines of the source

	mu       sync.Mutex
	err      error // why Receive fails; nil while open
	checking map[*lane]bool
}

var _ brokers.Source = (*source)(nil)

// look lets Receive look again, where it waits.
func (s *source) look() {
	if s.waiting.Load() {
		s.wakeUp()
	}
}

func (s *source) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *source) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// begin tells the lanes and starts to read them.
func (s *source) begin() {
	go s.events.Run()
	s.events.Call(func() {
		if f := s.spec.Events.Assigned; f != nil {
			if err := f(s.public()); err != nil {
				s.stop(err)
				return
			}
		}
		for _, l := range s.lanes {
			l.mu.Lock()
			l.open = !l.ended
			l.mu.Unlock()
			l.refill()
		}
	})
	s.own.Go(s.tickAlong)
}

func (s *source) public() []*brokers.Lane {
	lanes := make([]*brokers.Lane, len(s.lanes))
	for i, l := range s.lanes {
		lanes[i] = &l.Lane
	}
	return lanes
}

// tickAlong tells the server about progress and watches its heartbeats.
func (s *source) tickAlong() {
	every := requestExpires
	for _, l := range s.lanes {
		every = min(every, l.ackWait/ticksPerWait)
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case now := <-ticker.C:
			for _, l := range s.lanes {
				l.keepAlive()
				if s.b.up.Load() {
					l.watch(now)
				}
			}
		}
	}
}

// disconnected and reconnected follow the connection. What the server was
// asked for is gone with it, what it delivered is not.
func (s *source) disconnected(err error) {
	s.degraded("connection", err)
}

func (s *source) reconnected() {
	s.degraded("connection", nil)
	for _, l := range s.lanes {
		l.keepAlive()
		if l.renew() == nil { // else the connection has ended
			l.refill()
		}
	}
}

func (s *source) degraded(what string, err error) {
	if f := s.spec.Events.Degraded; f != nil {
		s.events.Call(func() { f(what, err) })
	}
}

// fail ends the source for what no retry mends, and reports its lanes as lost.
func (s *source) fail(err error) {
	if !s.stop(err) {
		return
	}
	if f := s.spec.Events.Lost; f != nil {
		s.events.Call(func() { f(s.public(), err) })
	}
}

// stop ends requests and lets Receive fail. Deliveries can still be settled
// until Close.
func (s *source) stop(err error) bool {
	s.mu.Lock()
	first := s.err == nil
	if first {
		s.err = err
	}
	s.mu.Unlock()
	if first {
		for _, l := range s.lanes {
			l.mu.Lock()
			l.open = false
			l.mu.Unlock()
		}
	}
	s.wakeUp()
	return first
}

// Receive implements [brokers.Source].
func (s *source) Receive(ctx context.Context, limit brokers.Limit) ([]*brokers.Delivery, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if got, err := s.gather(limit); err != nil || len(got) > 0 {
			return got, err
		}
		s.waiting.Store(true)
		// What arrived since is seen here; what arrives from now on wakes us.
		got, err := s.gather(limit)
		if err == nil && len(got) == 0 {
			select {
			case <-ctx.Done():
			case <-s.wake:
			}
		}
		s.waiting.Store(false)
		if err != nil || len(got) > 0 {
			return got, err
		}
	}
}

// gather takes what is at hand, of each lane in turn.
func (s *source) gather(limit brokers.Limit) ([]*brokers.Delivery, error) {
	if err := s.failure(); err != nil {
		return nil, err
	}
	var out []*brokers.Delivery
	bytes, n := limit.Bytes, len(s.lanes)
	share := max(1, limit.Messages/n)
	for more := true; more; {
		more = false
		for i := range n {
			room := limit.Messages - len(out)
			if room <= 0 || bytes <= 0 {
				s.turn = (s.turn + i) % n
				return out, nil
			}
			l := s.lanes[(s.turn+i)%n]
			if out == nil {
				l.mu.Lock()
				out = make([]*brokers.Delivery, 0, min(limit.Messages, len(l.queue)-l.head))
				l.mu.Unlock()
				if cap(out) == 0 {
					out = nil
				}
			}
			before := len(out)
			var taken int
			out, taken = l.take(out, min(room, share), bytes)
			bytes -= taken
			more = more || len(out) > before
		}
	}
	return out, nil
}

// Pause implements [brokers.Source]. What was fetched stays in memory, and the
// server is told about it.
func (s *source) Pause(which *brokers.Lane, paused bool) {
	for _, l := range s.lanes {
		if &l.Lane == which {
			l.mu.Lock()
			l.paused = paused
			l.mu.Unlock()
		}
	}
	s.wakeUp()
}
