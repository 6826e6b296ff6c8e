package kafkabroker_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/brokertest"
)

func TestConformance(t *testing.T) {
	c := fake(t)
	brokertest.Run(t, harness(t, c.ListenAddrs(), time.Second))
}

// harness runs the suite against any cluster, with franz-go as the other side.
func harness(t *testing.T, addrs []string, session time.Duration) brokertest.Harness {
	o := newOther(t, addrs)
	lines := map[brokers.Broker]*line{}
	var mu sync.Mutex
	return brokertest.Harness{
		Connect: func(t *testing.T) brokers.Broker {
			l := &line{}
			cfg := quick(addrs...)
			cfg.Dial, cfg.SessionTimeout = l.dial, session
			b := connect(t, cfg)
			mu.Lock()
			lines[b] = l
			mu.Unlock()
			return b
		},
		Crash: func(_ *testing.T, b brokers.Broker) {
			mu.Lock()
			defer mu.Unlock()
			lines[b].cut()
			b.Close()
		},
		NewTopic:    func(t *testing.T, n int) string { return o.newTopic(t, n) },
		DeleteTopic: o.deleteTopic,
		Produce:     o.produce,
		Stored:      o.stored,
		DropBelow:   o.deleteBelow,
		LoseConfirmation: func(_ *testing.T, b brokers.Broker, _ string) func() {
			mu.Lock()
			defer mu.Unlock()
			l := lines[b]
			l.lossy.Store(true)
			return func() { l.lossy.Store(false) }
		},
		TooLarge: 2 << 20,
		Takeover: session + time.Second,
		Lacks: map[brokertest.Capability]string{
			brokertest.Deadline: "a partition has one owner, and Kafka no deadline for one message",
			brokertest.Gone:     "a topic may be made again, and others go on: it is reported as degraded",
			brokertest.IDs:      "Kafka knows sequence numbers of a producer, not ids of messages",
		},
	}
}

// line is the way to a cluster for one connection of the adapter.
type line struct {
	via   func(ctx context.Context, network, address string) (net.Conn, error) // nil: the machine's network
	dead  atomic.Bool
	lossy atomic.Bool // answers to Produce do not arrive

	mu    sync.Mutex
	conns []net.Conn
}

func (l *line) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if l.dead.Load() {
		return nil, net.ErrClosed
	}
	dial := l.via
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	c, err := dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, c)
	return &wire{Conn: c, line: l}, nil
}

func (l *line) cut() {
	l.dead.Store(true)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		c.Close()
	}
}

// wire is one connection of a line.
type wire struct {
	net.Conn
	line *line
	lost bool
}

func (w *wire) Write(p []byte) (int, error) {
	if len(p) > 6 && w.line.lossy.Load() && binary.BigEndian.Uint16(p[4:]) == 0 {
		w.lost = true
	}
	return w.Conn.Write(p)
}

