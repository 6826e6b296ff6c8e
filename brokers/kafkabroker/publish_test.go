package kafkabroker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/brokers"
)

func TestKeysGoWhereJavasProducerPutsThem(t *testing.T) {
	t.Parallel()
	o := newOther(t, fake(t, kfake.SeedTopics(7, "seven")).ListenAddrs())
	b := connect(t, quick(o.addrs...))
	var ms []brokers.Outgoing
	for i := range 200 {
		ms = append(ms, brokers.Outgoing{Topic: "seven", Key: []byte(strings.Repeat("k", i%9) + fmt.Sprint(i))})
	}
	ms = append(ms, brokers.Outgoing{Topic: "seven", Key: []byte{}})
	for _, err := range b.Publish(t.Context(), ms) {
		if err != nil {
			t.Fatal(err)
		}
	}
	java := kafka.Murmur2Balancer{Consistent: true}
	n := 0
	for _, r := range o.records(t, "seven") {
		n++
		if want := java.Balance(kafka.Message{Key: r.Key}, 0, 1, 2, 3, 4, 5, 6); int(r.Partition) != want {
			t.Errorf("key %q is in partition %d, not %d", r.Key, r.Partition, want)
		}
	}
	if n != len(ms) {
		t.Errorf("%d of %d are stored", n, len(ms))
	}
}

func TestMessagesWithoutAKeyAreSpreadAndAChosenPartitionIsKept(t *testing.T) {
	t.Parallel()
	o := newOther(t, fake(t).ListenAddrs())
	b := connect(t, quick(o.addrs...))
	ms := make([]brokers.Outgoing, 40)
	three := int32(3)
	for i := range ms {
		ms[i].Topic = "orders"
		if i >= 20 {
			ms[i].Partition, ms[i].Key = &three, []byte("any")
		}
	}
	for _, err := range b.Publish(t.Context(), ms) {
		if err != nil {
			t.Fatal(err)
		}
	}
	per := map[int32]int{}
	for _, r := range o.records(t, "orders") {
		per[r.Partition]++
	}
	if per[0] != 5 || per[1] != 5 || per[2] != 5 || per[3] != 25 {
		t.Errorf("per partition: %v", per)
	}
}

// Each code of one batch, once or for ever, in a publish of two topics.
func TestEachCodeOfAPublishHasItsConsequence(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code   int16
		always bool
		want   error // nil: stored in the end
	}{
		{6, false, nil},  // not the leader
		{5, false, nil},  // no leader
		{3, false, nil},  // unknown topic
		{7, false, nil},  // timed out
		{19, false, nil}, // too few replicas
		{20, false, nil}, // too few replicas after it was written
		{56, false, nil}, // storage
		{3, true, brokers.ErrNoDestination},
		{29, true, brokers.ErrUnauthorized},
		{10, true, brokers.ErrTooLarge},
		{18, true, brokers.ErrTooLarge},
		{7, true, brokers.ErrUnknownOutcome},
		{20, true, brokers.ErrUnknownOutcome},
		{19, true, context.DeadlineExceeded},
		{87, true, errors.New("refused")},
	} {
		t.Run(fmt.Sprintf("%v/%v", kerr.ErrorForCode(c.code), c.always), func(t *testing.T) {
			t.Parallel()
			cl := fake(t, kfake.SeedTopics(1, "good", "bad"))
			var hits atomic.Int32
			cl.ControlKey(0, func(req kmsg.Request) (kmsg.Response, error, bool) {
				sent := req.(*kmsg.ProduceRequest)
				res := req.ResponseKind().(*kmsg.ProduceResponse)
				hit := false
				for _, rt := range sent.Topics {
					st := kmsg.NewProduceResponseTopic()
					st.Topic = rt.Topic
					for _, rp := range rt.Partitions {
						sp := kmsg.NewProduceResponseTopicPartition()
						sp.Partition = rp.Partition
						if rt.Topic == "bad" {
							sp.ErrorCode, hit = c.code, true
						}
						st.Partitions = append(st.Partitions, sp)
					}
					res.Topics = append(res.Topics, st)
				}
				cl.KeepControl()
				return res, nil, hit && (c.always || hits.Add(1) == 1)
			})
			b := connect(t, quick(cl.ListenAddrs()...))
			ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
			defer cancel()
			// One after the other, so that each request has one topic.
			if err := b.Publish(ctx, []brokers.Outgoing{{Topic: "good", Value: []byte("x")}})[0]; err != nil {
				t.Errorf("the good one: %v", err)
			}
			err := b.Publish(ctx, []brokers.Outgoing{{Topic: "bad", Value: []byte("x")}})[0]
			switch {
			case c.want == nil:
				if err != nil {
					t.Errorf("error %v", err)
				}
			case err == nil || !strings.Contains(err.Error(), "bad") || !errors.Is(err, c.want) && !strings.Contains(err.Error(), c.want.Error()):
				t.Errorf("error %v", err)
			case c.code == 19 && errors.Is(err, brokers.ErrUnknownOutcome):
				t.Errorf("was certainly not stored: %v", err)
			}
		})
	}
}

func TestAMessageBeyondEveryBoundIsNotSent(t *testing.T) {
	t.Parallel()
	cfg := quick(fake(t).ListenAddrs()...)
	cfg.MaxBatchBytes = 1 << 20
	b := connect(t, cfg)
	errs := b.Publish(t.Context(), []brokers.Outgoing{{Topic: "orders", Value: make([]byte, 2<<20)}, {Topic: "orders", Value: []byte("x")}})
	if !errors.Is(errs[0], brokers.ErrTooLarge) || errs[1] != nil {
		t.Fatal(errs)
	}
}
