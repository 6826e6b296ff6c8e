package membroker

import (
	"context"

	"github.com/onceward/onceward/brokers"
)

// Inspect describes topics; see [brokers.Browser]. A topic has one replica, in
// memory, and keeps everything.
//
// Errors: [brokers.ErrClosed]; [ErrUnavailable] when ctx ended first.
func (b *Broker) Inspect(ctx context.Context, topics []string) ([]brokers.TopicInfo, error) {
	if err := b.reach(ctx); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, brokers.ErrClosed
	}
	infos := make([]brokers.TopicInfo, len(topics))
	for i, name := range topics {
		t := b.topics[name]
		if t == nil {
			infos[i] = brokers.TopicInfo{Topic: name, Missing: true}
			continue
		}
		info := brokers.TopicInfo{
			Topic: name, Identity: t.source, Partitions: int32(len(t.parts)),
			Replicas: 1, InSync: 1, MaxMessage: int64(b.maxBytes), InMemory: true,
		}
		for _, p := range t.parts {
			info.Messages += int64(len(p.log))
		}
		infos[i] = info
	}
	return infos, nil
}

// Messages are all that a topic stores, by partition and offset. It is empty
// when there is no such topic.
func (b *Broker) Messages(topic string) []Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []Message
	if t := b.topics[topic]; t != nil {
		for _, p := range t.parts {
			all = append(all, p.log...)
		}
	}
	return all
}

// Letters are the dead letters that a consumer wrote for a topic, in the order
// of writing within each partition.
func (b *Broker) Letters(consumer, topic string) []Message {
	return b.Messages(b.Destinations(consumer, topic).DeadLetter)
}

// Waiting are the copies on a consumer's retry topic that it has not settled.
// As everywhere, a position covers a contiguous prefix only, so a settled copy
// behind an unsettled one is listed when nobody owns the partition.
func (b *Broker) Waiting(consumer, topic string) []Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.unsettled(consumer, b.Destinations(consumer, topic).Retry)
}

// Unsettled are the messages of a topic that a consumer has not settled, by
// the same rule as [Broker.Waiting].
func (b *Broker) Unsettled(consumer, topic string) []Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.unsettled(consumer, topic)
}

func (b *Broker) unsettled(consumer, topic string) []Message {
	g, t := b.groups[consumer], b.topics[topic]
	if t == nil {
		return nil
	}
	var all []Message
	for _, p := range t.parts {
		if g == nil {
			all = append(all, p.log...)
			continue
		}
		l := g.lanes[p]
		for _, m := range p.from(g.at[p]) {
			if l != nil {
				if at := l.at(m.Offset); m.Offset < l.floor || at != nil && *at == acked {
					continue
				}
			}
			all = append(all, m)
		}
	}
	return all
}

// Position is the offset where a consumer would begin after a crash: all below
// it is settled. It is 0 when the consumer is not known.
func (b *Broker) Position(consumer, topic string, partition int32) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	g, t := b.groups[consumer], b.topics[topic]
	if g == nil || t == nil || partition < 0 || int(partition) >= len(t.parts) {
		return 0
	}
	return g.at[t.parts[partition]]
}
