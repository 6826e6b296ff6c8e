package brokertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward/brokers"
)

// members: two processes of one consumer get every message between them, and
// one that leaves is replaced by the other.
func members(t *testing.T, w *world) {
	const n = 400
	topic := w.h.NewTopic(t, 4)
	_, one := w.start(t, topic)
	_, two := w.start(t, topic)
	var mu sync.Mutex
	seen := map[string]int{}
	ctx, cancel := context.WithTimeout(t.Context(), w.patience())
	defer cancel()
	read := func(r *reader, ctx context.Context, group *sync.WaitGroup) {
		group.Go(func() {
			for {
				ds, err := r.Receive(ctx, brokers.Limit{Messages: 10, Bytes: 1 << 20})
				if err != nil {
					return
				}
				mu.Lock()
				for _, d := range ds {
					seen[string(d.Value)]++
				}
				mu.Unlock()
				_ = r.Ack(ds) // a lane may have moved on: then they come again
			}
		})
	}
	complete := func(want int) {
		w.eventually(t, func() (bool, string) {
			mu.Lock()
			defer mu.Unlock()
			return len(seen) == want, fmt.Sprintf("%d of %d", len(seen), want)
		})
	}
	produce := func(prefix string) {
		messages := make([]brokers.Outgoing, n)
		for i := range messages {
			messages[i] = brokers.Outgoing{Key: fmt.Appendf(nil, "%d", i), Value: fmt.Appendf(nil, "%s%d", prefix, i)}
		}
		w.h.Produce(t, topic, messages...)
	}
	var first, second sync.WaitGroup
	firstCtx, stopFirst := context.WithCancel(ctx)
	read(one, firstCtx, &first)
	read(two, ctx, &second)
	produce("a")
	complete(n)
	stopFirst()
	first.Wait()
	one.close(t)
	produce("b")
	complete(2 * n)
	cancel()
	second.Wait()
}

// revoked: a partition that moves is drained first, acks until then count, and
// the next owner begins behind them.
func revoked(t *testing.T, w *world) {
	if w.lacks(t, Rebalance) {
		return
	}
	topic := w.h.NewTopic(t, 2)
	zero, one := int32(0), int32(1)
	for i := range 4 {
		w.h.Produce(t, topic,
			brokers.Outgoing{Partition: &zero, Value: fmt.Appendf(nil, "zero%d", i)},
			brokers.Outgoing{Partition: &one, Value: fmt.Appendf(nil, "one%d", i)})
	}
	b := w.connect(t)
	spec := w.spec(topic)
	var r *reader
	var got []*brokers.Delivery
	ended := make(chan *brokers.Lane, 1)
	spec.Events.Revoked = func(ctx context.Context, lanes []*brokers.Lane) {
		for _, l := range lanes {
			if l.Topic != topic || l.Retry {
				continue
			}
			if _, bounded := ctx.Deadline(); !bounded {
				t.Error("a drain without a bound")
			}
			var mine []*brokers.Delivery
			for _, d := range got {
				if d.Lane == l {
					mine = append(mine, d)
				}
			}
			if len(mine) != 4 {
				t.Errorf("%d deliveries of partition %d", len(mine), l.Partition)
				continue
			}
			if err := r.Ack(mine[:2]); err != nil {
				t.Errorf("ack while draining: %v", err)
			}
			ended <- l
		}
	}
	r = w.open(t, b, spec)
	got = r.receive(t, 8)
	lost := map[*brokers.Lane]bool{}
	_, other := w.start(t, topic)
	// Both must go on receiving for the partition to move.
	ctx, cancel := context.WithTimeout(t.Context(), w.patience())
	defer cancel()
	stopped := make(chan error, 1)
	go func() {
		_, err := r.Receive(ctx, plenty)
		stopped <- err
	}()
	again := other.receive(t, 2)
	l := <-ended
	lost[l] = true
	name := []string{"zero", "one"}[l.Partition]
	if want := fmt.Sprintf("[%s2 %s3]", name, name); values(again) != want {
		t.Errorf("the next owner received %s, want %s", values(again), want)
	}
	for _, d := range got {
		if err := r.Ack([]*brokers.Delivery{d}); (err != nil) != lost[d.Lane] {
			t.Errorf("ack of partition %d after the move: %v", d.Lane.Partition, err)
		}
	}
	other.nothing(t, 100*time.Millisecond)
	cancel()
	if err := <-stopped; !errors.Is(err, context.Canceled) {
		t.Errorf("the first one received: %v", err)
	}
}
