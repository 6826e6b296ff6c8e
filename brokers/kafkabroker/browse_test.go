package kafkabroker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/kafkabroker"
	"github.com/onceward/onceward/internal/memnet"
)

// shown is what a browse shows.
func shown(seq iter.Seq2[*brokers.Delivery, error]) (all []string, err error) {
	for d, e := range seq {
		if e != nil {
			return all, e
		}
		all = append(all, fmt.Sprintf("%d:%s", d.Lane.Partition, d.Value))
	}
	return all, nil
}

// sameBrowse compares what a browse shows of a topic with what franz-go reads
// of each partition.
func sameBrowse(t *testing.T, o *other, topic string, want map[int32][]*kgo.Record) {
	t.Helper()
	b := connect(t, quick(o.addrs...)).(kafkabroker.Broker)
	began := time.Now()
	at := map[int32]int{}
	for d, err := range b.Browse(t.Context(), topic, brokers.From{}) {
		if err != nil {
			t.Fatalf("browse: %v", err)
		}
		p := d.Lane.Partition
		if at[p] == len(want[p]) {
			t.Fatalf("browse of partition %d: offset %d is one too many", p, d.Offset)
		}
		w := want[p][at[p]]
		at[p]++
		if d.Offset != w.Offset || !bytes.Equal(d.Key, w.Key) || !bytes.Equal(d.Value, w.Value) || !d.Time.Equal(w.Timestamp) || len(d.Headers) != len(w.Headers) {
			t.Fatalf("browse of partition %d: offset %d key %q value %q at %v,\nwant offset %d key %q value %q at %v", p, d.Offset, d.Key, d.Value, d.Time, w.Offset, w.Key, w.Value, w.Timestamp)
		}
	}
	for p, rs := range want {
		if at[p] != len(rs) {
			t.Errorf("browse of partition %d: %d of %d", p, at[p], len(rs))
		}
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the browse took %v", took)
	}
}