func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if err == nil && w.lost {
		w.Conn.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// other is another client of the cluster.
type other struct {
	addrs  []string
	opts   []kgo.Opt
	client *kgo.Client
	topics atomic.Int64
}

func newOther(t testing.TB, addrs []string, opts ...kgo.Opt) *other {
	t.Helper()
	opts = append([]kgo.Opt{
		kgo.SeedBrokers(addrs...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MetadataMinAge(50 * time.Millisecond),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxVersions(kversion.V3_6_0()), // newer ones commit by topic id
	}, opts...)
	c, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &other{addrs: addrs, opts: opts, client: c}
}

var started = time.Now().UnixNano() % 1e9

func (o *other) newTopic(t testing.TB, partitions int, configs ...string) string {
	t.Helper()
	name := fmt.Sprintf("t%d-%d-%d", started, time.Now().UnixNano()%1e6, o.topics.Add(1))
	o.makeTopic(t, name, partitions, configs...)
	return name
}

// makeTopic takes configs as key, value, key, value ...
func (o *other) makeTopic(t testing.TB, name string, partitions int, configs ...string) {
	t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = name, int32(partitions), -1
	for i := 0; i+1 < len(configs); i += 2 {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = configs[i], &configs[i+1]
		rt.Configs = append(rt.Configs, c)
	}
	req.Topics, req.TimeoutMillis = append(req.Topics, rt), 2000 // not longer, since a paused broker may be asked
	// The client would ask whom it has once been told to be the controller, for
	// ever, also when that one is paused; any broker asks the present one.
	seeds, try := o.client.SeedBrokers(), 0
	eventually(t, "topic "+name+" is made", func() bool {
		res, err := req.RequestWith(t.Context(), seeds[try%len(seeds)])
		try++
		// A broker that is paused may have been asked before another one.
		return err == nil && (res.Topics[0].ErrorCode == 0 || kerr.ErrorForCode(res.Topics[0].ErrorCode) == kerr.TopicAlreadyExists)
	})
	eventually(t, "topic "+name, func() bool { return len(o.ends(t, name, -1)) == partitions })
}

func (o *other) deleteTopic(t *testing.T, name string) {
	t.Helper()
	req := kmsg.NewPtrDeleteTopicsRequest()
	rt := kmsg.NewDeleteTopicsRequestTopic()
	rt.Topic = &name
	req.Topics, req.TopicNames, req.TimeoutMillis = append(req.Topics, rt), []string{name}, 5000
	res, err := req.RequestWith(t.Context(), o.client)
	if err == nil {
		err = kerr.ErrorForCode(res.Topics[0].ErrorCode)
	}
	if err != nil {
		t.Fatalf("delete topic %s: %v", name, err)
	}
}

// ends are the offsets of a topic's partitions for a time: -1 latest, -2 earliest.
func (o *other) ends(t testing.TB, topic string, at int64) map[int32]int64 {
	t.Helper()
	meta := kmsg.NewPtrMetadataRequest()
	mt := kmsg.NewMetadataRequestTopic()
	mt.Topic = &topic
	meta.Topics = append(meta.Topics, mt)
	m, err := meta.RequestWith(t.Context(), o.client)
	if err != nil || m.Topics[0].ErrorCode != 0 {
		return nil
	}
	req := kmsg.NewPtrListOffsetsRequest()
	req.IsolationLevel = 1
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = topic
	for _, p := range m.Topics[0].Partitions {
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Partition, rp.Timestamp = p.Partition, at
		rt.Partitions = append(rt.Partitions, rp)
	}
	req.Topics = append(req.Topics, rt)
	ends := map[int32]int64{}
	for _, shard := range o.client.RequestSharded(t.Context(), req) {
		if shard.Err != nil {
			return nil
		}
		for _, p := range shard.Resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions {
			if p.ErrorCode != 0 {
				return nil
			}
			ends[p.Partition] = p.Offset
		}
	}
	return ends
}

func (o *other) produce(t *testing.T, topic string, messages ...brokers.Outgoing) {
	t.Helper()
	var n int32
	eventually(t, "topic "+topic, func() bool { n = int32(len(o.ends(t, topic, -1))); return n > 0 })
	rs := recordsOf(topic, messages)
	for i, m := range messages {
		if m.Partition == nil {
			rs[i].Partition = int32(i) % n
			if len(m.Key) > 0 {
				rs[i].Partition = int32(len(m.Key)+int(m.Key[len(m.Key)-1])) % n
			}
		}
	}
	// A client of its own: one that knows a former topic of that name is slow
	// to see the new one.
	c, err := kgo.NewClient(o.opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.ProduceSync(t.Context(), rs...).FirstErr(); err != nil {
		t.Fatalf("produce to %s: %v", topic, err)
	}
}

func recordsOf(topic string, messages []brokers.Outgoing) (rs []*kgo.Record) {
	for _, m := range messages {
		r := &kgo.Record{Topic: topic, Key: m.Key, Value: m.Value}
		if m.Partition != nil {
			r.Partition = *m.Partition
		}
		for _, h := range m.Headers {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
		rs = append(rs, r)
	}
	return rs
}

// stored reads all of a topic.
func (o *other) stored(t *testing.T, topic string) (all []brokers.Outgoing) {
	t.Helper()
	for _, r := range o.records(t, topic) {
		m := brokers.Outgoing{Topic: topic, Key: r.Key, Value: r.Value, Partition: &r.Partition}
		for _, h := range r.Headers {
			m.Headers = append(m.Headers, brokers.Header{Key: h.Key, Value: h.Value})
		}
		all = append(all, m)
	}
	return all
}

// records reads all committed records of a topic.
func (o *other) records(t testing.TB, topic string) (all []*kgo.Record) {
	t.Helper()
	ends := o.ends(t, topic, -1)
	offsets := map[int32]kgo.Offset{}
	left := map[int32]bool{}
	for p, from := range o.ends(t, topic, -2) {
		offsets[p] = kgo.NewOffset().At(from)
		if ends[p] > from {
			left[p] = true
		}
	}
	c, err := kgo.NewClient(kgo.SeedBrokers(o.addrs...), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: offsets}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(50*time.Millisecond), kgo.KeepControlRecords())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	quiet := 0
	for len(left) > 0 && quiet < 20 {
		got := c.PollFetches(ctx)
		if err := got.Err0(); err != nil {
			t.Fatalf("read %s: %v", topic, err)
		}
		quiet++
		got.EachPartition(func(p kgo.FetchTopicPartition) {
			for _, r := range p.Records {
				quiet = 0
				if r.Offset+1 >= ends[p.Partition] {
					delete(left, p.Partition)
				}
				if !r.Attrs.IsControl() {
					all = append(all, r)
				}
			}
		})
	}
	return all
}
