package kafkabroker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/brokers"
)

// What a later attempt hears says nothing about an earlier one.
func TestAnOutcomeThatIsUnknownStaysUnknown(t *testing.T) {
	t.Parallel()
	c := fake(t)
	b := connect(t, quick(c.ListenAddrs()...))
	var attempts atomic.Int32
	c.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		res := req.ResponseKind().(*kmsg.ProduceResponse)
		rt := kmsg.NewProduceResponseTopic()
		rt.Topic = req.(*kmsg.ProduceRequest).Topics[0].Topic
		rp := kmsg.NewProduceResponseTopicPartition()
		rp.Partition = req.(*kmsg.ProduceRequest).Topics[0].Partitions[0].Partition
		rp.ErrorCode = kerr.UnknownTopicOrPartition.Code
		if attempts.Add(1) == 1 {
			rp.ErrorCode = kerr.RequestTimedOut.Code // the leader has it
		}
		rt.Partitions = append(rt.Partitions, rp)
		res.Topics = append(res.Topics, rt)
		return res, nil, true
	})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	err := b.Publish(ctx, []brokers.Outgoing{{Topic: "orders", Key: []byte("k"), Value: []byte("v")}})[0]
	if !errors.Is(err, brokers.ErrUnknownOutcome) || !errors.Is(err, brokers.ErrNoDestination) {
		t.Errorf("after a timeout and no such topic: %v", err)
	}
	attempts.Store(1)
	err = b.Publish(ctx, []brokers.Outgoing{{Topic: "orders", Key: []byte("k"), Value: []byte("v")}})[0]
	if errors.Is(err, brokers.ErrUnknownOutcome) || !errors.Is(err, brokers.ErrNoDestination) {
		t.Errorf("no such topic: %v", err)
	}
}
