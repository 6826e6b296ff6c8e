package membroker

import (
	"fmt"
	"time"

	"github.com/onceward/onceward/brokers"
)

// owned is the lane of a delivery, while it can be settled here.
func (s *source) owned(d *brokers.Delivery) (*lane, bool) {
	l, ok := d.Handle.(*lane)
	return l, ok && l.owner == s && l.life != ended
}

// Ack implements [brokers.Source].
func (s *source) Ack(deliveries []*brokers.Delivery) error {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	late := 0
	var last *lane
	for _, d := range deliveries {
		l, ok := s.owned(d)
		if !ok {
			late++
			continue
		}
		l.ack(d.Offset)
		if last != nil && last != l {
			s.g.keep(last)
		}
		last = l
	}
	if last != nil {
		s.g.keep(last)
	}
	if late > 0 {
		return fmt.Errorf("%d of %d not acknowledged: their lanes have ended", late, len(deliveries))
	}
	return nil
}

// Defer implements [brokers.Source].
func (s *source) Defer(deliveries []*brokers.Delivery, delay time.Duration) error {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	late := 0
	due := int64(time.Since(s.b.born) + max(0, delay))
	for _, d := range deliveries {
		if l, ok := s.owned(d); ok {
			l.giveBack(d.Offset, due)
		} else {
			late++
		}
	}
	s.look()
	if late > 0 {
		return fmt.Errorf("%d of %d not deferred: their lanes have ended", late, len(deliveries))
	}
	return nil
}

// Abandon implements [brokers.Source]. There is no deadline here, so nothing
// is told about progress and nothing changes.
func (s *source) Abandon([]*brokers.Delivery) {}
