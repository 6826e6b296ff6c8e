package group

import (
	"reflect"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/onceward/onceward/brokers/kafkabroker/internal/coop"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/wire"
)

func anyPartitions(t *rapid.T) []coop.Partition {
	ps := rapid.SliceOfDistinct(rapid.Custom(func(t *rapid.T) coop.Partition {
		return coop.Partition{Topic: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "topic"), Index: rapid.Int32Range(0, 5).Draw(t, "index")}
	}), rapid.ID).Draw(t, "partitions")
	slices.SortFunc(ps, coop.Partition.Compare)
	return ps
}

// What this member writes is read by franz-go's decoder, which is generated
// from Kafka's own description, and the other way round.
func TestOtherSoftwareReadsASubscription(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := subscription{topics: []string{"a", "b", "c"}, claims: anyPartitions(t), generation: rapid.Int32().Draw(t, "generation")}
		b := s.encode()
		var theirs kmsg.ConsumerMemberMetadata
		if err := theirs.ReadFrom(b); err != nil {
			t.Fatal(err)
		}
		var claims []coop.Partition
		for _, o := range theirs.OwnedPartitions {
			for _, p := range o.Partitions {
				claims = append(claims, coop.Partition{Topic: o.Topic, Index: p})
			}
		}
		if theirs.Version != 3 || !slices.Equal(theirs.Topics, s.topics) || theirs.Generation != s.generation || theirs.Rack != nil || !slices.Equal(claims, s.claims) {
			t.Fatalf("they read %+v, written was %+v", theirs, s)
		}
		if r := wire.NewReader(theirs.UserData); r.Int32() != s.generation {
			t.Fatalf("an older Java client reads the generation in %x", theirs.UserData)
		}
		back, err := decodeSubscription(b)
		s.ours = true
		if err != nil || !reflect.DeepEqual(back, s) && len(s.claims) > 0 {
			t.Fatalf("%+v, %v; want %+v", back, err, s)
		}
		if ours, known := Ours(b); !ours || !known {
			t.Fatal("not recognised as ours")
		}
	})
}

func TestEveryVersionOfASubscriptionIsRead(t *testing.T) {
	for version := range int16(4) {
		m := kmsg.NewConsumerMemberMetadata()
		m.Version, m.Topics, m.UserData, m.Generation = version, []string{"a"}, []byte{0, 0, 0, 9}, 9
		o := kmsg.NewConsumerMemberMetadataOwnedPartition()
		o.Topic, o.Partitions = "a", []int32{3}
		m.OwnedPartitions = append(m.OwnedPartitions, o)
		s, err := decodeSubscription(m.AppendTo(nil))
		if err != nil || s.ours || s.generation != 9 || !slices.Equal(s.topics, []string{"a"}) || (len(s.claims) == 1) != (version >= 1) {
			t.Errorf("v%d: %+v, %v", version, s, err)
		}
		if ours, known := Ours(m.AppendTo(nil)); ours || !known {
			t.Errorf("v%d: taken for ours", version)
		}
	}
	// kafka-go's ConsumerGroup says version 1 and leaves out what it owns.
	short := wire.AppendBytes(wire.AppendString(wire.AppendInt32(wire.AppendInt16(nil, 1), 1), "a"), nil)
	if s, err := decodeSubscription(short); err != nil || !slices.Equal(s.topics, []string{"a"}) {
		t.Errorf("short: %+v, %v", s, err)
	}
}

func TestOtherSoftwareReadsAnAssignment(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ps := anyPartitions(t)
		var theirs kmsg.ConsumerMemberAssignment
		if err := theirs.ReadFrom(encodeAssignment(ps)); err != nil {
			t.Fatal(err)
		}
		back, err := decodeAssignment(theirs.AppendTo(nil))
		if err != nil || !slices.Equal(back, ps) {
			t.Fatalf("%v, %v; want %v", back, err, ps)
		}
	})
}

func FuzzMetadata(f *testing.F) {
	f.Add(subscription{topics: []string{"a"}, claims: []coop.Partition{{Topic: "a", Index: 1}}, generation: 3}.encode())
	f.Add(encodeAssignment([]coop.Partition{{Topic: "a", Index: 1}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := decodeSubscription(b); err == nil && len(s.topics)+len(s.claims) > len(b) {
			t.Fatalf("%d topics and %d claims in %d bytes", len(s.topics), len(s.claims), len(b))
		}
		_, _ = decodeAssignment(b)
	})
}

func TestTheMembersOfANextGroupAreRead(t *testing.T) {
	res := kmsg.NewPtrConsumerGroupDescribeResponse()
	res.SetVersion(0)
	g := kmsg.NewConsumerGroupDescribeResponseGroup()
	for range 2 {
		m := kmsg.NewConsumerGroupDescribeResponseGroupMember()
		m.MemberID, m.ClientID, m.ClientHost, m.SubscribedTopics = "id", "shipping", "/10.0.0.1", []string{"a", "b"}
		tp := kmsg.NewAssignmentTopicPartition()
		tp.Topic, tp.Partitions = "a", []int32{1, 2}
		m.Assignment.TopicPartitions = append(m.Assignment.TopicPartitions, tp)
		g.Members = append(g.Members, m)
	}
	res.Groups = append(res.Groups, g)
	body := res.AppendTo(append(wire.AppendInt32(nil, 1), 0))
	a, err := decodeNextGroup(body)
	if err != nil || a.code != 0 || len(a.members) != 2 || a.members[1] != `id, client id "shipping", on 10.0.0.1` {
		t.Fatalf("%+v, %v", a, err)
	}
	for n := range body {
		if _, err := decodeNextGroup(body[:n]); err == nil {
			t.Errorf("%d of %d bytes are taken for the whole", n, len(body))
		}
	}
}
