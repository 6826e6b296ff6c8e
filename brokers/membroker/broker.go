package membroker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/brokers"
)

// Config describes the broker. The zero value is a broker without topics.
type Config struct {
	// Topics that exist from the start, and how many partitions each has.
	Topics map[string]int
	// MaxMessageBytes bounds key, value and headers of one message; a larger
	// one is refused with [brokers.ErrTooLarge]. Default 1 MiB, as on Kafka
	// and NATS.
	MaxMessageBytes int
}

// Broker is a broker in memory. Make it with [New].
type Broker struct {
	maxBytes int
	born     time.Time

	mu        sync.Mutex // guards everything below and all topics, groups, lanes
	topics    map[string]*topic
	made      int // topics made so far, for their identity
	groups    map[string]*group
	failures  map[string]error // by topic: what publishing answers
	unsure    map[string]int   // by topic: stored, but answered with ErrUnknownOutcome
	available chan struct{}    // closed while the broker answers
	closed    bool
}

var (
	_ brokers.Broker  = (*Broker)(nil)
	_ brokers.Browser = (*Broker)(nil)
)

// ErrUnavailable is the error of calls that end while the broker does not
// answer (see [Broker.SetAvailable]). It is transient.
var ErrUnavailable = errors.New("membroker: broker does not answer")

// New makes a broker. It panics when a topic has no partition.
func New(config Config) *Broker {
	b := &Broker{
		maxBytes: config.MaxMessageBytes, born: time.Now(),
		topics: map[string]*topic{}, groups: map[string]*group{},
		failures: map[string]error{}, unsure: map[string]int{}, available: make(chan struct{}),
	}
	if b.maxBytes <= 0 {
		b.maxBytes = 1 << 20
	}
	close(b.available)
	for name, partitions := range config.Topics {
		b.AddTopic(name, partitions)
	}
	return b
}

// AddTopic makes a topic; it does nothing when there is one. It panics when
// partitions is below 1.
func (b *Broker) AddTopic(name string, partitions int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.addTopic(name, partitions)
}

func (b *Broker) addTopic(name string, partitions int) *topic {
	if partitions < 1 {
		panic(fmt.Sprintf("membroker: topic %q needs at least one partition", name))
	}
	if t := b.topics[name]; t != nil {
		return t
	}
	b.made++
	t := &topic{name: name, source: fmt.Sprintf("%s@%d", name, b.made)}
	for i := range partitions {
		t.parts = append(t.parts, &partition{topic: t, id: int32(i)})
	}
	b.topics[name] = t
	return t
}

// RemoveTopic deletes a topic with its messages and positions. Sources that
// read it lose its lanes, and their Receive fails with a [*brokers.StartError].
func (b *Broker) RemoveTopic(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.topics[name]
	if t == nil {
		return
	}
	delete(b.topics, name)
	gone := &brokers.StartError{
		What: fmt.Sprintf("read topic %q", name), Wrong: "it was deleted", Mend: "make it again and restart",
	}
	for _, g := range b.groups {
		var readers []*source
		for _, p := range t.parts {
			delete(g.at, p)
			if l := g.lanes[p]; l != nil {
				readers = append(readers, l.owner)
			}
		}
		for _, s := range readers {
			s.end(gone, gone)
		}
		g.rebalance()
	}
}

// Produce stores messages in a topic, whatever faults are set for it; the
// Topic of each is ignored. It panics when there is no such topic.
func (b *Broker) Produce(name string, messages ...brokers.Outgoing) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.topics[name]
	if t == nil {
		panic(fmt.Sprintf("membroker: no topic %q", name))
	}
	now := time.Now()
	for i := range messages {
		p, err := t.place(&messages[i])
		if err != nil {
			panic("membroker: " + err.Error())
		}
		p.append(&messages[i], now)
	}
	b.wake(t)
}

// wake lets the readers of a topic look again.
func (b *Broker) wake(t *topic) {
	for _, g := range b.groups {
		for _, p := range t.parts {
			if l := g.lanes[p]; l != nil {
				l.owner.look()
			}
		}
	}
}

// Destinations names `<topic>.<consumer>.dlq` and `<topic>.<consumer>.retry`.
func (b *Broker) Destinations(consumer, topic string) brokers.Destinations {
	stem := topic + "." + consumer
	return brokers.Destinations{DeadLetter: stem + ".dlq", Retry: stem + ".retry"}
}

