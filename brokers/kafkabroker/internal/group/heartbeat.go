package group

import (
	"fmt"
	"io"

	"github.com/segmentio/kafka-go/protocol"

	"github.com/onceward/onceward/brokers/kafkabroker/internal/cluster"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/wire"
)

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
	b := wire.AppendHeader(make([]byte, 0, 128), int16(protocol.Heartbeat), cluster.HeartbeatVersion, 1, h.client, false)
	b = wire.AppendString(b, h.group)
	b = wire.AppendInt32(b, h.generation)
	b = wire.AppendString(b, h.member)
	if h.instance == "" {
		b = wire.AppendInt16(b, -1)
	} else {
		b = wire.AppendString(b, h.instance)
	}
	code, err := askCode(rw, b, 64)
	if err != nil {
		return nil, fmt.Errorf("heartbeat v%d: %w", cluster.HeartbeatVersion, err)
	}
	return &heartbeatAnswer{code}, nil
}

// askCode sends a request and reads of its answer, of at most limit bytes, the
// code behind the throttle time.
func askCode(rw io.ReadWriter, request []byte, limit int) (int16, error) {
	if _, err := rw.Write(wire.Finish(request)); err != nil {
		return 0, err
	}
	body, err := wire.ReadFrame(rw, nil, limit)
	if err != nil {
		return 0, err
	}
	r := wire.NewReader(body)
	r.Int32() // correlation id
	r.Int32() // throttle
	return r.Int16(), r.Err()
}