// The last offsets of the log are markers, and an open transaction holds back
// what follows it.
func TestABrowseShowsWhatIsCommittedAndEnds(t *testing.T) {
	t.Parallel()
	o := newOther(t, fake(t).ListenAddrs())
	topic := o.newTopic(t, 1)
	producer := func(id string) *kgo.Client {
		c, err := kgo.NewClient(kgo.SeedBrokers(o.addrs...), kgo.TransactionalID(id), kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(0))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	begin := func(c *kgo.Client, values ...string) {
		t.Helper()
		if err := c.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for _, v := range values {
			if err := c.ProduceSync(t.Context(), &kgo.Record{Value: []byte(v)}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	end := func(c *kgo.Client, how kgo.TransactionEndTry) {
		t.Helper()
		if err := c.EndTransaction(t.Context(), how); err != nil {
			t.Fatal(err)
		}
	}
	b := connect(t, quick(o.addrs...)).(kafkabroker.Broker)
	want := func(values ...string) {
		t.Helper()
		for i := range values {
			values[i] = "0:" + values[i]
		}
		eventually(t, strings.Join(values, " "), func() bool {
			began := time.Now()
			all, err := shown(b.Browse(t.Context(), topic, brokers.From{}))
			if err != nil || time.Since(began) > 5*time.Second {
				t.Fatalf("%v, %v after %v", all, err, time.Since(began))
			}
			return slices.Equal(all, values)
		})
	}
	x, y := producer("x"), producer("y")
	begin(x, "a", "b")
	end(x, kgo.TryCommit)
	want("a", "b")
	begin(x, "no")
	end(x, kgo.TryAbort)
	want("a", "b")
	begin(x, "c")
	begin(y, "d")
	o.produce(t, topic, outgoing("plain", 0, 1)...)
	end(y, kgo.TryCommit)
	want("a", "b") // c is not decided, so nothing behind it is shown
	end(x, kgo.TryAbort)
	want("a", "b", "d", "plain0")
}

func TestABrowseOutlivesAClusterThatIsAwayForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := memnet.New()
		c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "orders"), kfake.ListenFn(network.Listen))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		l := &line{via: network.DialContext}
		cfg := quick(c.ListenAddrs()...)
		cfg.Dial = l.dial
		b, err := kafkabroker.Connect(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		const n = 3000
		var ms []brokers.Outgoing
		for i := range n {
			ms = append(ms, brokers.Outgoing{Topic: "orders", Key: fmt.Append(nil, i), Value: slices.Concat(fmt.Append(nil, i, " "), make([]byte, 2000))})
		}
		for _, err := range b.Publish(t.Context(), ms) {
			if err != nil {
				t.Fatal(err)
			}
		}
		browse := func(away time.Duration) (seen map[string]int, took time.Duration, err error) {
			seen = map[string]int{}
			began := time.Now()
			for d, e := range b.Browse(t.Context(), "orders", brokers.From{}) {
				if e != nil {
					err = e
					break
				}
				number, _, _ := strings.Cut(string(d.Value), " ")
				if seen[number]++; len(seen) == n/2 && took == 0 {
					l.cut()
					took, began = 1, time.Now()
					time.AfterFunc(away, func() { l.dead.Store(false) })
				}
			}
			return seen, time.Since(began), err
		}
		seen, took, err := browse(20 * time.Second)
		if err != nil || len(seen) != n || took < 20*time.Second || took > 25*time.Second {
			t.Errorf("%d of %d after %v, %v", len(seen), n, took, err)
		}
		for number, times := range seen {
			if times != 1 {
				t.Errorf("%s is shown %d times", number, times)
			}
		}
		if seen, took, err := browse(time.Hour); err == nil || took < 30*time.Second || took > 40*time.Second || len(seen) == n {
			t.Errorf("away for good: %d of %d after %v, %v", len(seen), n, took, err)
		}
		l.cut()
		b.Close()
		if _, err := shown(b.Browse(t.Context(), "orders", brokers.From{})); !errors.Is(err, brokers.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// What the log lost while it was read, at either end, is not waited for.
func TestABrowsePassesWhatIsDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	o := newOther(t, fake(t).ListenAddrs())
	topic := o.newTopic(t, 2)
	var ms []brokers.Outgoing
	for _, m := range outgoing("m", 0, 400) {
		m.Value = slices.Concat(m.Value, make([]byte, 4000))
		ms = append(ms, m)
	}
	o.produce(t, topic, ms...)
	o.produce(t, topic, outgoing("next", 1, 1)...)
	b := connect(t, quick(o.addrs...)).(kafkabroker.Broker)
	var offsets []int64
	last := ""
	for d, err := range b.Browse(t.Context(), topic, brokers.From{}) {
		if err != nil {
			t.Fatal(err)
		}
		offsets, last = append(offsets, d.Offset), string(d.Value)
		if len(offsets) == 10 {
			o.deleteBelow(t, topic, 390)
		}
	}
	if n := len(offsets); n < 21 || n > 300 || offsets[n-2] != 399 || last != "next0" {
		t.Errorf("%d are shown, the last ones %v %q", n, offsets[max(0, n-3):], last)
	}
	// Made again, it is another topic.
	last = ""
	var fault error
	n := 0
	for d, err := range b.Browse(t.Context(), topic, brokers.From{}) {
		if n++; n == 1 {
			o.deleteTopic(t, topic)
			eventually(t, "the topic can be made again", func() bool { return o.tryTopic(t, topic, 2) })
			o.produce(t, topic, outgoing("new", 0, 500)...)
		}
		if fault = err; err == nil {
			last = string(d.Value)
		}
	}
	if !errors.Is(fault, brokers.ErrNoDestination) || strings.HasPrefix(last, "new") {
		t.Errorf("made again: %v, after %q", fault, last)
	}
}

// Of an end that compaction has emptied a leader says again and again that
// there is nothing.
func TestABrowseEndsWhereTheBrokerGivesNoMore(t *testing.T) {
	t.Parallel()
	c := fake(t)
	o := newOther(t, c.ListenAddrs())
	topic := o.newTopic(t, 1)
	o.produce(t, topic, outgoing("m", 0, 10)...)
	c.ControlKey(int16(kmsg.ListOffsets), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req := r.(*kmsg.ListOffsetsRequest)
		if req.Topics[0].Topic != topic || req.Topics[0].Partitions[0].Timestamp != -1 {
			return nil, nil, false
		}
		res := req.ResponseKind().(*kmsg.ListOffsetsResponse)
		rp := kmsg.NewListOffsetsResponseTopicPartition()
		rp.Offset = 15
		rt := kmsg.NewListOffsetsResponseTopic()
		rt.Topic, rt.Partitions = topic, append(rt.Partitions, rp)
		res.Topics = append(res.Topics, rt)
		return res, nil, true
	})
	c.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req := r.(*kmsg.FetchRequest)
		if !asksAt(req, 10) {
			return nil, nil, false
		}
		res := fetched(req, 0).(*kmsg.FetchResponse)
		p := &res.Topics[0].Partitions[0]
		p.HighWatermark, p.LastStableOffset = 15, 15
		return res, nil, true
	})
	b := connect(t, quick(o.addrs...)).(kafkabroker.Broker)
	began := time.Now()
	all, err := shown(b.Browse(t.Context(), topic, brokers.From{}))
	if err != nil || len(all) != 10 || time.Since(began) > 10*time.Second {
		t.Errorf("%v, %v after %v", all, err, time.Since(began))
	}
}

