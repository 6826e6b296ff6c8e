package natsbroker

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceward/onceward/brokers"
)

// markBucket is the key-value bucket that all consumers of an account share.
// It holds one short text for each stream of each consumer.
const markBucket = "onceward"

// marks are the source's texts in the bucket. It is written by compare-and-set
// only: a read may come from a replica that is behind, and then the write fails.
type marks struct {
	kv      jetstream.KeyValue
	mu      sync.Mutex // held while a mark is written: they are written in order
	entries []*entry
}

// entry is what we know of one key; guarded by marks.mu.
type entry struct {
	key      string
	revision uint64 // that we read or wrote last; 0 when there was none
	// unsure are texts that we sent without hearing what became of them. Found
	// in the bucket they are ours, and nobody else's.
	unsure []string
}

// openMarks reads the marks of the source and puts them into its lanes. The
// bucket is made when it is missing, also without Create: it holds no messages.
func openMarks(ctx context.Context, s *source) (*marks, error) {
	kv, err := s.b.js.KeyValue(ctx, markBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		replicas := 1
		for _, l := range s.lanes {
			if of, err := s.b.js.Stream(ctx, l.stream); err == nil {
				replicas = max(replicas, of.CachedInfo().Config.Replicas)
			}
		}
		config := jetstream.KeyValueConfig{
			Bucket: markBucket, Description: "marks of onceward consumers' stores", History: 1, MaxValueSize: 1024, Replicas: replicas,
		}
		kv, err = s.b.js.CreateKeyValue(ctx, config)
		if errors.Is(err, jetstream.ErrBucketExists) {
			kv, err = s.b.js.KeyValue(ctx, markBucket)
		}
		if err != nil {
			return nil, fmt.Errorf("make key-value bucket %q (nats kv add %s --history=1 --replicas=%d): %w", markBucket, markBucket, replicas, err)
		}
	}
	if err != nil {
		return nil, err
	}
	m := &marks{kv: kv}
	for _, topic := range s.spec.Topics {
		key := markKey(topic, s.spec.Consumer)
		found, err := get(ctx, kv, key)
		if err != nil {
			return nil, err
		}
		e := &entry{key: key}
		m.entries = append(m.entries, e)
		if found == nil {
			continue
		}
		e.revision = found.Revision()
		for _, l := range s.lanes {
			if l.Topic == topic {
				l.Mark = string(found.Value())
			}
		}
	}
	return m, nil
}

var plainKey = regexp.MustCompile(`^[-_a-zA-Z0-9]+$`)

// markKey is the stream and the consumer, a dot between them, which neither
// can hold; what a key cannot hold is in base64 after an equals sign.
func markKey(stream, consumer string) string {
	part := func(s string) string {
		if plainKey.MatchString(s) {
			return s
		}
		return "=" + base64.RawURLEncoding.EncodeToString([]byte(s))
	}
	return part(stream) + "." + part(consumer)
}

// get reads a key; nil when it has no value.
func get(ctx context.Context, kv jetstream.KeyValue, key string) (jetstream.KeyValueEntry, error) {
	entry, err := kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, nil
	}
	return entry, err
}

// ConsumerMarks implements [brokers.MarkBrowser].
func (b *Broker) ConsumerMarks(ctx context.Context, consumer string, topics []string) ([]string, error) {
	kv, err := b.js.KeyValue(ctx, markBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("marks of consumer %q: %w", consumer, err)
	}
	var all []string
	for _, topic := range topics {
		found, err := get(ctx, kv, markKey(topic, consumer))
		if err != nil {
			return nil, fmt.Errorf("mark of consumer %q on stream %q: %w", consumer, topic, err)
		}
		if found != nil && !slices.Contains(all, string(found.Value())) {
			all = append(all, string(found.Value()))
		}
	}
	return all, nil
}

// Mark implements [brokers.Source]: one compare-and-set for each stream.
func (s *source) Mark(ctx context.Context, mark string) error {
	if len(mark) > brokers.MaxMark {
		return fmt.Errorf("mark is %d bytes, at most %d", len(mark), brokers.MaxMark)
	}
	if err := s.failure(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, answering)
	defer cancel()
	m := s.marks
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.entries {
		if err := m.set(ctx, e, mark); err != nil {
			return err
		}
	}
	return nil
}

// set writes the mark over what we know to be there.
func (m *marks) set(ctx context.Context, e *entry, mark string) error {
	for {
		revision, err := m.write(ctx, e, mark)
		if err == nil {
			e.revision, e.unsure = revision, nil
			return nil
		}
		if !conflict(err) {
			// Perhaps it is stored. Every text of the last tries may be found.
			if e.unsure = append(e.unsure, mark); len(e.unsure) > 64 {
				e.unsure = e.unsure[1:]
			}
			return fmt.Errorf("write mark %q: %w", e.key, err)
		}
		found, readErr := get(ctx, m.kv, e.key)
		switch {
		case readErr != nil:
			return fmt.Errorf("read mark %q: %w", e.key, readErr)
		case found == nil || found.Revision() == e.revision:
			// Deleted by hand, or read from a replica that is behind.
			return fmt.Errorf("write mark %q: %w", e.key, err)
		case !slices.Contains(e.unsure, string(found.Value())):
			return &brokers.MarkError{Found: string(found.Value())}
		}
		e.revision, e.unsure = found.Revision(), nil
	}
}

func (m *marks) write(ctx context.Context, e *entry, mark string) (uint64, error) {
	if e.revision == 0 {
		return m.kv.Create(ctx, e.key, []byte(mark))
	}
	return m.kv.Update(ctx, e.key, []byte(mark), e.revision)
}

// conflict reports whether a write failed since the key had another revision.
func conflict(err error) bool {
	var api *jetstream.APIError
	return errors.Is(err, jetstream.ErrKeyExists) || errors.As(err, &api) &&
		(api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}
