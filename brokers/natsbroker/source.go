package natsbroker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

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
				l.keepAlive(now)
				if s.b.nc.IsConnected() {
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
		l.keepAlive(time.Now())
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

// of is the lane of a delivery, while it can be settled here.
func (s *source) of(d *brokers.Delivery) (*held, bool) {
	h, ok := d.Handle.(*held)
	return h, ok && h.lane.s == s
}

// Ack implements [brokers.Source]. It sends one short message for each and
// waits for nothing: while the connection is broken they are kept, up to the
// size of nats.go's reconnect buffer (8 MiB by default, some 80,000 acks). A
// server that is killed forgets about the last 100 ms of acks and delivers
// those messages again.
func (s *source) Ack(deliveries []*brokers.Delivery) error {
	live := s.settle(deliveries)
	var fault error
	failed := 0
	for _, h := range live {
		if err := s.b.nc.Publish(h.ack, ackBody); err != nil {
			failed++
			fault = err
		}
	}
	return unsettled("acknowledged", len(deliveries)-len(live), failed, len(deliveries), fault)
}

// settle takes deliveries out of what the server is told about, and returns
// those whose lane has not ended.
func (s *source) settle(deliveries []*brokers.Delivery) []*held {
	live := make([]*held, 0, len(deliveries))
	var locked *lane
	for _, d := range deliveries {
		h, ok := s.of(d)
		if !ok {
			continue
		}
		if locked != h.lane {
			if locked != nil {
				locked.mu.Unlock()
			}
			locked = h.lane
			locked.mu.Lock()
		}
		if !locked.ended {
			locked.held.pull(h)
			live = append(live, h)
		}
	}
	if locked != nil {
		locked.mu.Unlock()
	}
	return live
}

func unsettled(verb string, late, failed, all int, err error) error {
	switch {
	case late > 0:
		return fmt.Errorf("%d of %d not %s: their lanes have ended", late+failed, all, verb)
	case failed > 0:
		return fmt.Errorf("%d of %d not %s: %w", failed, all, verb, err)
	}
	return nil
}

// Defer implements [brokers.Source]: a nak with a delay. The message goes on
// to count against the durable's MaxAckPending, which is why long waits belong
// into the retry stream, whose durable has no such bound.
func (s *source) Defer(deliveries []*brokers.Delivery, delay time.Duration) error {
	body := nakBody
	if delay > 0 {
		body = append([]byte(`-NAK {"delay":`), strconv.FormatInt(int64(delay), 10)+"}"...)
	}
	var first error
	late, failed := 0, 0
	for _, d := range deliveries {
		h, ok := s.of(d)
		if !ok {
			late++
			continue
		}
		l := h.lane
		l.mu.Lock()
		if l.ended {
			late++
		} else {
			l.held.pull(h)
			// With the lock held, so that no word of progress comes after it.
			if err := s.b.nc.Publish(h.ack, body); err != nil {
				failed++
				first = err
			}
		}
		l.mu.Unlock()
	}
	return unsettled("deferred", late, failed, len(deliveries), first)
}

// Abandon implements [brokers.Source]: the server delivers again when AckWait
// is over.
func (s *source) Abandon(deliveries []*brokers.Delivery) { s.settle(deliveries) }

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

// Close implements [brokers.Source]. Everything unsettled is given back with a
// nak, so that another process gets it at once, save what was abandoned.
func (s *source) Close(ctx context.Context) error {
	s.stop(brokers.ErrClosed)
	s.mu.Lock()
	if !errors.Is(s.err, brokers.ErrClosed) {
		s.err = fmt.Errorf("%w, after: %w", brokers.ErrClosed, s.err)
	}
	s.mu.Unlock()
	s.b.mu.Lock()
	delete(s.b.sources, s)
	s.b.mu.Unlock()
	s.cancel()
	s.events.Drop()
	err := s.giveBack(ctx)
	done := make(chan struct{})
	go func() {
		s.own.Wait()
		<-s.events.Done()
		close(done)
	}()
	select {
	case <-done:
		return err
	case <-ctx.Done():
		return errors.Join(err, ctx.Err())
	}
}

// giveBack ends the subscriptions, waits for what is on its way, and gives
// back all that is not settled.
func (s *source) giveBack(ctx context.Context) error {
	live := false
	for _, l := range s.lanes {
		l.mu.Lock()
		live = live || !l.ended
		sub := l.sub
		l.mu.Unlock()
		// The server's interest ends, and what it sent before still comes.
		_ = sub.Drain()
	}
	if !live {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var err error
	if s.b.nc.IsConnected() {
		// The answer to the flush comes after all that was sent before it.
		if err = s.b.nc.FlushWithContext(ctx); err == nil {
			s.arrived(ctx)
		}
	}
	for _, l := range s.lanes {
		l.mu.Lock()
		var back []*held
		for h := l.held.first(); h != nil; h = l.held.first() {
			l.held.pull(h)
			back = append(back, h)
		}
		l.ended = true
		l.queue, l.head, l.queuedBytes = nil, 0, 0
		l.mu.Unlock()
		// In the order of the stream, which the server mostly keeps.
		slices.SortFunc(back, func(x, y *held) int { return int(x.d.Offset - y.d.Offset) })
		for _, h := range back {
			if e := s.b.nc.Publish(h.ack, nakBody); e != nil && err == nil {
				err = e
			}
		}
	}
	if s.b.nc.IsConnected() && err == nil {
		err = s.b.nc.FlushWithContext(ctx)
	}
	for _, l := range s.lanes {
		// Where Drain could not: it must not come back with the connection.
		l.unsubscribe()
	}
	if errors.Is(err, nats.ErrConnectionClosed) {
		return nil // nothing can be given back; AckWait does it
	}
	return err
}

// arrived waits until nats.go has handed us all that it has read.
func (s *source) arrived(ctx context.Context) {
	for _, l := range s.lanes {
		l.mu.Lock()
		sub := l.sub
		l.mu.Unlock()
		for ctx.Err() == nil {
			if n, _, err := sub.Pending(); err != nil || n == 0 {
				break
			}
			pause := time.NewTimer(time.Millisecond)
			select {
			case <-pause.C:
			case <-ctx.Done():
			}
			pause.Stop()
		}
	}
}
