package kafkabroker_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/brokers/kafkabroker"
)

// fetched answers a Fetch with no record and one code for each partition.
func fetched(req *kmsg.FetchRequest, code int16) kmsg.Response {
	res := req.ResponseKind().(*kmsg.FetchResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewFetchResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			rp := kmsg.NewFetchResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, code
			rp.HighWatermark, rp.LastStableOffset = p.FetchOffset, p.FetchOffset
			rt.Partitions = append(rt.Partitions, rp)
		}
		res.Topics = append(res.Topics, rt)
	}
	return res
}

func asksAt(req *kmsg.FetchRequest, offset int64) bool {
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			if p.FetchOffset == offset {
				return true
			}
		}
	}
	return false
}

// endsAt makes the log of partition 0 of "one" end there, for who has read it up
// to 10; what follows is new.
func endsAt(c *kfake.Cluster, end int64) {
	c.ControlKey(int16(kmsg.ListOffsets), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req := r.(*kmsg.ListOffsetsRequest)
		if req.Topics[0].Topic != "one" || req.Topics[0].Partitions[0].Timestamp != -1 {
			return nil, nil, false
		}
		res := req.ResponseKind().(*kmsg.ListOffsetsResponse)
		rp := kmsg.NewListOffsetsResponseTopicPartition()
		rp.Offset = end
		rt := kmsg.NewListOffsetsResponseTopic()
		rt.Topic, rt.Partitions = "one", append(rt.Partitions, rp)
		res.Topics = append(res.Topics, rt)
		return res, nil, true
	})
	var told atomic.Bool
	c.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req := r.(*kmsg.FetchRequest)
		if !asksAt(req, 10) || told.Swap(true) {
			return nil, nil, false
		}
		return fetched(req, kerr.OffsetOutOfRange.Code), nil, true
	})
}

// wantGap waits until a gap of a kind is reported, and compares its size.
func (r *reader) wantGap(topic string, kind kafkabroker.GapKind, missing int64) {
	r.t.Helper()
	var gap *kafkabroker.GapError
	eventually(r.t, "the gap is reported", func() bool {
		return errors.As(r.troubles("gap "+topic+"/0"), &gap) && gap.Kind == kind
	})
	if gap.Missing() != missing {
		r.t.Errorf("%d are missing: %v", gap.Missing(), gap)
	}
}

// After an unclean election the log is shorter than what was read of it. A
// position that stayed behind would pass what is written there next.
func TestThePositionGoesBackWithALogThatLostItsEnd(t *testing.T) {
	t.Parallel()
	c := fake(t, kfake.SeedTopics(1, "one"))
	o := newOther(t, c.ListenAddrs())
	sp := on("one")
	r := open(t, connect(t, with(o, kafkabroker.SkipToLatest)), sp)
	o.produce(t, "one", outgoing("m", 0, 10)...)
	if err := r.Ack(r.take(10)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all is committed", func() bool { return o.committed(t, sp.Consumer, "one") == 10 })
	endsAt(c, 4)
	ds := r.take(6)
	if ds[0].Offset != 4 {
		t.Errorf("goes on at %d", ds[0].Offset)
	}
	r.wantGap("one", kafkabroker.PastEnd, 6)
	eventually(t, "the position goes back", func() bool { return o.committed(t, sp.Consumer, "one") == 4 })
	if err := r.Ack(ds[:2]); err != nil {
		t.Error(err)
	}
	eventually(t, "the position goes on", func() bool { return o.committed(t, sp.Consumer, "one") == 6 })
}

// What was being handled of the lost end is gone, and told; nobody has to decide
// anything, since the position is within the log.
func TestALogThatLostItsEndIsReadOnAtThePosition(t *testing.T) {
	t.Parallel()
	c := fake(t, kfake.SeedTopics(1, "one"))
	o := newOther(t, c.ListenAddrs())
	sp := on("one")
	r := open(t, connect(t, with(o, kafkabroker.HoldPartition)), sp)
	o.produce(t, "one", outgoing("m", 0, 10)...)
	ds := r.take(10)
	if err := r.Ack(ds[:2]); err != nil {
		t.Fatal(err)
	}
	eventually(t, "two are committed", func() bool { return o.committed(t, sp.Consumer, "one") == 2 })
	endsAt(c, 4)
	r.wantGap("one", kafkabroker.LostEnd, 6)
	if d := r.take(1)[0]; d.Offset != 2 {
		t.Errorf("goes on at %d", d.Offset)
	}
	if err := r.Ack(ds[9:]); err == nil {
		t.Error("an ack of the lost end is taken")
	}
}

// A new leader may not show the end of its log at once.
func TestADeferredMessageThatIsNotShownYetIsAskedForWithPauses(t *testing.T) {
	t.Parallel()
	c := fake(t, kfake.SeedTopics(1, "one"))
	o := newOther(t, c.ListenAddrs())
	r := open(t, connect(t, quick(o.addrs...)), on("one"))
	o.produce(t, "one", outgoing("m", 0, 10)...)
	ds := r.take(10)
	var asked atomic.Int32
	var shown atomic.Bool
	c.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req := r.(*kmsg.FetchRequest)
		if shown.Load() || !asksAt(req, 7) {
			return nil, nil, false
		}
		asked.Add(1)
		return fetched(req, 0), nil, true
	})
	if err := r.Defer(ds[7:8], 0); err != nil {
		t.Fatal(err)
	}
	r.none(time.Second)
	if n := asked.Load(); n < 1 || n > 20 {
		t.Errorf("asked for it %d times in a second", n)
	}
	shown.Store(true)
	if d := r.take(1)[0]; d.Offset != 7 {
		t.Errorf("offset %d", d.Offset)
	}
}

// Clusters older than Kafka 2.8 do not tell the id of a topic.
func TestAClusterThatBeginsToTellTopicsIDsMakesNoGap(t *testing.T) {
	t.Parallel()
	c := fake(t, kfake.SeedTopics(1, "one"))
	o := newOther(t, c.ListenAddrs())
	o.produce(t, "one", outgoing("m", 0, 10)...)
	sp := on("one")
	text := "onceward/1 " + strings.Repeat("0", 32) + " 1 "
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = sp.Consumer, -1
	rp := kmsg.NewOffsetCommitRequestTopicPartition()
	rp.Offset, rp.Metadata = 5, &text
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.Topic, rt.Partitions = "one", append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	eventually(t, "the commit is taken", func() bool {
		res, err := req.RequestWith(t.Context(), o.client)
		return err == nil && res.Topics[0].Partitions[0].ErrorCode == 0
	})
	r := open(t, connect(t, with(o, kafkabroker.HoldPartition)), sp)
	if d := r.take(1)[0]; d.Offset != 5 || !strings.Contains(d.Lane.Source, "@") {
		t.Errorf("offset %d of %s", d.Offset, d.Lane.Source)
	}
}
