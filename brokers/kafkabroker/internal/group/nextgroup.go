package group

import (
	"fmt"
	"io"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/onceward/onceward/brokers/kafkabroker/internal/cluster"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/wire"
)

// nextGroupRequest lists the members of a group of the next protocol.
type nextGroupRequest struct {
	client, group string
	offers        func(protocol.ApiKey) bool
}

// nextGroupAnswer is empty for a group that is not of that protocol.
type nextGroupAnswer struct {
	code    kafka.Error
	members []string
}

func (*nextGroupRequest) ApiKey() protocol.ApiKey                 { return cluster.NextGroupDescribe }
func (*nextGroupAnswer) ApiKey() protocol.ApiKey                  { return cluster.NextGroupDescribe }
func (*nextGroupRequest) Required(map[protocol.ApiKey]int16) bool { return true }

// Choose implements cluster.Chooser. Version 0 is the lowest and enough, so that
// only whether the call is there matters.
func (n *nextGroupRequest) Choose(offered func(protocol.ApiKey) int16) {
	n.offers = func(key protocol.ApiKey) bool { return offered(key) >= 0 }
}

// RawExchange implements protocol.RawExchanger.
//
// Source: the layouts are those of Kafka's ConsumerGroupDescribeRequest.json
// and ConsumerGroupDescribeResponse.json, version 0.
func (n *nextGroupRequest) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	if !n.offers(cluster.NextGroupDescribe) {
		return &nextGroupAnswer{}, nil
	}
	b := wire.AppendHeader(make([]byte, 0, 128), int16(cluster.NextGroupDescribe), 0, 1, n.client, true)
	b = wire.AppendCompactCount(b, 1)
	b = wire.AppendCompactString(b, n.group)
	b = append(b, 0, 0) // no rights, no tags
	if _, err := rw.Write(wire.Finish(b)); err != nil {
		return nil, err
	}
	body, err := wire.ReadFrame(rw, nil, 32<<20)
	if err != nil {
		return nil, err
	}
	a, err := decodeNextGroup(body)
	if err != nil {
		return nil, fmt.Errorf("describe a group of the next protocol: %w", err)
	}
	return a, nil
}

func decodeNextGroup(body []byte) (*nextGroupAnswer, error) {
	r := wire.NewReader(body)
	a := &nextGroupAnswer{}
	r.Int32() // correlation id
	r.SkipTags()
	r.Int32() // throttle
	for n := r.CompactCount(16); n > 0 && !r.Bad(); n-- {
		a.code = kafka.Error(r.Int16())
		for range 3 { // message, group, state
			r.CompactBytes()
		}
		r.Take(8) // epochs
		r.CompactBytes()
		for k := r.CompactCount(10); k > 0 && !r.Bad(); k-- {
			a.members = append(a.members, readNextMember(&r))
		}
		r.Int32() // rights
		r.SkipTags()
	}
	r.SkipTags()
	return a, r.Err()
}

func readNextMember(r *wire.Reader) string {
	id := r.CompactString()
	r.CompactBytes() // instance
	r.CompactBytes() // rack
	r.Int32()        // epoch
	client, host := r.CompactString(), r.CompactString()
	for n := r.CompactCount(1); n > 0 && !r.Bad(); n-- {
		r.CompactBytes() // topic
	}
	r.CompactBytes() // pattern
	for range 2 {    // assignment, target
		for n := r.CompactCount(19); n > 0 && !r.Bad(); n-- {
			r.UUID()
			r.CompactBytes()
			r.Take(4 * r.CompactCount(4))
			r.SkipTags()
		}
		r.SkipTags()
	}
	r.SkipTags()
	return memberName(id, client, host)
}
