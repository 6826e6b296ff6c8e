package group

import (
	"fmt"
	"io"

	"github.com/segmentio/kafka-go/protocol"

	"github.com/onceward/onceward/brokers/kafkabroker/internal/wire"
)

// heartbeatVersion is the last in the fixed layout, Kafka 2.3.
const heartbeatVersion = 3

// heartbeatRequest does its own exchange: kafka-go reads the answer's code
// where the throttle time is, so that every refusal looks like success.
type heartbeatRequest struct {
	client, group, member, instance string
	generation                      int32
}

// heartbeatAnswer is the code.
type heartbeatAnswer struct{ code int16 }

func (*heartbeatRequest) ApiKey() protocol.ApiKey                 { return protocol.Heartbeat }
func (*heartbeatAnswer) ApiKey() protocol.ApiKey                  { return protocol.Heartbeat }
func (*heartbeatRequest) Required(map[protocol.ApiKey]int16) bool { return true }
func (*heartbeatRequest) Choose(func(protocol.ApiKey) int16)      {}

// RawExchange implements protocol.RawExchanger.
//
// Source: the layouts are those of Kafka's HeartbeatRequest.json and
// HeartbeatResponse.json, version 3.
func (h *heartbeatRequest) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	b := wire.AppendHeader(make([]byte, 0, 128), int16(protocol.Heartbeat), heartbeatVersion, 1, h.client, false)
	b = wire.AppendString(b, h.group)
	b = wire.AppendInt32(b, h.generation)
	b = wire.AppendString(b, h.member)
	if h.instance == "" {
		b = wire.AppendInt16(b, -1)
	} else {
		b = wire.AppendString(b, h.instance)
	}
	if _, err := rw.Write(wire.Finish(b)); err != nil {
		return nil, err
	}
	body, err := wire.ReadFrame(rw, nil, 64)
	if err != nil {
		return nil, err
	}
	r := wire.NewReader(body)
	r.Int32() // correlation id
	r.Int32() // throttle
	a := &heartbeatAnswer{code: r.Int16()}
	if r.Bad() {
		return nil, fmt.Errorf("heartbeat v%d: %w", heartbeatVersion, r.Err())
	}
	return a, nil
}
