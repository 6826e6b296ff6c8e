package kafkabroker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/cluster"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/records"
)

const (
	// maxBatch is where a batch is closed: below every usual bound of a topic.
	maxBatch = 512 << 10
	// replicating is how long the leader may wait for its replicas.
	replicating = 5 * time.Second
	// tries is how often a topic that nobody knows is looked for, so that one
	// that was made a moment ago is found.
	tries = 4
)

// publisher sends messages. It has no queue and adds no delay: what is given
// together goes together.
type publisher struct {
	cluster *cluster.Cluster
	limit   int // of one message
	robin   atomic.Uint32

	mu     sync.Mutex
	topics map[string]cluster.Topic
}

func newPublisher(c *cluster.Cluster, cfg Config) *publisher {
	return &publisher{cluster: c, limit: cfg.MaxBatchBytes, topics: map[string]cluster.Topic{}}
}

// item is one message on its way.
type item struct {
	m         *brokers.Outgoing
	partition int32
	alone     bool  // must not share a batch
	maybe     error // an attempt whose outcome is not known
	last      error // of the last attempt
	lost      int   // how often its topic was not found
	done      bool
	err       error
}

func (p *publisher) publish(ctx context.Context, messages []brokers.Outgoing) []error {
	items := make([]item, len(messages))
	open := make([]*item, len(messages))
	for i := range messages {
		items[i] = item{m: &messages[i], partition: -1}
		open[i] = &items[i]
		if n := records.Size(&messages[i]); n > p.limit {
			items[i].finish(fmt.Errorf("topic %q: %d bytes: %w", messages[i].Topic, n, brokers.ErrTooLarge))
		}
	}
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		open = slices.DeleteFunc(open, func(t *item) bool { return t.done })
		if len(open) == 0 {
			break
		}
		if ctx.Err() == nil {
			p.attempt(ctx, open)
		}
		open = slices.DeleteFunc(open, func(t *item) bool { return t.done })
		if len(open) == 0 {
			break
		}
		if !slices.ContainsFunc(open, func(t *item) bool { return !t.alone || t.last != nil }) {
			continue // a batch was only split
		}
		select {
		case <-ctx.Done():
			for _, t := range open {
				t.giveUp(ctx.Err())
			}
		case <-time.After(pause):
		}
	}
	errs := make([]error, len(items))
	for i := range items {
		errs[i] = items[i].err
	}
	return errs
}

// finish decides an item. What is final now says nothing about an attempt before
// whose outcome is not known.
func (t *item) finish(err error) {
	if err != nil && t.maybe != nil {
		err = fmt.Errorf("%w: %w: %w", brokers.ErrUnknownOutcome, err, t.maybe)
	}
	t.done, t.err = true, err
}

// giveUp decides an item when there is no time left.
func (t *item) giveUp(cause error) {
	switch {
	case t.maybe != nil:
		t.finish(fmt.Errorf("topic %q: %w", t.m.Topic, cause))
	case t.last != nil:
		t.finish(fmt.Errorf("topic %q: not stored: %w", t.m.Topic, errors.Join(cause, t.last)))
	default:
		t.finish(fmt.Errorf("topic %q: not stored: %w", t.m.Topic, cause))
	}
}

// batch is what goes into one partition with one request.
type batch struct {
	topic     string
	partition int32
	items     []*item
	size      int
}

// attempt sends every item once.
func (p *publisher) attempt(ctx context.Context, items []*item) {
	topics, err := p.know(ctx, items)
	if err != nil {
		for _, t := range items {
			t.last = err
		}
		return
	}
	byLeader := map[int32][]*batch{}
	open := map[string]*batch{}
	for _, t := range items {
		leader, ok := p.place(t, topics)
		if !ok {
			continue
		}
		key := fmt.Sprintf("%s/%d", t.m.Topic, t.partition)
		b, size := open[key], records.Size(t.m)
		if b == nil || t.alone || b.items[0].alone || b.size+size > maxBatch {
			b = &batch{topic: t.m.Topic, partition: t.partition}
			open[key] = b
			byLeader[leader] = append(byLeader[leader], b)
		}
		b.items, b.size = append(b.items, t), b.size+size
	}
	var sending sync.WaitGroup
	for leader, batches := range byLeader {
		// Two batches of one partition cannot share a request: one after the
		// other keeps their order.
		sending.Go(func() {
			for len(batches) > 0 {
				var now, next []*batch
				seen := map[string]bool{}
				size := 0
				for _, b := range batches {
					key := fmt.Sprintf("%s/%d", b.topic, b.partition)
					if seen[key] || size > 8*maxBatch {
						next = append(next, b)
						continue
					}
					seen[key], now, size = true, append(now, b), size+b.size
				}
				p.send(ctx, leader, now)
				batches = next
			}
		})
	}
	sending.Wait()
}

