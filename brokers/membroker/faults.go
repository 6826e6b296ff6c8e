package membroker

import (
	"errors"
	"fmt"
	"slices"
)

// FailPublish makes every further publish to a topic fail with err, until it
// is called with nil. Nothing is stored. Use the errors of package brokers to
// say what kind of failure it is; any other one is transient.
func (b *Broker) FailPublish(topic string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures[topic] = err
}

// LoseConfirmations makes the next n publishes to a topic be stored and yet
// answered with [brokers.ErrUnknownOutcome].
func (b *Broker) LoseConfirmations(topic string, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unsure[topic] = n
}

// FailBrowse makes every further browse of a topic end with err, until it is
// called with nil; see [Broker.FailPublish]. It does nothing when there is no
// such topic.
func (b *Broker) FailBrowse(topic string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.topics[topic]; t != nil {
		t.unread = err
	}
}

// DropBelow deletes the messages of a partition below an offset, or all of
// them where it lies beyond the end, as retention does. Those that a member
// holds it may still settle; those that wait to be handed out, also again, are
// lost without a word. Positions stay where they are. It panics when there is
// no such partition.
func (b *Broker) DropBelow(topic string, partition int32, offset int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.topics[topic]
	if t == nil || partition < 0 || int(partition) >= len(t.parts) {
		panic(fmt.Sprintf("membroker: no partition %d of topic %q", partition, topic))
	}
	p := t.parts[partition]
	kept := p.from(offset)
	p.start = p.end() - int64(len(kept))
	p.log = slices.Clone(kept)
	for _, g := range b.groups {
		if l := g.lanes[p]; l != nil {
			l.drop()
		}
	}
}

// SetAvailable says whether the broker answers. While it does not, publishes
// and opens wait until their context ends, nothing is handed out, positions
// stand still, and sources report "connection" as degraded. Acks are kept and
// reach the position afterwards.
func (b *Broker) SetAvailable(available bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if available == b.answers() {
		return
	}
	var state error
	if available {
		close(b.available)
	} else {
		b.available = make(chan struct{})
		state = ErrUnavailable
	}
	for _, g := range b.groups {
		for _, l := range g.lanes {
			g.keep(l)
		}
		for _, s := range g.members {
			s.degraded("connection", state)
			s.look()
		}
	}
}

// Redeliver hands out again what a consumer's member holds unsettled, as a
// broker does that missed an ack: all of a topic, or only the offsets named.
// Both deliveries are then in the process, and an ack of either settles it. It
// returns how many.
func (b *Broker) Redeliver(consumer, topic string, partition int32, offsets ...int64) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, l := range b.owned(consumer, topic, []int32{partition}) {
		if len(offsets) == 0 {
			for offset := l.floor; offset < l.next; offset++ {
				if l.repeat(offset) {
					n++
				}
			}
		}
		for _, offset := range offsets {
			if l.repeat(offset) {
				n++
			}
		}
		l.owner.look()
	}
	return n
}

// Revoke takes partitions (none named: all) of a topic from the consumer's
// members, who may drain them first, and gives them out again, to the same
// member when it is the only one. It does not wait.
func (b *Broker) Revoke(consumer, topic string, partitions ...int32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := map[*source][]*lane{}
	for _, l := range b.owned(consumer, topic, partitions) {
		if l.life != draining {
			l.life = draining
			taken[l.owner] = append(taken[l.owner], l)
		}
	}
	for s, lanes := range taken {
		s.revoke(lanes)
	}
}

// Lose takes partitions (none named: all) away without a drain, as when the
// process was paused for longer than its session, and gives them out again.
func (b *Broker) Lose(consumer, topic string, partitions ...int32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := map[*source][]*lane{}
	for _, l := range b.owned(consumer, topic, partitions) {
		taken[l.owner] = append(taken[l.owner], l)
	}
	for s, lanes := range taken {
		s.lose(lanes, errors.New("membroker: taken away by the test"))
	}
	if g := b.groups[consumer]; g != nil {
		g.rebalance()
	}
}

// ErrCrashed is what Receive answers after [Broker.Crash].
var ErrCrashed = errors.New("membroker: this process has crashed")

// Crash ends all of a consumer's sources as if their processes had been
// killed: nothing that they do afterwards counts, no event is called, and the
// next Open begins at the positions.
func (b *Broker) Crash(consumer string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if g := b.groups[consumer]; g != nil {
		g.crash(ErrCrashed)
	}
}

// crash ends every member without a word to it; b.mu is held.
func (g *group) crash(err error) {
	for _, s := range slices.Clone(g.members) {
		s.events.Drop()
		s.end(err, nil)
	}
}

// owned are the lanes that a consumer's members own of a topic, in the order
// of partitions. No partition named means all.
func (b *Broker) owned(consumer, topic string, partitions []int32) []*lane {
	g, t := b.groups[consumer], b.topics[topic]
	if g == nil || t == nil {
		return nil
	}
	for _, p := range partitions {
		if p < 0 || int(p) >= len(t.parts) {
			panic(fmt.Sprintf("membroker: topic %q has no partition %d", topic, p))
		}
	}
	var lanes []*lane
	for _, p := range t.parts {
		if l := g.lanes[p]; l != nil && (len(partitions) == 0 || slices.Contains(partitions, p.id)) {
			lanes = append(lanes, l)
		}
	}
	return lanes
}
