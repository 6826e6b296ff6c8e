//go:build servers

package kafkabroker_test

import (
	"bytes"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/brokers"
)

// sameRecords reads a topic to its end, and compares it record by record with
// what franz-go reads of it.
func sameRecords(t *testing.T, o *other, topic string) {
	t.Helper()
	// The end of a transaction is written after it was confirmed.
	var ends map[int32]int64
	eventually(t, "the end stands still", func() bool {
		ends = o.ends(t, topic, -1)
		time.Sleep(500 * time.Millisecond)
		return ends != nil && maps.Equal(ends, o.ends(t, topic, -1))
	})
	want := map[int32][]*kgo.Record{}
	n := 0
	for _, r := range o.records(t, topic) {
		want[r.Partition] = append(want[r.Partition], r)
		n++
	}
	sp := spec()
	sp.Consumer, sp.Topics = fmt.Sprint("c", time.Now().UnixNano()), []string{topic}
	r := open(t, connect(t, quick(o.addrs...)), sp)
	at := map[int32]int{}
	for _, d := range r.take(n) {
		p := d.Lane.Partition
		if at[p] == len(want[p]) {
			t.Fatalf("partition %d: offset %d is one too many", p, d.Offset)
		}
		w := want[p][at[p]]
		at[p]++
		if d.Offset != w.Offset || !bytes.Equal(d.Key, w.Key) || !bytes.Equal(d.Value, w.Value) || !d.Time.Equal(w.Timestamp) || len(d.Headers) != len(w.Headers) {
			t.Fatalf("partition %d: offset %d key %q value %q at %v,\nwant offset %d key %q value %q at %v", p, d.Offset, d.Key, d.Value, d.Time, w.Offset, w.Key, w.Value, w.Timestamp)
		}
		for i, h := range d.Headers {
			if h.Key != w.Headers[i].Key || !bytes.Equal(h.Value, w.Headers[i].Value) {
				t.Fatalf("offset %d: header %q", d.Offset, h.Key)
			}
		}
		if err := r.Ack([]*brokers.Delivery{d}); err != nil {
			t.Fatal(err)
		}
	}
	r.none(500 * time.Millisecond)
	sameBrowse(t, o, topic, want)
	// At the end nothing is left, markers and emptied batches included.
	fs, err := r.Floors(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fs {
		if !f.Lane.Retry && (f.Lag != 0 || f.Next != ends[f.Lane.Partition]) {
			t.Errorf("partition %d: next %d, lag %d; the end is %d", f.Lane.Partition, f.Next, f.Lag, ends[f.Lane.Partition])
		}
	}
}

func transactional(t *testing.T, o *other, id string) *kgo.Client {
	c, err := kgo.NewClient(kgo.SeedBrokers(o.addrs...), kgo.TransactionalID(id+fmt.Sprint(time.Now().UnixNano())),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func send(t *testing.T, c *kgo.Client, topic string, values ...string) {
	t.Helper()
	for i, v := range values {
		r := &kgo.Record{Topic: topic, Partition: int32(i % 2), Value: []byte(v), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte(v)}}}
		if err := c.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCommittedAbortedAndOpenTransactions(t *testing.T) {
	o := newOther(t, server(t))
	topic := o.newTopic(t, 2)
	a, b := transactional(t, o, "a"), transactional(t, o, "b")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	finish := func(c *kgo.Client, how kgo.TransactionEndTry) { t.Helper(); must(c.EndTransaction(t.Context(), how)) }
	for i := range 6 {
		must(a.BeginTransaction())
		must(b.BeginTransaction())
		send(t, a, topic, fmt.Sprint("a", i), fmt.Sprint("a", i), fmt.Sprint("a", i))
		send(t, b, topic, fmt.Sprint("b", i), fmt.Sprint("b", i))
		send(t, o.client, topic, fmt.Sprint("plain", i))
		send(t, a, topic, fmt.Sprint("a'", i))
		finish(b, kgo.TransactionEndTry(i%3 == 0))
		finish(a, kgo.TransactionEndTry(i%2 == 0))
	}
	// The last ones are aborted: the log ends with markers.
	sameRecords(t, o, topic)
	must(a.BeginTransaction())
	send(t, a, topic, "open", "open")
	send(t, o.client, topic, "behind", "behind")
	sameRecords(t, o, topic) // to the last stable offset
	finish(a, kgo.TryCommit)
	sameRecords(t, o, topic)
}

func TestEveryCodecOfARealBroker(t *testing.T) {
	for name, codec := range map[string]kgo.CompressionCodec{
		"gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	} {
		t.Run(name, func(t *testing.T) {
			o := newOther(t, server(t), kgo.ProducerBatchCompression(codec), kgo.ProducerLinger(20*time.Millisecond))
			// Half of it is compressed again by the broker.
			for _, config := range []string{"producer", name} {
				topic := o.newTopic(t, 2, "compression.type", config)
				var ms []brokers.Outgoing
				for i := range 500 {
					ms = append(ms, brokers.Outgoing{Key: fmt.Append(nil, i), Value: bytes.Repeat([]byte{byte(i)}, i), Headers: []brokers.Header{{Key: "n", Value: fmt.Append(nil, i)}}})
				}
				o.produce(t, topic, ms...)
				sameRecords(t, o, topic)
			}
		})
	}
}

func TestTheBrokersTimeWhereTheTopicKeepsIt(t *testing.T) {
	o := newOther(t, server(t))
	topic := o.newTopic(t, 2, "message.timestamp.type", "LogAppendTime")
	old := time.Now().Add(-24 * time.Hour)
	for i := range 20 {
		r := &kgo.Record{Topic: topic, Partition: int32(i % 2), Value: []byte("v"), Timestamp: old}
		if err := o.client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	sameRecords(t, o, topic)
	sp := spec()
	sp.Consumer, sp.Topics = fmt.Sprint("c", time.Now().UnixNano()), []string{topic}
	if d := open(t, connect(t, quick(o.addrs...)), sp).take(1)[0]; time.Since(d.Time) > time.Minute {
		t.Errorf("stored at %v", d.Time)
	}
}

// Batches that compaction has emptied end a segment, where other readers stop
// for good.
func TestCompactedTopics(t *testing.T) {
	o := newOther(t, server(t))
	const never = "3600000" // while it is compared, the log stands still
	topic := o.newTopic(t, 1, "cleanup.policy", "compact", "segment.ms", "100", "min.cleanable.dirty.ratio", "0.01", "delete.retention.ms", "0", "min.compaction.lag.ms", never)
	keyed := func(key string, value []byte) {
		t.Helper()
		r := &kgo.Record{Topic: topic, Key: []byte(key), Value: value}
		if err := o.client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	roll := func() { time.Sleep(150 * time.Millisecond) } // the next message begins a segment
	for round := range 4 {
		for i := range 12 {
			keyed(fmt.Sprint("k", i%3), fmt.Append(nil, round, i))
		}
		roll()
	}
	tx := transactional(t, o, "compact")
	for _, how := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
		if err := tx.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := tx.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Key: []byte("k0"), Value: []byte("tx")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := tx.EndTransaction(t.Context(), how); err != nil {
			t.Fatal(err)
		}
		roll()
	}
	keyed("k1", nil)
	roll()
	keyed("last", []byte("v"))
	sameRecords(t, o, topic)
	o.alter(t, topic, "min.compaction.lag.ms", "0")
	all := len(o.records(t, topic))
	// The cleaner looks each second, and at the dirtiest logs first.
	// It takes closed segments only, and a message more closes the last one.
	for end := time.Now().Add(3 * time.Minute); len(o.records(t, topic)) >= all; time.Sleep(time.Second) {
		if time.Now().After(end) {
			t.Fatal("the log is not compacted")
		}
		keyed("last", []byte("v"))
		all++
	}
	o.alter(t, topic, "min.compaction.lag.ms", never)
	eventually(t, "the log stands still", func() bool {
		before := len(o.records(t, topic))
		time.Sleep(2 * time.Second) // the cleaner looks each second
		return len(o.records(t, topic)) == before
	})
	sameRecords(t, o, topic)
}

// alter changes one setting of a topic.
func (o *other) alter(t *testing.T, topic, name, value string) {
	t.Helper()
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	c.Name, c.Value, c.Op = name, &value, kmsg.IncrementalAlterConfigOpSet
	rr := kmsg.NewIncrementalAlterConfigsRequestResource()
	rr.ResourceType, rr.ResourceName, rr.Configs = kmsg.ConfigResourceTypeTopic, topic, append(rr.Configs, c)
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = append(req.Resources, rr)
	res, err := req.RequestWith(t.Context(), o.client)
	if err == nil {
		err = kerr.ErrorForCode(res.Resources[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
}
