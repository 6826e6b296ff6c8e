package natsbroker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceward/onceward/brokers"
)

// refused is an answer to a request that the durable does not allow: it does
// not heal by asking whether the durable is still there.
type refused struct{ error }

// doubt asks the server about a lane that behaves strangely, one question at a
// time: whether the durable is still the same. Then the requests are renewed.
func (s *source) doubt(l *lane, why error) {
	s.mu.Lock()
	if s.checking[l] || s.err != nil {
		s.mu.Unlock()
		return
	}
	s.checking[l] = true
	s.own.Go(func() {
		gone := s.examine(l, why)
		s.mu.Lock()
		delete(s.checking, l)
		s.mu.Unlock()
		if gone != nil {
			s.fail(gone)
		}
	})
	s.mu.Unlock()
}

// examine reports a *StartError when the durable is gone. A server that has
// just come up may know nothing yet, so that is believed when it is said twice.
func (s *source) examine(l *lane, why error) error {
	name := fmt.Sprintf("consumer %q of stream %q", l.durable, l.stream)
	s.mu.Lock()
	pace := time.Until(l.examined.Add(time.Second))
	l.examined = time.Now().Add(max(0, pace))
	s.mu.Unlock()
	if pace > 0 && !rest(s.ctx, pace) {
		return nil
	}
	missing := 0
	for began := time.Now(); ; {
		ctx, cancel := context.WithTimeout(s.ctx, answering)
		info, err := l.consumer.Info(ctx)
		cancel()
		switch {
		case s.ctx.Err() != nil:
			return nil
		case err == nil && !info.Created.Equal(l.created):
			return &brokers.StartError{
				What: "read " + name, Wrong: "it was deleted and made again: its position is lost", Mend: "restart",
			}
		case err == nil && info.Config.HeadersOnly:
			return l.beheaded()
		case err == nil:
			l.whole.Store(true)
			l.learn(info)
			if l.renew() == nil { // else the connection has ended
				l.refill()
			}
			if _, no := errors.AsType[refused](why); no {
				l.report(why)
			} else {
				l.report(nil)
			}
			return nil
		case errors.Is(err, jetstream.ErrConsumerNotFound), errors.Is(err, jetstream.ErrStreamNotFound),
			errors.Is(err, jetstream.ErrConsumerDoesNotExist):
			if missing++; missing > 1 {
				wrong := "the consumer was deleted"
				if errors.Is(err, jetstream.ErrStreamNotFound) {
					wrong = "the stream was deleted"
				}
				return &brokers.StartError{What: "read " + name, Wrong: wrong, Mend: "make it again and restart", Err: err}
			}
		default:
			missing = 0
			if fault := s.b.denial(began, ""); fault != nil {
				err = fault
			}
			l.report(fmt.Errorf("%w; %w", why, err))
		}
		if !rest(s.ctx, time.Second) {
			return nil
		}
	}
}

// rest waits, and reports false when ctx ended before.
func rest(ctx context.Context, d time.Duration) bool {
	pause := time.NewTimer(d)
	defer pause.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-pause.C:
		return true
	}
}

// report tells trouble of the lane, and its end, once each.
func (l *lane) report(err error) {
	l.mu.Lock()
	same := (l.trouble == nil) == (err == nil)
	l.trouble = err
	l.mu.Unlock()
	if !same {
		l.s.degraded("stream "+l.stream, err)
	}
}
