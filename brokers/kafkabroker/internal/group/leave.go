package group

import (
	"fmt"
	"io"

	"github.com/segmentio/kafka-go/protocol"

	"github.com/onceward/onceward/brokers/kafkabroker/internal/cluster"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/wire"
)

// leaveRequest does its own exchange, for the same reason as heartbeatRequest.
type leaveRequest struct{ client, group, member string }

// leaveAnswer is the code.
type leaveAnswer struct{ code int16 }

func (*leaveRequest) ApiKey() protocol.ApiKey                 { return protocol.LeaveGroup }
func (*leaveAnswer) ApiKey() protocol.ApiKey                  { return protocol.LeaveGroup }
func (*leaveRequest) Required(map[protocol.ApiKey]int16) bool { return true }
func (*leaveRequest) Choose(func(protocol.ApiKey) int16)      {}

// RawExchange implements protocol.RawExchanger.
//
// Source: the layouts are those of Kafka's LeaveGroupRequest.json and
// LeaveGroupResponse.json, version 3.
func (l *leaveRequest) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	b := wire.AppendHeader(make([]byte, 0, 128), int16(protocol.LeaveGroup), cluster.LeaveVersion, 1, l.client, false)
	b = wire.AppendString(b, l.group)
	b = wire.AppendInt32(b, 1)
	b = wire.AppendString(b, l.member)
	b = wire.AppendInt16(b, -1) // no instance
	code, err := askCode(rw, b, 64<<10)
	if err != nil {
		return nil, fmt.Errorf("leave v%d: %w", cluster.LeaveVersion, err)
	}
	return &leaveAnswer{code}, nil
}
