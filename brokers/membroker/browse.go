package membroker

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/onceward/onceward/brokers"
)

// healing is how long a browse waits for a broker that does not answer.
const healing = 30 * time.Second

// Browse yields what a topic holds; see [brokers.Browser].
//
// Errors besides: what [Broker.FailBrowse] set; [brokers.ErrClosed];
// [ErrUnavailable] when the broker does not answer for half a minute.
func (b *Broker) Browse(ctx context.Context, name string, from brokers.From) iter.Seq2[*brokers.Delivery, error] {
	return func(yield func(*brokers.Delivery, error) bool) {
		if err := b.browse(ctx, name, from, yield); err != nil {
			yield(nil, fmt.Errorf("browse topic %.80q: %w", name, err))
		}
	}
}

// browse returns nil also when the caller has had enough.
func (b *Broker) browse(ctx context.Context, name string, from brokers.From, yield func(*brokers.Delivery, error) bool) error {
	if err := b.heal(ctx); err != nil {
		return err
	}
	shelves, err := b.snapshot(name, from)
	if err != nil {
		return err
	}
	for _, s := range shelves {
		for i := range s.messages {
			if err := b.heal(ctx); err != nil {
				return err
			}
			if !yield(s.messages[i].delivery(s.lane), nil) {
				return nil
			}
		}
	}
	return nil
}

// shelf is what is to be seen of one partition.
type shelf struct {
	lane     *brokers.Lane
	messages []Message
}

func (b *Broker) snapshot(name string, from brokers.From) ([]shelf, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.topics[name]
	switch {
	case b.closed:
		return nil, brokers.ErrClosed
	case t == nil:
		return nil, brokers.ErrNoDestination
	case t.unread != nil:
		return nil, t.unread
	}
	var shelves []shelf
	for _, p := range t.parts {
		first := p.start
		if from.Offsets != nil {
			wanted, named := from.Offsets[p.id]
			if !named {
				continue
			}
			first = wanted
		}
		if !from.Since.IsZero() {
			first = max(first, p.since(from.Since))
		}
		messages := p.from(first)
		shelves = append(shelves, shelf{messages: messages, lane: &brokers.Lane{
			Topic: name, Partition: p.id, Source: t.source, Backlog: int64(len(messages)),
		}})
	}
	return shelves, nil
}

// heal waits until the broker answers, for as long as a browse does.
func (b *Broker) heal(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, healing)
	defer cancel()
	return b.reach(bounded)
}
