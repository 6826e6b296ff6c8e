package natsbroker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/onceward/onceward/brokers"
)

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
	if s.b.up.Load() {
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
	if s.b.up.Load() && err == nil {
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
			rest(ctx, time.Millisecond)
		}
	}
}
