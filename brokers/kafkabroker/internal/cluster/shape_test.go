package cluster

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/createtopics"
	"github.com/segmentio/kafka-go/protocol/describeconfigs"
	"github.com/segmentio/kafka-go/protocol/describegroups"
	"github.com/segmentio/kafka-go/protocol/findcoordinator"
	"github.com/segmentio/kafka-go/protocol/joingroup"
	"github.com/segmentio/kafka-go/protocol/listoffsets"
	"github.com/segmentio/kafka-go/protocol/offsetcommit"
	"github.com/segmentio/kafka-go/protocol/offsetfetch"
	"github.com/segmentio/kafka-go/protocol/syncgroup"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/brokers/kafkabroker/internal/wire"
)

// answer is a whole answer as a broker would send it, by franz-go's encoder.
func answer(res kmsg.Response, version int16) []byte {
	res.SetVersion(version)
	b := wire.AppendInt32(nil, 1)
	if res.IsFlexible() && res.Key() != int16(protocol.ApiVersions) {
		b = append(b, 0)
	}
	return res.AppendTo(b)
}

// fill sets every field to something, so that a misread one shows.
func fill(v reflect.Value, r *rand.Rand) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; name != "Version" && name != "UnknownTags" && v.Field(i).CanSet() {
				fill(v.Field(i), r)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(v.Index(i), r)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), r)
	case reflect.String:
		v.SetString(fmt.Sprint("s", r.IntN(1000)))
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(r.IntN(100) + 1))
	case reflect.Uint8:
		v.SetUint(uint64(r.IntN(100) + 1))
	case reflect.Bool:
		v.SetBool(true)
	}
}

// TestKafkaGoReadsWhatABrokerWrites compares the fields that this adapter uses.
// kafka-go's Heartbeat and LeaveGroup, for two, have theirs in the wrong order.
func TestKafkaGoReadsWhatABrokerWrites(t *testing.T) {
	type pair struct{ ours, theirs any }
	for _, c := range []struct {
		res  kmsg.Response
		same func(protocol.Message, kmsg.Response) []pair
	}{
		{kmsg.NewPtrFindCoordinatorResponse(), func(m protocol.Message, k kmsg.Response) []pair {
			a, b := m.(*findcoordinator.Response), k.(*kmsg.FindCoordinatorResponse)
			return []pair{{a.ErrorCode, b.ErrorCode}, {a.NodeID, b.NodeID}}
		}},
		{kmsg.NewPtrJoinGroupResponse(), func(m protocol.Message, k kmsg.Response) []pair {
			a, b := m.(*joingroup.Response), k.(*kmsg.JoinGroupResponse)
			return []pair{
				{a.ErrorCode, b.ErrorCode},
				{a.GenerationID, b.Generation},
				{a.LeaderID, b.LeaderID},
				{a.MemberID, b.MemberID},
				{a.Members[1].MemberID, b.Members[1].MemberID},
				{a.Members[1].GroupInstanceID, *b.Members[1].InstanceID},
				{a.Members[1].Metadata, b.Members[1].ProtocolMetadata},
			}
		}},
		{kmsg.NewPtrSyncGroupResponse(), func(m protocol.Message, k kmsg.Response) []pair {
			a, b := m.(*syncgroup.Response), k.(*kmsg.SyncGroupResponse)
			return []pair{{a.ErrorCode, b.ErrorCode}, {a.Assignments, b.MemberAssignment}}
		}},
		{kmsg.NewPtrOffsetCommitResponse(), func(m protocol.Message, k kmsg.Response) []pair {
			a, b := m.(*offsetcommit.Response).Topics[1], k.(*kmsg.OffsetCommitResponse).Topics[1]
			return []pair{{a.Name, b.Topic}, {a.Partitions[1].PartitionIndex, b.Partitions[1].Partition}, {a.Partitions[1].ErrorCode, b.Partitions[1].ErrorCode}}
		}},
		{kmsg.NewPtrOffsetFetchResponse(), func(m protocol.Message, k kmsg.Response) []pair {
			a, b := m.(*offsetfetch.Response), k.(*kmsg.OffsetFetchResponse)
			p, q := a.Topics[1].Partitions[1], b.Topics[1].Partitions[1]
			return []pair{
				{a.ErrorCode, b.ErrorCode},
				{a.Topics[1].Name, b.Topics[1].Topic},
				{p.PartitionIndex, q.Partition},
				{p.CommittedOffset, q.Offset},
				{p.Metadata, *q.Metadata},
				{p.ErrorCode, q.ErrorCode},
			}
		}},
		{kmsg.NewPtrListOffsetsResponse(), func(m protocol.Message, k kmsg.Response) []pair {
			a, b := m.(*listoffsets.Response).Topics[1], k.(*kmsg.ListOffsetsResponse).Topics[1]
			p, q := a.Partitions[1], b.Partitions[1]
			return []pair{{a.Topic, b.Topic}, {p.Partition, q.Partition}, {p.ErrorCode, q.ErrorCode}, {p.Offset, q.Offset}}
		}},
		{kmsg.NewPtrDescribeGroupsResponse(), func(m protocol.Message, k kmsg.Response) []pair {
			a, b := m.(*describegroups.Response).Groups[1], k.(*kmsg.DescribeGroupsResponse).Groups[1]
			p, q := a.Members[1], b.Members[1]
			return []pair{{a.ErrorCode, b.ErrorCode}, {p.MemberID, q.MemberID}, {p.ClientID, q.ClientID}, {p.ClientHost, q.ClientHost}, {p.MemberMetadata, q.ProtocolMetadata}}
		}},
		{kmsg.NewPtrDescribeConfigsResponse(), func(m protocol.Message, k kmsg.Response) []pair {
			a, b := m.(*describeconfigs.Response).Resources[1], k.(*kmsg.DescribeConfigsResponse).Resources[1]
			p, q := a.ConfigEntries[1], b.Configs[1]
			return []pair{{a.ErrorCode, b.ErrorCode}, {a.ResourceName, b.ResourceName}, {p.ConfigName, q.Name}, {p.ConfigValue, *q.Value}}
		}},
		{kmsg.NewPtrCreateTopicsResponse(), func(m protocol.Message, k kmsg.Response) []pair {
			a, b := m.(*createtopics.Response).Topics[1], k.(*kmsg.CreateTopicsResponse).Topics[1]
			return []pair{{a.Name, b.Topic}, {a.ErrorCode, b.ErrorCode}, {a.ErrorMessage, *b.ErrorMessage}}
		}},
	} {
		key := protocol.ApiKey(c.res.Key())
		t.Run(key.String(), func(t *testing.T) {
			version := key.MaxVersion() // the newest that kafka-go and Kafka 4 share
			fill(reflect.ValueOf(c.res).Elem(), rand.New(rand.NewPCG(1, 2)))
			b := answer(c.res, version)
			if err := checkAnswer(key, version, b); err != nil {
				t.Fatalf("the check refuses a good answer: %v", err)
			}
			_, m, err := protocol.ReadResponse(bytes.NewReader(append(wire.AppendInt32(nil, int32(len(b))), b...)), key, version)
			if err != nil {
				t.Fatal(err)
			}
			for i, p := range c.same(m, c.res) {
				if !reflect.DeepEqual(p.ours, p.theirs) {
					t.Errorf("v%d, field %d: kafka-go reads %v, written was %v", version, i, p.ours, p.theirs)
				}
			}
			for n := range b {
				if err := checkAnswer(key, version, b[:n]); err == nil && n < len(b)-1 {
					// Whatever is cut off must be noticed, or be safe to decode.
					decodeBounded(t, key, version, b[:n])
				}
			}
		})
	}
}

