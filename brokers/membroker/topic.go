package membroker

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/onceward/onceward/brokers"
)

// Message is one message as the broker keeps it. It must not be written to.
type Message struct {
	Topic     string
	Partition int32
	Offset    int64
	Key       []byte
	Value     []byte
	Headers   []brokers.Header
	Subject   string    // [brokers.Outgoing.Subject]; Kafka has none
	Time      time.Time // when it was stored
}

// delivery hands the message out; what it holds is shared.
func (m *Message) delivery(lane *brokers.Lane) *brokers.Delivery {
	return &brokers.Delivery{
		Lane: lane, Offset: m.Offset, Subject: m.Subject, Key: m.Key, Value: m.Value, Headers: m.Headers, Time: m.Time,
	}
}

// topic is a set of logs. All of it is guarded by Broker.mu.
type topic struct {
	name   string
	source string // name and a number that a topic made again does not share
	parts  []*partition
	turn   int // where the next message without a key goes

	unread error // by [Broker.FailBrowse]
}

// partition is one log. Its messages are never written to, so that slices of
// it may be read without the lock.
type partition struct {
	topic *topic
	id    int32
	start int64 // the offset of log[0]
	log   []Message
}

// end is the offset of the next message.
func (p *partition) end() int64 { return p.start + int64(len(p.log)) }

// at is the message of an offset, which must be there.
func (p *partition) at(offset int64) *Message { return &p.log[offset-p.start] }

// from are the messages with at least that offset.
func (p *partition) from(offset int64) []Message {
	return p.log[min(max(0, offset-p.start), int64(len(p.log))):]
}

// place picks the partition as Kafka does: asked for, by key, or in turn.
func (t *topic) place(m *brokers.Outgoing) (*partition, error) {
	n := len(t.parts)
	switch {
	case m.Partition != nil:
		if *m.Partition < 0 || int(*m.Partition) >= n {
			return nil, fmt.Errorf("%w: topic %q has no partition %d", brokers.ErrNoDestination, t.name, *m.Partition)
		}
		return t.parts[*m.Partition], nil
	case m.Key != nil:
		h := fnv.New32a()
		h.Write(m.Key)
		return t.parts[h.Sum32()%uint32(n)], nil
	}
	t.turn = (t.turn + 1) % n
	return t.parts[t.turn], nil
}

// append stores a copy of m.
func (p *partition) append(m *brokers.Outgoing, now time.Time) {
	kept := Message{
		Topic: p.topic.name, Partition: p.id, Offset: p.end(),
		Key: bytes.Clone(m.Key), Value: bytes.Clone(m.Value), Subject: m.Subject, Time: now,
	}
	if len(m.Headers) > 0 {
		kept.Headers = make([]brokers.Header, len(m.Headers))
		for i, h := range m.Headers {
			kept.Headers[i] = brokers.Header{Key: h.Key, Value: bytes.Clone(h.Value)}
		}
	}
	p.log = append(p.log, kept)
}

// since is the first offset stored at or after t.
func (p *partition) since(t time.Time) int64 {
	i, _ := slices.BinarySearchFunc(p.log, t, func(m Message, t time.Time) int {
		return cmp.Compare(m.Time.UnixNano(), t.UnixNano())
	})
	return p.start + int64(i)
}

// size is what a message counts against MaxMessageBytes.
func size(m *brokers.Outgoing) int {
	n := len(m.Key) + len(m.Value)
	for _, h := range m.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}
