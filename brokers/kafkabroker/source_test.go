package kafkabroker_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/brokers"
)

func TestWhatIsPublishedIsDeliveredOnceInOrder(t *testing.T) {
	c := fake(t)
	b := connect(t, quick(c.ListenAddrs()...))
	publish(t, b, "orders", 1000)
	r := open(t, b, spec())
	next := map[int32]int64{}
	seen := map[string]bool{}
	for _, d := range r.take(1000) {
		if d.Offset != next[d.Lane.Partition] {
			t.Fatalf("partition %d: offset %d, expected %d", d.Lane.Partition, d.Offset, next[d.Lane.Partition])
		}
		next[d.Lane.Partition]++
		if !bytes.Equal(d.Key, d.Value) || seen[string(d.Value)] {
			t.Fatalf("key %q, value %q, seen %v", d.Key, d.Value, seen[string(d.Value)])
		}
		seen[string(d.Value)] = true
	}
	if len(next) != 4 {
		t.Fatalf("partitions with messages: %v", next)
	}
}

func TestARestartGoesOnWhereAcknowledgedWithoutAGap(t *testing.T) {
	c := fake(t)
	b := connect(t, quick(c.ListenAddrs()...))
	publish(t, b, "orders", 400)
	r := open(t, b, spec())
	left := map[int32]int64{}
	for _, d := range r.take(400) {
		if d.Offset == 10 {
			left[d.Lane.Partition] = 10
			continue
		}
		if err := r.Ack([]*brokers.Delivery{d}); err != nil {
			t.Fatal(err)
		}
	}
	r.close()
	r = open(t, b, spec())
	for range 4 {
		d := r.take(1)[0]
		if d.Offset < 10 {
			t.Fatalf("partition %d begins again at %d", d.Lane.Partition, d.Offset)
		}
	}
}

// A process that was stopped for longer than its session must not begin on
// what it had read before: somebody else may own the partition by now.
func TestNothingBeginsWithoutALease(t *testing.T) {
	t.Parallel()
	c := fake(t)
	cfg := quick(c.ListenAddrs()...)
	cfg.SessionTimeout = time.Second
	r := open(t, connect(t, cfg), spec())
	silent := make(chan struct{})
	c.ControlKey(12, func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		select {
		case <-silent:
			return nil, nil, false
		default:
			return nil, errors.New("cut"), true
		}
	})
	time.Sleep(1200 * time.Millisecond)
	publish(t, connect(t, quick(c.ListenAddrs()...)), "orders", 20)
	r.none(500 * time.Millisecond)
	close(silent)
	r.take(20)
}

func TestAPartitionWithoutALeaderHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	c := fake(t)
	b := connect(t, quick(c.ListenAddrs()...))
	for p := range int32(4) {
		ms := outgoing(fmt.Sprint("p", p, "-"), p, 5)
		for i := range ms {
			ms[i].Topic = "orders"
		}
		for _, err := range b.Publish(t.Context(), ms) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	// The leader of partition 2 does not know its log yet.
	lead := c.LeaderFor("orders", 2)
	others := 0
	for p := range int32(4) {
		if c.LeaderFor("orders", p) != lead {
			others++
		}
	}
	var elected atomic.Bool
	c.ControlKey(2, func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if elected.Load() || c.CurrentNode() != lead {
			return nil, nil, false
		}
		res := req.ResponseKind().(*kmsg.ListOffsetsResponse)
		for _, rt := range req.(*kmsg.ListOffsetsRequest).Topics {
			st := kmsg.NewListOffsetsResponseTopic()
			st.Topic = rt.Topic
			for _, rp := range rt.Partitions {
				sp := kmsg.NewListOffsetsResponseTopicPartition()
				sp.Partition, sp.ErrorCode = rp.Partition, 78
				st.Partitions = append(st.Partitions, sp)
			}
			res.Topics = append(res.Topics, st)
		}
		return res, nil, true
	})
	r := open(t, b, on("orders"))
	for _, d := range r.take(5 * others) {
		if d.Lane.Partition == 2 {
			t.Fatal("read without a leader")
		}
	}
	elected.Store(true)
	r.take(20 - 5*others)
	// A leader that moves is followed.
	if err := c.MoveTopicPartition("orders", 2, 0); err != nil {
		t.Fatal(err)
	}
	two := int32(2)
	if err := b.Publish(t.Context(), []brokers.Outgoing{{Topic: "orders", Partition: &two, Value: []byte("moved")}})[0]; err != nil {
		t.Fatal(err)
	}
	r.take(1)
}

// Heartbeats are answered while the first round goes on. They do not mean that
// it is over.
func TestWhereToBeginIsCommittedWhenOpenReturns(t *testing.T) {
	t.Parallel()
	c := fake(t, kfake.SleepOutOfOrder())
	c.ControlKey(14, func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		c.SleepControl(func() { time.Sleep(300 * time.Millisecond) })
		return nil, nil, false
	})
	o := newOther(t, c.ListenAddrs())
	o.produce(t, "orders", outgoing("old", 0, 3)...)
	b := connect(t, quick(o.addrs...))
	sp := on("orders")
	sp.StartFrom = brokers.Start{Kind: brokers.StartLatest}
	open(t, b, sp)
	if at := o.committed(t, sp.Consumer, "orders"); at != 3 {
		t.Fatalf("committed %d", at)
	}
}
