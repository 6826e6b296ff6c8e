//go:build servers

package kafkabroker_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/onceward/onceward/brokers"
)

// pauses remembers when each partition was last worked on, and the longest
// time that nobody did.
type pauses struct {
	mu      sync.Mutex
	last    map[int32]time.Time
	longest map[int32]time.Duration
}

func newPauses() *pauses {
	return &pauses{last: map[int32]time.Time{}, longest: map[int32]time.Duration{}}
}

func (p *pauses) work(partition int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if at, ok := p.last[partition]; ok {
		p.longest[partition] = max(p.longest[partition], now.Sub(at))
	}
	p.last[partition] = now
}

// forget begins to measure anew.
func (p *pauses) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.longest)
}

func (p *pauses) above(d time.Duration) (n int, worst time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.longest {
		worst = max(worst, l)
		if l > d {
			n++
		}
	}
	return n, worst
}

// handler is how long a handler takes: what a partition that moves waits for.
const handler = time.Second

// crew is a member whose handlers take a second to end when a partition moves.
type crew struct {
	*reader
	done chan struct{}
	stop context.CancelFunc
}

func enlist(t *testing.T, addrs []string, sp brokers.Spec, name string, p *pauses) *crew {
	t.Helper()
	cfg := quick(addrs...)
	cfg.InstanceID, cfg.SessionTimeout, cfg.RebalanceTimeout, cfg.Heartbeat = name, 10*time.Second, 20*time.Second, time.Second
	c := &crew{done: make(chan struct{})}
	sp.Events.Revoked = func(_ context.Context, ls []*brokers.Lane) {
		if slices.ContainsFunc(ls, func(l *brokers.Lane) bool { return !l.Retry }) {
			time.Sleep(handler)
		}
	}
	c.reader = open(t, connect(t, cfg), sp)
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	go func() {
		defer close(c.done)
		for {
			ds, err := c.Receive(ctx, brokers.Limit{Messages: 100, Bytes: 1 << 20})
			if err != nil {
				return
			}
			for _, d := range ds {
				p.work(d.Lane.Partition)
			}
			_ = c.Ack(ds)
		}
	}()
	return c
}

func (c *crew) retire() {
	c.stop()
	<-c.done
	c.close()
}

// sources lists the partitions that a member has, retry topics left out.
func (c *crew) sources() (ps []int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for l := range c.assigned {
		if !l.Retry {
			ps = append(ps, l.Partition)
		}
	}
	slices.Sort(ps)
	return ps
}

func TestARollingRestartOfStaticMembersMovesNothingAndAFourthTakesThree(t *testing.T) {
	addrs := server(t)
	o := newOther(t, addrs)
	topic := o.newTopic(t, 12)
	drip(t, o, topic)
	sp, p := on(topic), newPauses()
	var crews []*crew
	for _, name := range []string{"a", "b", "c"} {
		crews = append(crews, enlist(t, addrs, sp, name, p))
	}
	balanced := func(n int) {
		t.Helper()
		eventually(t, fmt.Sprintf("each has %d", n), func() bool {
			for _, c := range crews {
				if len(c.sources()) != n {
					return false
				}
			}
			return true
		})
	}
	balanced(4)
	time.Sleep(2 * time.Second) // the last round is over
	given := func() (n int) {
		for _, c := range crews {
			c.mu.Lock()
			n += c.revoked + c.lost
			c.mu.Unlock()
		}
		return n
	}
	before := given()
	for i, name := range []string{"a", "b", "c"} {
		had := crews[i].sources()
		crews[i].retire()
		time.Sleep(500 * time.Millisecond)
		crews[i] = enlist(t, addrs, sp, name, p)
		eventually(t, "it is back", func() bool { return len(crews[i].sources()) == 4 })
		if got := crews[i].sources(); !slices.Equal(got, had) {
			t.Errorf("%s had %v, has %v", name, had, got)
		}
	}
	time.Sleep(2 * time.Second)
	if moved := given() - before; moved > 0 {
		t.Errorf("the restart moved %d", moved)
	}
	p.forget()
	had := map[int32]int{}
	for i, c := range crews {
		for _, part := range c.sources() {
			had[part] = i
		}
	}
	crews = append(crews, enlist(t, addrs, sp, "d", p))
	balanced(3)
	time.Sleep(2 * time.Second)
	moved := 0
	for i, c := range crews {
		for _, part := range c.sources() {
			if had[part] != i || i == 3 {
				moved++
			}
		}
	}
	silent, worst := p.above(500 * time.Millisecond)
	t.Logf("the fourth takes %d; %d of 12 partitions pause for more than 0.5 s, the longest %v", moved, silent, worst.Round(time.Millisecond))
	if moved != 3 || silent > 3 {
		t.Errorf("%d moved, %d paused", moved, silent)
	}
	for _, c := range crews {
		c.stop()
	}
	compareGroup(t, addrs, topic)
}

// drip stores a message in each partition every 50 ms.
func drip(t *testing.T, o *other, topic string) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			var ms []brokers.Outgoing
			for part := range int32(12) {
				ms = append(ms, outgoing("m", part, 1)...)
			}
			o.client.ProduceSync(ctx, recordsOf(topic, ms)...)
			time.Sleep(50 * time.Millisecond)
		}
	})
	t.Cleanup(func() { cancel(); done.Wait() })
}

// compareGroup prints how long partitions stand still when a fourth member
// joins a group of kafka-go's ConsumerGroup, with the same handlers.
func compareGroup(t *testing.T, addrs []string, topic string) {
	p := newPauses()
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	defer func() { cancel(); all.Wait() }()
	group := fmt.Sprint("kafka-go", time.Now().UnixNano())
	var mu sync.Mutex
	owned := map[int]int{}
	join := func(i int) {
		g, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
			ID: group, Brokers: addrs, Topics: []string{topic}, HeartbeatInterval: time.Second, SessionTimeout: 10 * time.Second, RebalanceTimeout: 20 * time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			defer g.Close()
			for ctx.Err() == nil {
				gen, err := g.Next(ctx)
				if err != nil {
					continue
				}
				parts := gen.Assignments[topic]
				mu.Lock()
				owned[i] = len(parts)
				mu.Unlock()
				for _, part := range parts {
					gen.Start(func(ctx context.Context) {
						for ctx.Err() == nil {
							p.work(int32(part.ID))
							time.Sleep(20 * time.Millisecond)
						}
						time.Sleep(handler)
					})
				}
			}
		})
	}
	even := func(n int) {
		eventually(t, "kafka-go's group is even", func() bool {
			mu.Lock()
			defer mu.Unlock()
			for i := range 12 / n {
				if owned[i] != n {
					return false
				}
			}
			return true
		})
	}
	for i := range 3 {
		join(i)
	}
	even(4)
	time.Sleep(2 * time.Second)
	p.forget()
	join(3)
	even(3)
	time.Sleep(2 * time.Second)
	silent, worst := p.above(500 * time.Millisecond)
	t.Logf("kafka-go's ConsumerGroup: %d of 12 partitions pause for more than 0.5 s, the longest %v", silent, worst.Round(time.Millisecond))
}
