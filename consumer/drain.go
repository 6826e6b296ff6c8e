package consumer

import (
	"context"
	"time"

	"github.com/onceward/onceward/brokers"
)

// stop ends the consumer: nothing new starts, handlers may finish until
// cancelAt, and what has not started goes back.
func (p *pipeline) stop(cancelAt time.Time) {
	p.stopping = true
	for _, l := range p.lanes {
		p.endLane(l, cancelAt)
	}
	p.superviseDue = p.now
}

// assigned is called by the source before the first delivery of new lanes.
func (c *Consumer) assigned(lanes []*brokers.Lane) error {
	if err := c.checkMarks(lanes); err != nil {
		return err
	}
	c.pipeline.fresh.add(lanes)
	for _, l := range lanes {
		c.log.Info("partition assigned", "topic", l.Topic, "partition", l.Partition, "retry", l.Retry, "backlog", l.Backlog)
	}
	return nil
}

// revoked is called by the source when lanes must be given up, and blocks
// until they are drained: running handlers may finish until shortly before ctx
// ends.
func (c *Consumer) revoked(ctx context.Context, lanes []*brokers.Lane) {
	p := c.pipeline
	p.fresh.drop(lanes)
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(c.cfg.Drain)
	}
	cancelAt := deadline.Add(-drainMargin(time.Until(deadline)))
	drained := make(chan chan struct{}, len(lanes))
	p.post(func() {
		for _, bl := range lanes {
			l := p.laneOf(bl)
			p.endLane(l, cancelAt)
			if l.drained == nil {
				l.drained = make(chan struct{})
			}
			drained <- l.drained
			p.log.Info("partition revoked", "topic", l.Topic, "partition", l.Partition, "unfinished", l.active)
		}
		p.superviseDue = p.now
	})
	for range lanes {
		select {
		case done := <-drained:
			select {
			case <-done:
			case <-ctx.Done():
				return
			case <-p.hard.Done():
				return
			}
		case <-ctx.Done():
			return
		case <-p.hard.Done():
			return
		}
	}
}

// lostLanes is called by the source when lanes are gone already.
func (c *Consumer) lostLanes(lanes []*brokers.Lane, cause error) {
	p := c.pipeline
	p.fresh.drop(lanes)
	p.post(func() {
		for _, bl := range lanes {
			l := p.laneOf(bl)
			l.lost = true
			p.endLane(l, p.now)
			l.cancelAt = p.now
			p.log.Warn("partition lost: its handlers are cut short", "topic", l.Topic, "partition", l.Partition, "cause", cause)
		}
		p.superviseDue = p.now
	})
}
