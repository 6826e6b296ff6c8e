package kafkabroker_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/kafkabroker"
)

// scenarios hold on any cluster: the in-process one and a real one.
var scenarios = map[string]func(*testing.T, *other){
	"DeletedBelowThePosition":          deletedBelow,
	"DeletedWhileReading":              deletedWhileReading,
	"APositionPastTheEnd":              pastTheEnd,
	"ATopicMadeAgainWhileRunning":      madeAgain,
	"ATopicMadeAgainBetweenRuns":       madeAgainBetweenRuns,
	"PartitionsAreAdded":               partitionsAdded,
	"OneOfTwoTopicsComesLater":         topicComesLater,
	"NoTopicAtAll":                     noTopic,
	"DestinationsAreMissing":           destinationsMissing,
	"DestinationsThatWouldLose":        destinationsUnfit,
	"AnOversizeMessageFailsAlone":      oversizeAlone,
	"ADestinationThatComesLater":       destinationLater,
	"AGroupOfOtherSoftware":            foreignGroup,
	"LatestDoesNotSkipAddedPartitions": latestAndGrowth,
	"WaitingCopiesThatAreGone":         copiesGone,
}

func TestScenarios(t *testing.T) {
	t.Parallel()
	for name, f := range scenarios {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, newOther(t, fake(t).ListenAddrs()))
		})
	}
}

// on is a spec of a consumer of its own.
func on(topics ...string) brokers.Spec {
	sp := spec()
	sp.Consumer, sp.Topics = fmt.Sprint("c", time.Now().UnixNano()), topics
	return sp
}

func outgoing(prefix string, partition int32, n int) (ms []brokers.Outgoing) {
	for i := range n {
		ms = append(ms, brokers.Outgoing{Value: fmt.Append(nil, prefix, i), Partition: &partition})
	}
	return ms
}

// deleteBelow deletes the records of partition 0 below an offset.
func (o *other) deleteBelow(t *testing.T, topic string, offset int64) {
	t.Helper()
	req := kmsg.NewPtrDeleteRecordsRequest()
	rt := kmsg.NewDeleteRecordsRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewDeleteRecordsRequestTopicPartition()
	rp.Offset = offset
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics, req.TimeoutMillis = append(req.Topics, rt), 5000
	for _, shard := range o.client.RequestSharded(t.Context(), req) {
		if shard.Err != nil {
			t.Fatal(shard.Err)
		}
		if code := shard.Resp.(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0].ErrorCode; code != 0 {
			t.Fatal(kerr.ErrorForCode(code))
		}
	}
}

// commit writes a group's position as an operator would, with nobody in it.
func (o *other) commit(t *testing.T, group, topic string, offset int64) {
	t.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = group, -1
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewOffsetCommitRequestTopicPartition()
	rp.Offset = offset
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	eventually(t, "the commit is taken", func() bool {
		res, err := req.RequestWith(t.Context(), o.client)
		return err == nil && res.Topics[0].Partitions[0].ErrorCode == 0
	})
}

// committed is a group's position on partition 0, -1 when there is none.
func (o *other) committed(t *testing.T, group, topic string) int64 {
	t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = group
	rt := kmsg.NewOffsetFetchRequestTopic()
	rt.Topic, rt.Partitions = topic, []int32{0}
	req.Topics = append(req.Topics, rt)
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	gt := kmsg.NewOffsetFetchRequestGroupTopic()
	gt.Topic, gt.Partitions = topic, []int32{0}
	g.Topics = append(g.Topics, gt)
	req.Groups = append(req.Groups, g)
	res, err := req.RequestWith(t.Context(), o.client)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range res.Groups {
		for _, t := range g.Topics {
			return t.Partitions[0].Offset
		}
	}
	for _, t := range res.Topics {
		return t.Partitions[0].Offset
	}
	return -1
}

