package membroker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/internal/serial"
)

// source is one member of a group. Fields without a word are set once; the
// others are guarded by Broker.mu.
type source struct {
	b    *Broker
	g    *group
	spec brokers.Spec
	wake chan struct{} // capacity 1: Receive should look again

	lanes []*lane // live and draining ones
	turn  int     // which lane Receive begins with
	seen  string  // the mark that was read or written last
	err   error   // why Receive fails; nil while open

	// Events are told in order by one goroutine, which ends with the source.
	// Lost and an Assigned that waits are still told then, unless Close or
	// Crash ended it.
	events *serial.Queue
}

var _ brokers.Source = (*source)(nil)

func newSource(b *Broker, g *group, spec brokers.Spec) *source {
	if spec.Drain <= 0 {
		spec.Drain = brokers.DefaultDrain
	}
	s := &source{
		b: b, g: g, spec: spec, wake: make(chan struct{}, 1), events: serial.New(),
	}
	go s.events.Run()
	return s
}

// reads says under which user's topic this source reads a topic, and whether
// that is the retry topic.
func (s *source) reads(name string) (topic string, retry, ok bool) {
	for _, t := range s.spec.Topics {
		switch name {
		case t:
			return t, false, true
		case s.b.Destinations(s.g.name, t).Retry:
			return t, true, true
		}
	}
	return "", false, false
}

func (s *source) look() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// assign announces new lanes and lets them be read; b.mu is held.
func (s *source) assign(lanes []*lane) {
	s.events.Call(func() {
		if f := s.spec.Events.Assigned; f != nil {
			if err := f(public(lanes)); err != nil {
				s.b.mu.Lock()
				s.end(err, nil)
				s.g.rebalance()
				s.b.mu.Unlock()
				return
			}
		}
		s.b.mu.Lock()
		defer s.b.mu.Unlock()
		for _, l := range lanes {
			if l.life == joining {
				l.life = live
			}
			if l.life != ended {
				s.lanes = append(s.lanes, l)
			}
		}
		s.look()
	})
}

// revoke drains lanes, whose life is draining already; b.mu is held.
func (s *source) revoke(lanes []*lane) {
	s.events.Call(func() {
		if f := s.spec.Events.Revoked; f != nil {
			ctx, cancel := context.WithTimeout(context.Background(), s.spec.Drain)
			f(ctx, public(lanes))
			cancel()
		}
		s.b.mu.Lock()
		defer s.b.mu.Unlock()
		for _, l := range lanes {
			s.g.keep(l)
			s.g.free(l)
		}
		s.g.rebalance()
	})
}

// lose ends lanes at once; b.mu is held.
func (s *source) lose(lanes []*lane, cause error) {
	for _, l := range lanes {
		s.g.free(l)
	}
	if f := s.spec.Events.Lost; f != nil && len(lanes) > 0 {
		s.events.Call(func() { f(public(lanes), cause) })
	}
}

// degraded reports trouble that heals; b.mu is held.
func (s *source) degraded(what string, err error) {
	if f := s.spec.Events.Degraded; f != nil {
		s.events.Call(func() { f(what, err) })
	}
}

// end takes the source out of the group; b.mu is held. Lost is called when
// there is a cause for it.
func (s *source) end(err, lost error) {
	if s.err != nil {
		return
	}
	s.err = err
	var mine []*lane
	for _, l := range s.g.lanes {
		if l.owner == s {
			mine = append(mine, l)
		}
	}
	if lost != nil {
		s.lose(mine, lost)
	} else {
		for _, l := range mine {
			s.g.free(l)
		}
	}
	s.g.members = slices.DeleteFunc(s.g.members, func(x *source) bool { return x == s })
	s.events.Stop()
	s.look()
}

func public(lanes []*lane) []*brokers.Lane {
	out := make([]*brokers.Lane, len(lanes))
	for i, l := range lanes {
		out[i] = &l.Lane
	}
	return out
}

// Receive implements [brokers.Source].
func (s *source) Receive(ctx context.Context, limit brokers.Limit) ([]*brokers.Delivery, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		got, wait, err := s.gather(limit)
		if err != nil || len(got) > 0 {
			return got, err
		}
		if wait < 0 {
			select {
			case <-ctx.Done():
			case <-s.wake:
			}
			continue
		}
		due := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-due.C:
		}
		due.Stop()
	}
}

// gather takes what is at hand, some of each lane in turn. With nothing at
// hand it says how long until the next deferred one, -1 for none.
func (s *source) gather(limit brokers.Limit) ([]*brokers.Delivery, time.Duration, error) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	if s.err != nil {
		return nil, 0, s.err
	}
	if !s.b.answers() {
		return nil, -1, nil
	}
	now := int64(time.Since(s.b.born))
	var got []*brokers.Delivery
	bytes, n := 0, len(s.lanes)
	for more := true; more; {
		more = false
		for i := range n {
			l := s.lanes[(s.turn+i)%n]
			if l.life != live || l.paused {
				continue
			}
			share := max(1, limit.Messages/n)
			for ; share > 0; share-- {
				if len(got) >= limit.Messages || bytes >= limit.Bytes {
					s.turn = (s.turn + i) % n
					return got, 0, nil
				}
				offset, ok := l.pick(now)
				if !ok {
					break
				}
				more = true
				d := deliver(l, offset)
				bytes += d.Size()
				got = append(got, d)
			}
		}
	}
	wait := time.Duration(-1)
	for _, l := range s.lanes {
		if due, ok := l.due(); ok && (wait < 0 || time.Duration(due-now) < wait) {
			wait = time.Duration(due - now)
		}
	}
	return got, wait, nil
}

func deliver(l *lane, offset int64) *brokers.Delivery {
	d := l.part.at(offset).delivery(&l.Lane)
	d.Handle = l
	return d
}

// Pause implements [brokers.Source].
func (s *source) Pause(which *brokers.Lane, paused bool) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	for _, l := range s.lanes {
		if &l.Lane == which {
			l.paused = paused
		}
	}
	s.look()
}

// Mark implements [brokers.Source]. The group has one.
func (s *source) Mark(ctx context.Context, mark string) error {
	if len(mark) > brokers.MaxMark {
		return fmt.Errorf("mark is %d bytes, at most %d", len(mark), brokers.MaxMark)
	}
	if err := s.b.reach(ctx); err != nil {
		return err
	}
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	switch {
	case s.err != nil:
		return s.err
	case s.g.mark != s.seen && s.g.mark != mark:
		return &brokers.MarkError{Found: s.g.mark}
	}
	s.g.mark, s.seen = mark, mark
	return nil
}

// Floors implements [brokers.Source].
func (s *source) Floors(context.Context) ([]brokers.Floor, error) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	floors := make([]brokers.Floor, 0, len(s.lanes))
	for _, l := range s.lanes {
		floors = append(floors, brokers.Floor{Lane: &l.Lane, Next: l.floor, Lag: l.part.end() - l.floor})
	}
	return floors, nil
}

// Close implements [brokers.Source]. No event is called for what it gives up;
// it waits for one that runs.
func (s *source) Close(ctx context.Context) error {
	s.b.mu.Lock()
	if s.err == nil {
		for _, l := range s.lanes {
			s.g.keep(l)
		}
		s.events.Drop()
		s.end(brokers.ErrClosed, nil)
		s.g.rebalance()
	} else if !errors.Is(s.err, brokers.ErrClosed) {
		s.err = fmt.Errorf("%w, after: %w", brokers.ErrClosed, s.err)
	}
	s.b.mu.Unlock()
	select {
	case <-s.events.Done():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