// Publish stores each message; see [brokers.Broker]. While the broker does not
// answer it waits until ctx ends.
//
// Errors of an item: what [Broker.FailPublish] set, [brokers.ErrTooLarge],
// [brokers.ErrNoDestination], and [brokers.ErrUnknownOutcome] for those that
// [Broker.LoseConfirmations] asked for or that ctx cut short.
func (b *Broker) Publish(ctx context.Context, messages []brokers.Outgoing) []error {
	errs := make([]error, len(messages))
	if err := b.reach(ctx); err != nil {
		for i := range errs {
			errs[i] = fmt.Errorf("publish to %q: %w: %w", messages[i].Topic, brokers.ErrUnknownOutcome, err)
		}
		return errs
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for i := range messages {
		if err := b.publish(&messages[i], now); err != nil {
			errs[i] = fmt.Errorf("publish to %q: %w", messages[i].Topic, err)
		}
	}
	return errs
}

func (b *Broker) publish(m *brokers.Outgoing, now time.Time) error {
	if b.closed {
		return brokers.ErrClosed
	}
	if err := b.failures[m.Topic]; err != nil {
		return err
	}
	t := b.topics[m.Topic]
	if t == nil {
		return brokers.ErrNoDestination
	}
	if n := size(m); n > b.maxBytes {
		return fmt.Errorf("%w: %d bytes, at most %d", brokers.ErrTooLarge, n, b.maxBytes)
	}
	p, err := t.place(m)
	if err != nil {
		return err
	}
	p.append(m, now)
	b.wake(t)
	if b.unsure[m.Topic] > 0 {
		b.unsure[m.Topic]--
		return fmt.Errorf("%w: the confirmation was lost", brokers.ErrUnknownOutcome)
	}
	return nil
}

// reach waits until the broker answers.
func (b *Broker) reach(ctx context.Context) error {
	for {
		b.mu.Lock()
		ready := b.available
		b.mu.Unlock()
		select {
		case <-ready:
			return nil
		default:
		}
		select {
		case <-ready:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrUnavailable, context.Cause(ctx))
		}
	}
}

// answers reports whether the broker is available; b.mu is held.
func (b *Broker) answers() bool {
	select {
	case <-b.available:
		return true
	default:
		return false
	}
}

// Open joins a member to the consumer's group. Destinations that are missing
// are made, with as many partitions as the topic has.
//
// Errors: a [*brokers.StartError] for a spec that is not valid, a missing topic
// and an unknown group in StartFrom; [ErrUnavailable] when ctx ended first.
func (b *Broker) Open(ctx context.Context, spec brokers.Spec) (brokers.Source, error) {
	if err := b.reach(ctx); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	what := fmt.Sprintf("open consumer %q", spec.Consumer)
	if b.closed {
		return nil, brokers.ErrClosed
	}
	if err := spec.Validate(); err != nil {
		return nil, &brokers.StartError{What: what, Wrong: "spec", Err: err}
	}
	spec.Topics = slices.Clone(spec.Topics)
	for _, name := range spec.Topics {
		if b.topics[name] == nil {
			return nil, &brokers.StartError{
				What: what, Wrong: fmt.Sprintf("topic %q does not exist", name), Mend: "call AddTopic first",
			}
		}
	}
	other := b.groups[spec.StartFrom.Group]
	if spec.StartFrom.Kind == brokers.StartGroup && other == nil {
		return nil, &brokers.StartError{What: what, Wrong: fmt.Sprintf("no group %q to start from", spec.StartFrom.Group)}
	}
	g := b.groups[spec.Consumer]
	if g == nil {
		g = &group{b: b, name: spec.Consumer, at: map[*partition]int64{}, lanes: map[*partition]*lane{}}
		b.groups[spec.Consumer] = g
	}
	for _, name := range spec.Topics {
		t, to := b.topics[name], b.Destinations(spec.Consumer, name)
		b.addTopic(to.DeadLetter, len(t.parts))
		for _, p := range b.addTopic(to.Retry, len(t.parts)).parts {
			if _, known := g.at[p]; !known {
				g.at[p] = 0
			}
		}
		for _, p := range t.parts {
			if _, known := g.at[p]; !known {
				g.at[p] = begin(p, spec.StartFrom, other)
			}
		}
	}
	s := newSource(b, g, spec)
	g.members = append(g.members, s)
	g.rebalance()
	return s, nil
}

// begin is the position of a consumer that has none. It is kept at once, so
// that a restart before the first ack does not choose again.
func begin(p *partition, from brokers.Start, other *group) int64 {
	switch from.Kind {
	case brokers.StartLatest:
		return p.end()
	case brokers.StartTime:
		return p.since(from.Time)
	case brokers.StartGroup:
		return other.at[p]
	}
	return p.start
}

// Close ends every source that is still open as [Broker.Crash] does, and
// refuses further calls. What is stored can still be looked at.
func (b *Broker) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	b.closed = true
	for _, g := range b.groups {
		g.crash(brokers.ErrClosed)
	}
	return nil
}