// gap waits until a gap is reported on partition 0.
func (r *reader) gap(topic string) *kafkabroker.GapError {
	r.t.Helper()
	var gap *kafkabroker.GapError
	eventually(r.t, "a gap is reported", func() bool { return errors.As(r.troubles("gap "+topic+"/0"), &gap) })
	return gap
}

func with(o *other, policy kafkabroker.OnGap) kafkabroker.Config {
	cfg := quick(o.addrs...)
	cfg.OnGap = policy
	return cfg
}

func deletedBelow(t *testing.T, o *other) {
	topic := o.newTopic(t, 1)
	o.produce(t, topic, outgoing("m", 0, 100)...)
	sp := on(topic)
	r := open(t, connect(t, with(o, kafkabroker.HoldPartition)), sp)
	if err := r.Ack(r.take(10)); err != nil {
		t.Fatal(err)
	}
	r.close()
	o.deleteBelow(t, topic, 40)
	// Held, at every start, and the position is not moved.
	for range 2 {
		r = open(t, connect(t, with(o, kafkabroker.HoldPartition)), sp)
		if g := r.gap(topic); g.Kind != kafkabroker.BelowStart || g.Missing() != 30 || g.Position != 10 || g.Start != 40 {
			t.Errorf("gap %+v", g)
		}
		r.none(300 * time.Millisecond)
		r.close()
		if at := o.committed(t, sp.Consumer, topic); at != 10 {
			t.Errorf("the position went to %d", at)
		}
	}
	r = open(t, connect(t, with(o, kafkabroker.SkipToEarliest)), sp)
	if g := r.gap(topic); g.Missing() != 30 || g.Policy != kafkabroker.SkipToEarliest {
		t.Errorf("gap %+v", g)
	}
	if d := r.take(1)[0]; d.Offset != 40 {
		t.Errorf("goes on at %d", d.Offset)
	}
}

func deletedWhileReading(t *testing.T, o *other) {
	topic := o.newTopic(t, 1)
	o.produce(t, topic, outgoing("m", 0, 5)...)
	sp := on(topic)
	r := open(t, connect(t, with(o, kafkabroker.SkipToLatest)), sp)
	lane := r.take(5)[0].Lane
	r.Pause(lane, true)
	time.Sleep(400 * time.Millisecond) // the last fetch ends
	o.produce(t, topic, outgoing("n", 0, 20)...)
	o.deleteBelow(t, topic, 15)
	r.Pause(lane, false)
	if g := r.gap(topic); g.Kind != kafkabroker.BelowStart || g.Missing() != 10 || g.Position != 5 {
		t.Errorf("gap %+v", g)
	}
	o.produce(t, topic, outgoing("later", 0, 1)...)
	if d := r.take(1)[0]; string(d.Value) != "later0" || d.Offset != 25 {
		t.Errorf("goes on with %s at %d", d.Value, d.Offset)
	}
}

func pastTheEnd(t *testing.T, o *other) {
	topic := o.newTopic(t, 1)
	o.produce(t, topic, outgoing("m", 0, 10)...)
	// In this order: the last one adds a message to the topic.
	for _, c := range []struct {
		policy kafkabroker.OnGap
		want   int64
	}{{kafkabroker.HoldPartition, -1}, {kafkabroker.SkipToEarliest, 0}, {kafkabroker.SkipToLatest, 10}} {
		policy, want := c.policy, c.want
		sp := on(topic)
		o.commit(t, sp.Consumer, topic, 200)
		r := open(t, connect(t, with(o, policy)), sp)
		if g := r.gap(topic); g.Kind != kafkabroker.PastEnd || g.Missing() != 190 {
			t.Errorf("%v: gap %+v", policy, g)
		}
		switch policy {
		case kafkabroker.HoldPartition:
			r.none(300 * time.Millisecond)
			continue
		case kafkabroker.SkipToLatest:
			r.none(300 * time.Millisecond)
			o.produce(t, topic, outgoing("new", 0, 1)...)
		}
		if d := r.take(1)[0]; d.Offset != want {
			t.Errorf("%v: goes on at %d", policy, d.Offset)
		}
		r.close()
	}
}