// know finds the topics of items, asking only for what is not known.
func (p *publisher) know(ctx context.Context, items []*item) (map[string]cluster.Topic, error) {
	p.mu.Lock()
	known := map[string]cluster.Topic{}
	var ask []string
	for _, t := range items {
		topic, ok := p.topics[t.m.Topic]
		if ok && topic.Err == 0 {
			known[t.m.Topic] = topic
		} else if !slices.Contains(ask, t.m.Topic) {
			ask = append(ask, t.m.Topic)
		}
	}
	p.mu.Unlock()
	if len(ask) == 0 {
		return known, nil
	}
	view, err := p.cluster.Metadata(ctx, ask)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, t := range view.Topics {
		known[name] = t
		if t.Err == 0 {
			p.topics[name] = t
		}
	}
	return known, nil
}

func (p *publisher) forget(topic string) {
	p.mu.Lock()
	delete(p.topics, topic)
	p.mu.Unlock()
}

// place chooses an item's partition and finds its leader.
func (p *publisher) place(t *item, topics map[string]cluster.Topic) (leader int32, ok bool) {
	topic := topics[t.m.Topic]
	switch code := topic.Err; code {
	case 0:
	case kafka.TopicAuthorizationFailed:
		t.finish(fmt.Errorf("topic %q: %w", t.m.Topic, brokers.ErrUnauthorized))
		return 0, false
	case kafka.UnknownTopicOrPartition, kafka.InvalidTopic:
		t.notFound(code)
		return 0, false
	default:
		t.last = code
		return 0, false
	}
	n := int32(len(topic.Partitions))
	if n == 0 {
		t.notFound(kafka.UnknownTopicOrPartition)
		return 0, false
	}
	if t.partition < 0 || t.partition >= n {
		t.partition = p.partition(t.m, n)
	}
	part := topic.Partitions[t.partition]
	if part.Leader < 0 {
		p.forget(t.m.Topic)
		t.last = fmt.Errorf("partition %d: %w", t.partition, kafka.LeaderNotAvailable)
		return 0, false
	}
	return part.Leader, true
}

func (t *item) notFound(code error) {
	t.lost++
	t.last = code
	if t.lost >= tries {
		t.finish(fmt.Errorf("topic %q: %w", t.m.Topic, brokers.ErrNoDestination))
	}
}

// partition is where Java's producer would put a message.
func (p *publisher) partition(m *brokers.Outgoing, n int32) int32 {
	switch {
	case m.Partition != nil && *m.Partition >= 0:
		return *m.Partition % n
	case m.Key == nil:
		return int32(p.robin.Add(1) % uint32(n))
	}
	return int32(murmur2(m.Key)&0x7fffffff) % n
}

// send does one request and decides its items where it can.
func (p *publisher) send(ctx context.Context, leader int32, batches []*batch) {
	res, err := p.cluster.Raw(ctx, leader, replicating+cluster.Short, newProduceRequest(p.cluster.ClientID(), batches))
	if err != nil {
		sent := !errors.As(err, new(*cluster.NotSentError))
		for _, b := range batches {
			p.forget(b.topic)
			for _, t := range b.items {
				t.last = err
				if sent { // from the first byte on the broker may have all of it
					t.maybe = err
				}
			}
		}
		return
	}
	codes := res.(*produceAnswer).codes
	for i, b := range batches {
		p.decide(b, codes[i])
	}
}

// decide acts on the code for one batch.
func (p *publisher) decide(b *batch, code kafka.Error) {
	for _, t := range b.items {
		t.last = code
		switch code {
		case 0:
			t.finish(nil)
		case kafka.MessageSizeTooLarge, kafka.RecordListTooLarge, invalidRecord:
			// The code is the batch's. Alone, the faulty one fails by itself.
			if len(b.items) > 1 {
				t.alone, t.last = true, nil
				continue
			}
			if code == invalidRecord {
				t.finish(fmt.Errorf("topic %q: refused: %w", b.topic, code))
				continue
			}
			t.finish(fmt.Errorf("topic %q: %d bytes: %w", b.topic, b.size, brokers.ErrTooLarge))
		case kafka.TopicAuthorizationFailed, kafka.ClusterAuthorizationFailed:
			t.finish(fmt.Errorf("topic %q: %w", b.topic, brokers.ErrUnauthorized))
		case kafka.InvalidTopic, kafka.UnknownTopicOrPartition:
			p.forget(b.topic)
			t.notFound(code)
		case kafka.RequestTimedOut, kafka.NotEnoughReplicasAfterAppend:
			// The leader has it, and perhaps keeps it.
			t.maybe = code
		case kafka.LeaderNotAvailable, kafka.NotLeaderForPartition, kafka.ReplicaNotAvailable, kafka.NotEnoughReplicas,
			kafka.KafkaStorageError, kafka.BrokerNotAvailable, kafka.NetworkException:
			p.forget(b.topic)
		default:
			t.finish(fmt.Errorf("topic %q: refused: %w", b.topic, code))
		}
	}
}

// invalidRecord is a code that kafka-go has no name for, for example of a
// message without a key in a compacted topic.
const invalidRecord kafka.Error = 87
