package consumer

import (
	"context"
	"time"

	"github.com/onceward/onceward/brokers"
)

const (
	// maxPublishing is how many batches of letters and copies are under way at
	// once: one destination that is down must not hold up the others.
	maxPublishing = 8
	// maxBatch bounds one of them.
	maxBatch = 256
	// publishTimeout bounds a publish that the broker does not answer; it is
	// repeated with the same id.
	publishTimeout = 10 * time.Second
)

// publish sends letters and copies on their way, a batch for each destination.
func (p *pipeline) publish() {
	for len(p.outbox) > 0 && p.publishing < maxPublishing {
		var batch, rest []*task
		var messages []brokers.Outgoing
		for _, t := range p.outbox {
			if len(batch) == maxBatch || len(batch) > 0 && p.destination(t) != messages[0].Topic {
				rest = append(rest, t)
				continue
			}
			batch, messages = append(batch, t), append(messages, p.outgoing(t))
		}
		p.outbox = rest
		p.publishing++
		p.sending.Go(func() { p.send(batch, messages) })
	}
}

// send publishes one batch and hands the results to the loop.
func (p *pipeline) send(batch []*task, messages []brokers.Outgoing) {
	ctx, cancel := context.WithTimeout(p.hard, publishTimeout)
	defer cancel()
	errs := brokers.Publish(ctx, p.cfg.Broker, messages)
	p.post(func() {
		p.publishing--
		for i, t := range batch {
			p.published(t, errs[i])
		}
	})
}
