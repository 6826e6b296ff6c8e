package group

import (
	"bytes"
	"maps"
	"slices"

	"github.com/onceward/onceward/brokers/kafkabroker/internal/coop"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/wire"
)

// subscription is what a member tells the leader. kafka-go's own type has no
// generation, and fails the whole group when one member wrote less than its
// version says.
type subscription struct {
	topics     []string
	claims     []coop.Partition
	generation int32
	ours       bool // written by this software
}

// mark stands after the generation in the user data. Java clients read the
// generation there and ignore the rest; others do not look.
const mark = "onceward"

// encode writes version 3 without a rack.
//
// Source: the layout is that of Kafka's ConsumerProtocolSubscription.json; the
// user data is that of Java clients before 3.2, which look there for the
// generation.
func (s subscription) encode() []byte {
	b := wire.AppendInt16(nil, 3)
	b = wire.AppendInt32(b, int32(len(s.topics)))
	for _, t := range slices.Sorted(slices.Values(s.topics)) {
		b = wire.AppendString(b, t)
	}
	b = wire.AppendBytes(b, append(wire.AppendInt32(nil, s.generation), mark...))
	b = appendPartitions(b, s.claims)
	b = wire.AppendInt32(b, s.generation)
	return wire.AppendInt16(b, -1)
}

// decodeSubscription reads every version, also a version 1 that ends after the
// user data, as kafka-go's own ConsumerGroup writes it.
func decodeSubscription(b []byte) (subscription, error) {
	r := wire.NewReader(b)
	s := subscription{generation: -1}
	version := r.Int16()
	for n := r.Count(2); n > 0 && !r.Bad(); n-- {
		s.topics = append(s.topics, r.String())
	}
	data := r.Bytes()
	s.ours = len(data) == 4+len(mark) && bytes.HasSuffix(data, []byte(mark))
	if len(data) == 4 || s.ours {
		head := wire.NewReader(data)
		s.generation = head.Int32()
	}
	if version >= 1 && r.Len() > 0 {
		s.claims = readPartitions(&r)
	}
	if version >= 2 {
		s.generation = r.Int32()
	}
	return s, r.Err()
}

func encodeAssignment(ps []coop.Partition) []byte {
	return wire.AppendBytes(appendPartitions(wire.AppendInt16(nil, 0), ps), nil)
}

func decodeAssignment(b []byte) ([]coop.Partition, error) {
	if len(b) == 0 {
		return nil, nil // what a member gets that the leader left out
	}
	r := wire.NewReader(b)
	r.Int16()
	ps := readPartitions(&r)
	return ps, r.Err()
}

func appendPartitions(b []byte, ps []coop.Partition) []byte {
	byTopic := map[string][]int32{}
	for _, p := range ps {
		byTopic[p.Topic] = append(byTopic[p.Topic], p.Index)
	}
	b = wire.AppendInt32(b, int32(len(byTopic)))
	for _, t := range slices.Sorted(maps.Keys(byTopic)) {
		b = wire.AppendString(b, t)
		b = wire.AppendInt32(b, int32(len(byTopic[t])))
		for _, i := range byTopic[t] {
			b = wire.AppendInt32(b, i)
		}
	}
	return b
}

func readPartitions(r *wire.Reader) (ps []coop.Partition) {
	for n := r.Count(6); n > 0 && !r.Bad(); n-- {
		t := r.String()
		for k := r.Count(4); k > 0; k-- {
			ps = append(ps, coop.Partition{Topic: t, Index: r.Int32()})
		}
	}
	return ps
}

// Ours says whether a member's metadata was written by this software, and its
// second result whether there is metadata to tell by.
func Ours(metadata []byte) (ours, known bool) {
	if len(metadata) == 0 {
		return false, false
	}
	s, err := decodeSubscription(metadata)
	return err == nil && s.ours, true
}
