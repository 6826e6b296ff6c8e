package fetch

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/brokers/kafkabroker/internal/cluster"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/records"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/wire"
)

// pipe takes a request and gives an answer.
type pipe struct {
	bytes.Buffer
	answer io.Reader
}

func (p *pipe) Read(b []byte) (int, error) { return p.answer.Read(b) }

func request(version int16) *Request {
	r := &Request{
		Wants: []Want{
			{Topic: "a", ID: cluster.ID{1}, Partition: 3, Offset: 40, MaxBytes: 1000},
			{Topic: "a", ID: cluster.ID{1}, Partition: 0, Offset: 41, MaxBytes: 1001},
			{Topic: "b", ID: cluster.ID{2}, Partition: 0, Offset: 42, MaxBytes: 1002},
		},
		MaxWait: 250e6, MaxBytes: 5000, Limit: 1 << 20, ClientID: "me",
	}
	r.Choose(func(protocol.ApiKey) int16 { return version })
	return r
}

// response has the partitions in another order than the request.
func response(version int16) []byte {
	res := kmsg.NewPtrFetchResponse()
	res.SetVersion(version)
	for _, t := range []struct {
		name string
		id   cluster.ID
		ps   []int32
	}{{"b", cluster.ID{2}, []int32{0}}, {"a", cluster.ID{1}, []int32{0, 3}}} {
		rt := kmsg.NewFetchResponseTopic()
		rt.Topic, rt.TopicID = t.name, t.id
		for _, p := range t.ps {
			rp := kmsg.NewFetchResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p, int16(p)
			rp.HighWatermark, rp.LastStableOffset, rp.LogStartOffset = 100+int64(p), 90+int64(p), 10
			ab := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
			ab.ProducerID, ab.FirstOffset = 7, 8
			rp.AbortedTransactions = append(rp.AbortedTransactions, ab)
			rp.RecordBatches = fmt.Appendf(nil, "%s%d", t.name, p)
			rt.Partitions = append(rt.Partitions, rp)
		}
		res.Topics = append(res.Topics, rt)
	}
	b := wire.AppendInt32(nil, 1)
	if res.IsFlexible() {
		b = append(b, 0)
	}
	return res.AppendTo(b)
}

func TestABrokerUnderstandsTheRequestAndItsAnswerIsRead(t *testing.T) {
	for _, offered := range []int16{11, 12, 13, 18} {
		t.Run(fmt.Sprint("v", offered), func(t *testing.T) {
			version := int16(byName)
			if offered >= byID {
				version = byID
			}
			body := response(version)
			p := &pipe{answer: bytes.NewReader(append(wire.AppendInt32(nil, int32(len(body))), body...))}
			r := request(offered)
			m, err := r.RawExchange(p)
			if err != nil {
				t.Fatal(err)
			}
			sent := kmsg.NewPtrFetchRequest()
			sent.SetVersion(version)
			header := 4 + 2 + 2 + 4 + 2 + 2
			if sent.IsFlexible() {
				header++
			}
			if err := sent.ReadFrom(p.Bytes()[header:]); err != nil {
				t.Fatal(err)
			}
			if sent.IsolationLevel != 1 || sent.MaxWaitMillis != 250 || sent.SessionEpoch != -1 || sent.ReplicaID != -1 || len(sent.Topics) != 2 {
				t.Errorf("sent %+v", sent)
			}
			w := sent.Topics[0].Partitions[1]
			if w.Partition != 0 || w.FetchOffset != 41 || w.PartitionMaxBytes != 1001 || w.CurrentLeaderEpoch != -1 {
				t.Errorf("sent %+v", w)
			}
			a := m.(*Answer)
			if len(a.Results) != 3 {
				t.Fatalf("%d results", len(a.Results))
			}
			for i, want := range []int{2, 1, 0} {
				g, q := a.Results[i], r.Wants[want]
				if g.Want != want || string(g.Records) != fmt.Sprintf("%s%d", q.Topic, q.Partition) || int32(g.Err) != q.Partition ||
					g.LastStable != 90+int64(q.Partition) || g.LogStart != 10 || !slices.Equal(g.Aborted, []records.Aborted{{Producer: 7, First: 8}}) {
					t.Errorf("result %d: %+v", i, g)
				}
			}
		})
	}
}

func TestATopicWithoutAnIDIsAskedForByName(t *testing.T) {
	body := response(byName)
	r := request(18)
	r.Wants[2].ID = cluster.ID{}
	if _, err := r.RawExchange(&pipe{answer: bytes.NewReader(append(wire.AppendInt32(nil, int32(len(body))), body...))}); err != nil {
		t.Fatal(err)
	}
}

func TestAnAnswerBeyondItsBoundIsRefused(t *testing.T) {
	r := request(13)
	r.Limit = 100
	if _, err := r.RawExchange(&pipe{answer: bytes.NewReader([]byte{0, 0, 0, 101, 0})}); err == nil {
		t.Fatal("no error")
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add(true, response(byID))
	f.Add(false, response(byName))
	f.Fuzz(func(t *testing.T, flexible bool, body []byte) {
		r := request(0)
		r.version = byName
		if flexible {
			r.version = byID
		}
		a, err := r.decode(body)
		if err != nil {
			return
		}
		for _, g := range a.Results {
			if g.Want < 0 || g.Want >= len(r.Wants) || len(g.Records) > len(body) {
				t.Fatalf("%+v", g)
			}
		}
	})
}
