package kafkabroker_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

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
