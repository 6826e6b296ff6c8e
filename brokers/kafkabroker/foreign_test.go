package kafkabroker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/brokers"
)

// stranger is a member of other software: franz-go, cooperative-sticky.
type stranger struct {
	*kgo.Client
	mu   sync.Mutex
	has  map[int32]bool
	seen map[string]int
	stop context.CancelFunc
	done chan struct{}
}

func newStranger(t *testing.T, o *other, group, topic string) *stranger {
	t.Helper()
	s := &stranger{has: map[int32]bool{}, seen: map[string]int{}, done: make(chan struct{})}
	set := func(on bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, m map[string][]int32) {
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, p := range m[topic] {
				if on {
					s.has[p] = true
				} else {
					delete(s.has, p)
				}
			}
		}
	}
	var err error
	s.Client, err = kgo.NewClient(kgo.SeedBrokers(o.addrs...), kgo.ClientID("shipping-service"), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.SessionTimeout(2*time.Second), kgo.RebalanceTimeout(3*time.Second), kgo.HeartbeatInterval(100*time.Millisecond),
		kgo.OnPartitionsAssigned(set(true)), kgo.OnPartitionsRevoked(set(false)), kgo.OnPartitionsLost(set(false)), kgo.AutoCommitInterval(100*time.Millisecond),
		kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	go func() {
		defer close(s.done)
		for ctx.Err() == nil {
			s.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
				s.mu.Lock()
				s.seen[string(r.Value)]++
				s.mu.Unlock()
			})
		}
	}()
	t.Cleanup(s.leave)
	return s
}

func (s *stranger) leave() {
	s.stop()
	<-s.done
	s.Close()
}

func (s *stranger) owns() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.has)
}

func foreignGroup(t *testing.T, o *other) {
	topic := o.newTopic(t, 4)
	sp := on(topic)
	other := newStranger(t, o, sp.Consumer, topic)
	eventually(t, "the other software has joined", func() bool { return other.owns() == 4 })
	var fault *brokers.StartError
	_, err := connect(t, quick(o.addrs...)).Open(t.Context(), sp)
	if !errors.As(err, &fault) || !strings.Contains(err.Error(), "shipping-service") {
		t.Fatalf("error %v", err)
	}
	if other.owns() != 4 {
		t.Error("the other one was disturbed")
	}
	cfg := quick(o.addrs...)
	cfg.AllowForeignMembers = true
	// The other one leads; then ours does; then the other one again.
	r := open(t, connect(t, cfg), sp)
	shared := func(what string) {
		t.Helper()
		eventually(t, what, func() bool { return other.owns() == 2 && r.owns() == 2 })
		prefix := fmt.Sprint(what, " ")
		for p := range int32(4) {
			o.produce(t, topic, outgoing(fmt.Sprint(prefix, p, "-"), p, 10)...)
		}
		if err := r.Ack(r.take(20)); err != nil {
			t.Error(err)
		}
		eventually(t, "the other one gets its part: "+what, func() bool {
			other.mu.Lock()
			defer other.mu.Unlock()
			n := 0
			for v := range other.seen {
				if strings.HasPrefix(v, prefix) {
					n++
				}
			}
			return n == 20
		})
	}
	shared("led by the other")
	other.leave()
	eventually(t, "all are ours", func() bool { return r.owns() == 4 })
	other = newStranger(t, o, sp.Consumer, topic)
	shared("led by ours")
	r.close()
	eventually(t, "all are the other's", func() bool { return other.owns() == 4 })
	r = open(t, connect(t, cfg), sp)
	shared("led by the other again")
}
