package kafkabroker

import (
	"fmt"
	"io"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/cluster"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/records"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/wire"
)

// produceRequest is one Produce with all in-sync replicas.
type produceRequest struct {
	client  string
	batches []*batch // of different partitions
	encoded []byte
}

// newProduceRequest takes what it needs of the messages: an exchange may go on
// when nobody waits for it any more, and they are their owner's again then.
func newProduceRequest(client string, batches []*batch) *produceRequest {
	r := &produceRequest{client: client, batches: batches}
	r.encoded = r.encode()
	return r
}

// produceAnswer has a code for each batch.
type produceAnswer struct{ codes []kafka.Error }

func (*produceRequest) ApiKey() protocol.ApiKey                 { return protocol.Produce }
func (*produceAnswer) ApiKey() protocol.ApiKey                  { return protocol.Produce }
func (*produceRequest) Required(map[protocol.ApiKey]int16) bool { return true }
func (*produceRequest) Choose(func(protocol.ApiKey) int16)      {}

// RawExchange implements protocol.RawExchanger.
func (r *produceRequest) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	if _, err := rw.Write(r.encoded); err != nil {
		return nil, err
	}
	body, err := wire.ReadFrame(rw, nil, maxAsk)
	if err != nil {
		return nil, err
	}
	return r.decode(body)
}

// Source: the layouts are those of Kafka's ProduceRequest.json and
// ProduceResponse.json, version 8.
func (r *produceRequest) encode() []byte {
	size := 0
	for _, b := range r.batches {
		size += b.size + 200
	}
	out := wire.AppendHeader(make([]byte, 0, size), int16(protocol.Produce), cluster.ProduceVersion, 1, r.client, false)
	out = wire.AppendInt16(out, -1) // no transaction
	out = wire.AppendInt16(out, -1) // all in-sync replicas
	out = wire.AppendInt32(out, int32(replicating.Milliseconds()))
	out = wire.AppendInt32(out, int32(len(r.batches)))
	now := time.Now()
	for _, b := range r.batches {
		messages := make([]*brokers.Outgoing, len(b.items))
		for i, t := range b.items {
			messages[i] = t.m
		}
		out = wire.AppendString(out, b.topic)
		out = wire.AppendInt32(out, 1)
		out = wire.AppendInt32(out, b.partition)
		at := len(out)
		out = wire.AppendInt32(out, 0)
		out = records.Append(out, messages, now)
		wire.PutInt32(out[at:], int32(len(out)-at-4))
	}
	return wire.Finish(out)
}

func (r *produceRequest) decode(body []byte) (*produceAnswer, error) {
	d := wire.NewReader(body)
	d.Int32() // correlation id
	found := map[string]kafka.Error{}
	for n := d.Count(6); n > 0 && !d.Bad(); n-- {
		topic := d.String()
		for k := d.Count(36); k > 0 && !d.Bad(); k-- {
			partition, code := d.Int32(), kafka.Error(d.Int16())
			d.Take(24) // offset, time, log start
			for e := d.Count(6); e > 0 && !d.Bad(); e-- {
				d.Int32()
				_ = d.String()
			}
			_ = d.String()
			found[fmt.Sprintf("%s/%d", topic, partition)] = code
		}
	}
	if d.Bad() {
		return nil, fmt.Errorf("produce v%d: %w", cluster.ProduceVersion, d.Err())
	}
	a := &produceAnswer{codes: make([]kafka.Error, len(r.batches))}
	for i, b := range r.batches {
		code, ok := found[fmt.Sprintf("%s/%d", b.topic, b.partition)]
		if !ok {
			return nil, fmt.Errorf("produce v%d: the answer leaves out %s/%d", cluster.ProduceVersion, b.topic, b.partition)
		}
		a.codes[i] = code
	}
	return a, nil
}