// decodeBounded decodes what the check has let through.
func decodeBounded(t *testing.T, key protocol.ApiKey, version int16, body []byte) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, _ = protocol.ReadResponse(bytes.NewReader(append(wire.AppendInt32(nil, int32(len(body))), body...)), key, version)
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > uint64(1000*len(body)+1<<20) {
		t.Fatalf("%v v%d: %d bytes made it allocate %d", key, version, len(body), used)
	}
}

func FuzzWhatPassesTheCheckIsSafeToDecode(f *testing.F) {
	keys := []protocol.ApiKey{}
	for key := range answers {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for i := range keys {
		if res := kmsg.ResponseForKey(int16(keys[i])); res != nil {
			fill(reflect.ValueOf(res).Elem(), rand.New(rand.NewPCG(3, 4)))
			f.Add(uint8(i), answer(res, keys[i].MaxVersion()))
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		key := keys[int(which)%len(keys)]
		version := key.MaxVersion()
		if checkAnswer(key, version, body) == nil {
			decodeBounded(t, key, version, body)
		}
	})
}

func FuzzMetadata(f *testing.F) {
	for _, version := range []int16{metadataPlain, metadataWithIDs} {
		res := kmsg.NewPtrMetadataResponse()
		fill(reflect.ValueOf(res).Elem(), rand.New(rand.NewPCG(5, 6)))
		f.Add(version == metadataWithIDs, answer(res, version))
	}
	f.Fuzz(func(_ *testing.T, ids bool, body []byte) {
		version := int16(metadataPlain)
		if ids {
			version = metadataWithIDs
		}
		_, _ = decodeMetadata(version, body)
	})
}

func TestMetadataIsReadAsABrokerWritesIt(t *testing.T) {
	for _, version := range []int16{metadataPlain, metadataWithIDs} {
		res := kmsg.NewPtrMetadataResponse()
		fill(reflect.ValueOf(res).Elem(), rand.New(rand.NewPCG(5, 6)))
		res.Brokers[1].NodeID, res.Brokers[1].Host, res.Brokers[1].Port = 77, "kafka-1", 9092
		name := "other"
		res.Topics[0].Topic = &name
		v, err := decodeMetadata(version, answer(res, version))
		if err != nil {
			t.Fatalf("v%d: %v", version, err)
		}
		want := res.Topics[1]
		got := v.Topics[*want.Topic]
		if v.Brokers[77] != "kafka-1:9092" || v.Controller != res.ControllerID || int16(got.Err) != want.ErrorCode {
			t.Errorf("v%d: %+v", version, v)
		}
		if version == metadataWithIDs && got.ID != want.TopicID {
			t.Errorf("id %x, want %x", got.ID, want.TopicID)
		}
		p := want.Partitions[1]
		if g := got.Partitions[p.Partition]; g.Leader != p.Leader {
			t.Errorf("v%d: partition %+v, want %+v", version, g, p)
		}
	}
}

func TestMetadataIsAskedForAsABrokerReadsIt(t *testing.T) {
	for _, version := range []int16{metadataPlain, metadataWithIDs} {
		m := &metadataRequest{client: "me", topics: []string{"a", "b"}, version: version}
		b := m.encode()
		req := kmsg.NewPtrMetadataRequest()
		req.SetVersion(version)
		header := 4 + 2 + 2 + 4 + 2 + 2
		if version == metadataWithIDs {
			header++
		}
		if err := req.ReadFrom(b[header:]); err != nil {
			t.Fatalf("v%d: %v", version, err)
		}
		if len(req.Topics) != 2 || *req.Topics[1].Topic != "b" || req.AllowAutoTopicCreation {
			t.Errorf("v%d: %+v", version, req)
		}
	}
}