func madeAgain(t *testing.T, o *other) {
	for _, policy := range []kafkabroker.OnGap{kafkabroker.HoldPartition, kafkabroker.SkipToEarliest} {
		topic := o.newTopic(t, 1)
		o.produce(t, topic, outgoing("old", 0, 20)...)
		sp := on(topic)
		r := open(t, connect(t, with(o, policy)), sp)
		ds := r.take(20)
		if err := r.Ack(ds); err != nil {
			t.Fatal(err)
		}
		was := ds[0].Lane
		o.deleteTopic(t, topic)
		time.Sleep(50 * time.Millisecond)
		eventually(t, "the topic can be made again", func() bool { return o.tryTopic(t, topic, 1) })
		o.produce(t, topic, outgoing("new", 0, 30)...)
		if g := r.gap(topic); g.Kind != kafkabroker.TopicMadeAgain {
			t.Errorf("gap %+v", g)
		}
		if err := r.Ack(ds[:1]); err == nil {
			t.Error("an ack of the former topic is taken")
		}
		if policy == kafkabroker.HoldPartition {
			r.none(300 * time.Millisecond)
			if at := o.committed(t, sp.Consumer, topic); at > 0 {
				t.Errorf("position %d in the new topic", at)
			}
			r.close()
			continue
		}
		for i, d := range r.take(30) {
			if d.Offset != int64(i) || !strings.HasPrefix(string(d.Value), "new") || d.Lane == was || d.Lane.Source == was.Source {
				t.Fatalf("%d: %s at %d of %s", i, d.Value, d.Offset, d.Lane.Source)
			}
		}
		r.close()
	}
}

func (o *other) tryTopic(t *testing.T, name string, partitions int) bool {
	t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = name, int32(partitions), -1
	req.Topics = append(req.Topics, rt)
	res, err := req.RequestWith(t.Context(), o.client)
	if err != nil || res.Topics[0].ErrorCode != 0 {
		return false
	}
	eventually(t, "topic "+name, func() bool { return len(o.ends(t, name, -1)) == partitions })
	return true
}

// Between runs the cluster drops the group's positions with the topic. A
// position that a member wrote into the new one is found by the topic's id.
func madeAgainBetweenRuns(t *testing.T, o *other) {
	topic := o.newTopic(t, 1)
	o.produce(t, topic, outgoing("old", 0, 20)...)
	sp := on(topic)
	r := open(t, connect(t, with(o, kafkabroker.HoldPartition)), sp)
	if err := r.Ack(r.take(20)); err != nil {
		t.Fatal(err)
	}
	r.close()
	o.deleteTopic(t, topic)
	time.Sleep(50 * time.Millisecond)
	eventually(t, "the topic can be made again", func() bool { return o.tryTopic(t, topic, 1) })
	o.produce(t, topic, outgoing("new", 0, 30)...)
	r = open(t, connect(t, with(o, kafkabroker.HoldPartition)), sp)
	eventually(t, "a gap, or from the beginning", func() bool {
		return r.troubles("gap "+topic+"/0") != nil || r.owns() == 1
	})
	if r.troubles("gap "+topic+"/0") == nil {
		if d := r.take(1)[0]; d.Offset != 0 || string(d.Value) != "new0" {
			t.Errorf("begins with %s at %d", d.Value, d.Offset)
		}
	}
}