func TestABrowseWithoutRightsSaysSo(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]kmsg.Key{"to read": kmsg.Fetch, "to see": kmsg.Metadata} {
		c := fake(t)
		o := newOther(t, c.ListenAddrs())
		topic := o.newTopic(t, 1)
		o.produce(t, topic, outgoing("m", 0, 3)...)
		b := connect(t, quick(o.addrs...)).(kafkabroker.Broker)
		c.ControlKey(int16(key), func(r kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()
			switch req := r.(type) {
			case *kmsg.FetchRequest:
				return fetched(req, kerr.TopicAuthorizationFailed.Code), nil, true
			case *kmsg.MetadataRequest:
				if len(req.Topics) == 0 {
					return nil, nil, false
				}
				res := req.ResponseKind().(*kmsg.MetadataResponse)
				rt := kmsg.NewMetadataResponseTopic()
				rt.Topic, rt.ErrorCode = &topic, kerr.TopicAuthorizationFailed.Code
				res.Topics = append(res.Topics, rt)
				return res, nil, true
			}
			return nil, nil, false
		})
		all, err := shown(b.Browse(t.Context(), topic, brokers.From{}))
		if !errors.Is(err, brokers.ErrUnauthorized) || len(all) > 0 || !strings.Contains(err.Error(), topic) {
			t.Errorf("%s: %v, %v", name, all, err)
		}
		if key != kmsg.Metadata {
			continue
		}
		infos, err := b.Inspect(t.Context(), []string{topic})
		if want := (brokers.TopicInfo{Topic: topic, Hidden: true, Messages: -1}); err != nil || infos[0] != want {
			t.Errorf("%+v, %v", infos, err)
		}
	}
}

func TestATopicIsDescribed(t *testing.T) {
	t.Parallel()
	o := newOther(t, fake(t).ListenAddrs())
	kept := o.newTopic(t, 3, "retention.ms", "3600000", "retention.bytes", "1000000", "max.message.bytes", "5000", "min.insync.replicas", "2")
	forEver := o.newTopic(t, 1, "retention.ms", "-1", "retention.bytes", "-1")
	compacted := o.newTopic(t, 1, "cleanup.policy", "compact", "retention.ms", "3600000")
	o.produce(t, kept, outgoing("m", 1, 5)...)
	b := connect(t, quick(o.addrs...)).(kafkabroker.Broker)
	got, err := b.Inspect(t.Context(), []string{kept, forEver, compacted})
	if err != nil {
		t.Fatal(err)
	}
	if k := got[0]; k.MaxAge != time.Hour || k.MaxBytes != 1_000_000 || k.MaxMessage != 5000 || k.InSync != 2 || k.Partitions != 3 || k.Replicas != 3 || k.Messages != 5 || k.Compacted || !k.DropsOld {
		t.Errorf("kept: %+v", k)
	}
	if k := got[1]; k.MaxAge != 0 || k.MaxBytes != 0 || k.MaxMessage == 0 || k.Compacted || k.Hidden {
		t.Errorf("for ever: %+v", k)
	}
	if k := got[2]; k.MaxAge != 0 || !k.Compacted {
		t.Errorf("compacted: %+v", k)
	}
}

func TestATopicWithoutALeaderIsDescribedOnceItHasOne(t *testing.T) {
	t.Parallel()
	c := fake(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "one"))
	b := connect(t, quick(c.ListenAddrs()...)).(kafkabroker.Broker)
	var leaderless atomic.Int32
	c.ControlKey(int16(kmsg.Metadata), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req := r.(*kmsg.MetadataRequest)
		if len(req.Topics) == 0 || leaderless.Add(-1) < 0 {
			return nil, nil, false
		}
		res := req.ResponseKind().(*kmsg.MetadataResponse)
		for _, topic := range req.Topics {
			rt := kmsg.NewMetadataResponseTopic()
			rt.Topic, rt.ErrorCode = topic.Topic, kerr.LeaderNotAvailable.Code
			res.Topics = append(res.Topics, rt)
		}
		return res, nil, true
	})
	leaderless.Store(3)
	infos, err := b.Inspect(t.Context(), []string{"one"})
	if err != nil || infos[0].Partitions != 1 {
		t.Fatalf("%+v, %v", infos, err)
	}
	leaderless.Store(1_000_000)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := b.Inspect(ctx, []string{"one"}); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), `topic "one"`) {
		t.Errorf("a topic that stays without a leader: %v", err)
	}
}
