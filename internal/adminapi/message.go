package adminapi

import (
	"time"

	"github.com/onceward/onceward/brokers"
)

// Header is a [brokers.Header].
type Header struct {
	Name  Text   `json:"name"`
	Value []byte `json:"value,omitzero"`
}

func ofHeaders(headers []brokers.Header) []Header {
	if headers == nil {
		return nil
	}
	out := make([]Header, len(headers))
	for i, h := range headers {
		out[i] = Header{Text(h.Key), h.Value}
	}
	return out
}

func toHeaders(headers []Header) []brokers.Header {
	if headers == nil {
		return nil
	}
	out := make([]brokers.Header, len(headers))
	for i, h := range headers {
		out[i] = brokers.Header{Key: string(h.Name), Value: h.Value}
	}
	return out
}

// Lane is a [brokers.Lane]: where the messages after it lie.
type Lane struct {
	Topic     Text  `json:"topic"`
	Partition int32 `json:"partition,omitzero"`
	Retry     bool  `json:"retry,omitzero"`
	Source    Text  `json:"source,omitzero"`
	Backlog   int64 `json:"backlog,omitzero"`
}

// OfLane is l as JSON, without the mark, which is nobody else's.
func OfLane(l *brokers.Lane) *Lane {
	return &Lane{Text(l.Topic), l.Partition, l.Retry, Text(l.Source), l.Backlog}
}

// Broker is l as a broker has it.
func (l *Lane) Broker() *brokers.Lane {
	return &brokers.Lane{Topic: string(l.Topic), Partition: l.Partition, Retry: l.Retry, Source: string(l.Source), Backlog: l.Backlog}
}

// Message is a [brokers.Delivery] without its lane.
type Message struct {
	Offset  int64    `json:"offset"`
	Subject Text     `json:"subject,omitzero"`
	Key     []byte   `json:"key,omitzero"`
	Value   []byte   `json:"value,omitzero"`
	Headers []Header `json:"headers,omitzero"`
	Time    Time     `json:"time,omitzero"`
}

// OfDelivery is d as JSON; byte slices are shared.
func OfDelivery(d *brokers.Delivery) *Message {
	return &Message{d.Offset, Text(d.Subject), d.Key, d.Value, ofHeaders(d.Headers), Time(d.Time)}
}

// Broker is m as a delivery of the lane; byte slices are shared.
func (m *Message) Broker(lane *brokers.Lane) *brokers.Delivery {
	return &brokers.Delivery{
		Lane: lane, Offset: m.Offset, Subject: string(m.Subject), Key: m.Key, Value: m.Value,
		Headers: toHeaders(m.Headers), Time: m.Time.Time(),
	}
}

// Outgoing is a [brokers.Outgoing].
type Outgoing struct {
	Topic     Text     `json:"topic"`
	Key       []byte   `json:"key,omitzero"`
	Value     []byte   `json:"value,omitzero"`
	Headers   []Header `json:"headers,omitzero"`
	Subject   Text     `json:"subject,omitzero"`
	ID        Text     `json:"id,omitzero"`
	Partition *int32   `json:"partition,omitzero"`
}

// OfOutgoing is m as JSON; byte slices are shared.
func OfOutgoing(m *brokers.Outgoing) Outgoing {
	return Outgoing{Text(m.Topic), m.Key, m.Value, ofHeaders(m.Headers), Text(m.Subject), Text(m.ID), m.Partition}
}

// Broker is m as a broker takes it; byte slices are shared.
func (m *Outgoing) Broker() brokers.Outgoing {
	return brokers.Outgoing{
		Topic: string(m.Topic), Key: m.Key, Value: m.Value, Headers: toHeaders(m.Headers),
		Subject: string(m.Subject), ID: string(m.ID), Partition: m.Partition,
	}
}

// TopicInfo is a [brokers.TopicInfo].
type TopicInfo struct {
	Topic        Text     `json:"topic"`
	Missing      bool     `json:"missing,omitzero"`
	Hidden       bool     `json:"hidden,omitzero"`
	Identity     Text     `json:"identity,omitzero"`
	Partitions   int32    `json:"partitions,omitzero"`
	Replicas     int32    `json:"replicas,omitzero"`
	InSync       int32    `json:"in_sync,omitzero"`
	MaxAge       Duration `json:"max_age,omitzero"`
	MaxBytes     int64    `json:"max_bytes,omitzero"`
	MaxCount     int64    `json:"max_count,omitzero"`
	MaxMessage   int64    `json:"max_message,omitzero"`
	Compacted    bool     `json:"compacted,omitzero"`
	DropsOld     bool     `json:"drops_old,omitzero"`
	ConsumedOnce bool     `json:"consumed_once,omitzero"`
	InMemory     bool     `json:"in_memory,omitzero"`
	Messages     int64    `json:"messages"`
}

// OfTopicInfo is t as JSON.
func OfTopicInfo(t *brokers.TopicInfo) TopicInfo {
	return TopicInfo{
		Text(t.Topic), t.Missing, t.Hidden, Text(t.Identity), t.Partitions, t.Replicas, t.InSync, Duration(t.MaxAge), t.MaxBytes, t.MaxCount,
		t.MaxMessage, t.Compacted, t.DropsOld, t.ConsumedOnce, t.InMemory, t.Messages,
	}
}

// Broker is t as the broker said it.
func (t *TopicInfo) Broker() brokers.TopicInfo {
	return brokers.TopicInfo{
		Topic: string(t.Topic), Missing: t.Missing, Hidden: t.Hidden, Identity: string(t.Identity), Partitions: t.Partitions, Replicas: t.Replicas,
		InSync: t.InSync, MaxAge: time.Duration(t.MaxAge), MaxBytes: t.MaxBytes, MaxCount: t.MaxCount, MaxMessage: t.MaxMessage,
		Compacted: t.Compacted, DropsOld: t.DropsOld, ConsumedOnce: t.ConsumedOnce, InMemory: t.InMemory, Messages: t.Messages,
	}
}