// grow adds partitions.
func (o *other) grow(t *testing.T, topic string, n int) {
	t.Helper()
	req := kmsg.NewPtrCreatePartitionsRequest()
	rt := kmsg.NewCreatePartitionsRequestTopic()
	rt.Topic, rt.Count = topic, int32(n)
	req.Topics, req.TimeoutMillis = append(req.Topics, rt), 5000
	res, err := req.RequestWith(t.Context(), o.client)
	if err == nil {
		err = kerr.ErrorForCode(res.Topics[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "more partitions", func() bool { return len(o.ends(t, topic, -1)) == n })
}

func partitionsAdded(t *testing.T, o *other) {
	topic := o.newTopic(t, 4)
	r := open(t, connect(t, quick(o.addrs...)), on(topic))
	eventually(t, "4 lanes", func() bool { return r.owns() == 4 })
	r.mu.Lock()
	var before []*brokers.Lane
	for l := range r.assigned {
		before = append(before, l)
	}
	r.mu.Unlock()
	o.grow(t, topic, 8)
	for p := range int32(8) {
		o.produce(t, topic, outgoing(fmt.Sprint("p", p, "-"), p, 3)...)
	}
	seen := map[int32]int{}
	for _, d := range r.take(24) {
		seen[d.Lane.Partition]++
	}
	if len(seen) != 8 {
		t.Errorf("read %v", seen)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range before {
		if !r.assigned[l] {
			t.Errorf("%s/%d was interrupted", l.Topic, l.Partition)
		}
	}
}

func latestAndGrowth(t *testing.T, o *other) {
	topic := o.newTopic(t, 2)
	o.produce(t, topic, outgoing("old", 0, 5)...)
	sp := on(topic)
	sp.StartFrom = brokers.Start{Kind: brokers.StartLatest}
	r := open(t, connect(t, quick(o.addrs...)), sp)
	r.close()
	// Added and written to while nobody looked.
	o.grow(t, topic, 3)
	o.produce(t, topic, outgoing("grown", 2, 3)...)
	r = open(t, connect(t, quick(o.addrs...)), sp)
	for i, d := range r.take(3) {
		if string(d.Value) != fmt.Sprint("grown", i) {
			t.Errorf("%d: %s", i, d.Value)
		}
	}
	r.none(200 * time.Millisecond)
}

func topicComesLater(t *testing.T, o *other) {
	topic := o.newTopic(t, 2)
	later := topic + "-later"
	sp := on(topic, later)
	r := open(t, connect(t, quick(o.addrs...)), sp)
	o.produce(t, topic, outgoing("there", 0, 3)...)
	r.take(3)
	if err := r.troubles("topic " + later); err == nil {
		t.Error("the missing topic is not reported")
	}
	o.makeTopic(t, later, 2)
	o.produce(t, later, outgoing("later", 1, 3)...)
	for i, d := range r.take(3) {
		if string(d.Value) != fmt.Sprint("later", i) {
			t.Errorf("%d: %s", i, d.Value)
		}
	}
	eventually(t, "the report is over", func() bool { return r.troubles("topic "+later) == nil })
	// Its destinations were made too, and the other topic goes on.
	b := connect(t, quick(o.addrs...))
	d := b.Destinations(sp.Consumer, later)
	if err := b.Publish(t.Context(), []brokers.Outgoing{{Topic: d.DeadLetter, Value: []byte("x")}})[0]; err != nil {
		t.Error(err)
	}
	o.produce(t, topic, outgoing("on", 0, 1)...)
	r.take(1)
}

func noTopic(t *testing.T, o *other) {
	var fault *brokers.StartError
	_, err := connect(t, quick(o.addrs...)).Open(t.Context(), on("no-such-topic"))
	if !errors.As(err, &fault) || !strings.Contains(err.Error(), "no-such-topic") {
		t.Errorf("error %v", err)
	}
}

func destinationsMissing(t *testing.T, o *other) {
	cfg := quick(o.addrs...)
	cfg.Create = false
	topic := o.newTopic(t, 3)
	sp := on(topic)
	b := connect(t, cfg)
	d := b.Destinations(sp.Consumer, topic)
	var fault *brokers.StartError
	if _, err := b.Open(t.Context(), sp); !errors.As(err, &fault) || !strings.Contains(fault.Mend, d.DeadLetter) || !strings.Contains(fault.Mend, d.Retry) {
		t.Errorf("error %v", err)
	}
	cfg.Create = true
	open(t, connect(t, cfg), sp)
	for _, name := range []string{d.DeadLetter, d.Retry} {
		if n := len(o.ends(t, name, -1)); n != 3 {
			t.Errorf("%s has %d partitions", name, n)
		}
	}
	cfg.Create = false
	open(t, connect(t, cfg), sp)
}

func destinationsUnfit(t *testing.T, o *other) {
	b := connect(t, quick(o.addrs...))
	for what, c := range map[string]struct {
		retry   bool
		configs []string
	}{
		"retention.ms": {true, []string{"retention.ms", "60000"}},
		"compacted":    {false, []string{"cleanup.policy", "compact"}},
	} {
		topic := o.newTopic(t, 1)
		sp := on(topic)
		name := b.Destinations(sp.Consumer, topic).DeadLetter
		if c.retry {
			name = b.Destinations(sp.Consumer, topic).Retry
		}
		o.makeTopic(t, name, 1, c.configs...)
		var fault *brokers.StartError
		if _, err := b.Open(t.Context(), sp); !errors.As(err, &fault) || !strings.Contains(err.Error(), name) || fault.Mend == "" {
			t.Errorf("%s: %v", what, err)
		}
	}
	// Too small is found out message by message, and told at the start.
	topic := o.newTopic(t, 1)
	sp := on(topic)
	o.makeTopic(t, b.Destinations(sp.Consumer, topic).DeadLetter, 1, "max.message.bytes", "1000")
	r := open(t, b, sp)
	eventually(t, "it is told", func() bool {
		return r.troubles("topic "+b.Destinations(sp.Consumer, topic).DeadLetter+" max.message.bytes") != nil
	})
}

func oversizeAlone(t *testing.T, o *other) {
	topic := o.newTopic(t, 1, "max.message.bytes", "5000")
	b := connect(t, quick(o.addrs...))
	ms := outgoing("small", 0, 20)
	for i := range ms {
		ms[i].Topic = topic
	}
	ms[7].Value = make([]byte, 6000)
	// Two that fit alone do not fit together.
	ms[9].Value, ms[10].Value = make([]byte, 3000), make([]byte, 3000)
	for i, err := range b.Publish(t.Context(), ms) {
		if (i == 7) != errors.Is(err, brokers.ErrTooLarge) || i != 7 && err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	if n := len(o.records(t, topic)); n != 19 {
		t.Errorf("%d are stored", n)
	}
}

func destinationLater(t *testing.T, o *other) {
	b := connect(t, quick(o.addrs...))
	topic := o.newTopic(t, 1)
	m := []brokers.Outgoing{{Topic: topic + "-later", Value: []byte("x")}}
	if err := b.Publish(t.Context(), m)[0]; !errors.Is(err, brokers.ErrNoDestination) || !strings.Contains(err.Error(), topic+"-later") {
		t.Errorf("error %v", err)
	}
	o.makeTopic(t, topic+"-later", 1)
	if err := b.Publish(t.Context(), m)[0]; err != nil {
		t.Errorf("made meanwhile: %v", err)
	}
	o.deleteTopic(t, topic+"-later")
	eventually(t, "it is missed again", func() bool { return errors.Is(b.Publish(t.Context(), m)[0], brokers.ErrNoDestination) })
}

func copiesGone(t *testing.T, o *other) {
	topic := o.newTopic(t, 1)
	o.produce(t, topic, outgoing("m", 0, 10)...)
	r := open(t, connect(t, quick(o.addrs...)), on(topic))
	ds := r.take(10)
	if err := r.Defer(ds[:4], time.Second); err != nil {
		t.Fatal(err)
	}
	if err := r.Ack(ds[4:]); err != nil {
		t.Fatal(err)
	}
	o.deleteBelow(t, topic, 3)
	if d := r.take(1)[0]; d.Offset != 3 {
		t.Errorf("offset %d comes again", d.Offset)
	}
	if g := r.gap(topic); g.Kind != kafkabroker.CopiesGone || g.Missing() != 3 {
		t.Errorf("gap %+v", g)
	}
}
