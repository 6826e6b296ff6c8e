package natsbroker

import (
	"fmt"
	"strconv"
	"time"

	"github.com/onceward/onceward/brokers"
)

// of is the lane of a delivery, while it can be settled here.
func (s *source) of(d *brokers.Delivery) (*held, bool) {
	h, ok := d.Handle.(*held)
	return h, ok && h.lane.s == s
}

// Ack implements [brokers.Source]. It sends one short message for each and
// waits for nothing: while the connection is broken they are kept, up to the
// size of nats.go's reconnect buffer (8 MiB by default, some 80,000 acks). The
// call blocks while nats.go shakes hands with a server that is silent, for its
// connect timeout of 5 s at most. A
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
