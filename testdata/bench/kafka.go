package main

import (
	"fmt"
	"hash/fnv"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	partitions = 4
	deadTopic  = "watermill-dead"
)

func init() {
	cases["kafka-reader"] = func(m *meter) { kafkaReader(m, func(kafka.Message) bool { return true }) }
	cases["kafka-reader-latency"] = func(m *meter) {
		p := kafkaPaced(m)
		kafkaReader(m, func(x kafka.Message) bool { return p.arrived(kafkaHeader(x, atHeader)) })
	}
}

func kafkaProducer(opts ...kgo.Opt) *kgo.Client {
	p, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(*kafkaAt), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedRecords(50000),
	}, opts...)...)
	must(err)
	return p
}

func kafkaTopic(name string, partitions int32) {
	p := kafkaProducer()
	defer p.Close()
	r, err := kadm.NewClient(p).CreateTopic(ctx, partitions, 1, nil, name)
	must(err)
	must(r.Err)
}

func partitionOf(id string) int32 {
	h := fnv.New32a()
	h.Write([]byte(id))
	return int32(h.Sum32() % partitions)
}

// kafkaFill makes a topic with count orders.
func kafkaFill(topic string, count int) {
	kafkaTopic(topic, partitions)
	p := kafkaProducer(kgo.ProducerLinger(20 * time.Millisecond))
	defer p.Close()
	orders(count, func(_ int, o order) {
		r := &kgo.Record{
			Topic: topic, Partition: partitionOf(o.id), Key: []byte(o.id), Value: o.value, Headers: []kgo.RecordHeader{{Key: idHeader, Value: []byte(o.id)}},
		}
		if o.bad {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: badHeader, Value: []byte("1")})
		}
		p.Produce(ctx, r, func(_ *kgo.Record, err error) { must(err) })
	})
	must(p.Flush(ctx))
}

func kafkaHeader(x kafka.Message, name string) string {
	for _, h := range x.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	panic("no header " + name)
}

// kafkaReader is the loop of the README: fetch, handle, commit in the
// background each second. handle says whether a message counts.
func kafkaReader(m *meter, handle func(kafka.Message) bool) {
	r := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{*kafkaAt}, GroupID: freshName(), Topic: *stream, CommitInterval: time.Second})
	for k := 0; k < *n; {
		x, err := r.FetchMessage(ctx)
		must(err)
		m.first()
		if kafkaHeader(x, idHeader) == "" {
			panic("no id")
		}
		if handle(x) {
			k++
		}
		must(r.CommitMessages(ctx, x))
	}
	m.last(*n)
}

// kafkaPaced makes a topic of its own and publishes into it.
func kafkaPaced(m *meter) *pacer {
	*stream = fmt.Sprintf("latency-%d", time.Now().UnixNano())
	kafkaTopic(*stream, partitions)
	p := kafkaProducer()
	topic := *stream
	return pace(m, func(id, seq string, value []byte) {
		p.Produce(ctx, &kgo.Record{
			Topic: topic, Partition: partitionOf(id), Key: []byte(id), Value: value,
			Headers: []kgo.RecordHeader{{Key: idHeader, Value: []byte(id)}, {Key: atHeader, Value: []byte(seq)}},
		}, func(_ *kgo.Record, err error) { must(err) })
	})
}
