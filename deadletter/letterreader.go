package deadletter

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"

	"github.com/onceward/onceward/brokers"
)

// errGone says that a message is not where it was.
var errGone = errors.New("message is not there any more")

// letterReader reads letters at given places, mostly one after the other.
type letterReader struct {
	q          *Queue
	to         Target
	cursors    map[int32]*cursor
	partitions map[string]int32 // of source topics
}

// cursor is where one partition has been read to.
type cursor struct {
	next func() (*brokers.Delivery, error, bool)
	stop func()
	at   int64             // the next offset that may come
	held *brokers.Delivery // read, and beyond what was asked for
}

const (
	// farAhead is from where it is cheaper to begin anew than to read on.
	farAhead = 5_000
	// maxCursors at once: each may hold a connection, of which there are few, and
	// a plan goes partition by partition but for what shares an ordering key.
	maxCursors = 4
)

func (r *letterReader) close() {
	for p := range r.cursors {
		r.drop(p)
	}
}

func (r *letterReader) drop(partition int32) {
	r.cursors[partition].stop()
	delete(r.cursors, partition)
}

// load reads what is to be sent for an item. why says why it cannot be sent.
//
// Errors: errGone; those of the broker.
func (r *letterReader) load(ctx context.Context, w *work) (why string, err error) {
	if w.it.From != nil {
		return r.loadOrigin(ctx, w)
	}
	if w.it.At == nil {
		return "the plan does not say where it lies", nil
	}
	d, err := r.read(ctx, *w.it.At)
	if err != nil {
		return "", err
	}
	e := r.q.entry(d)
	switch {
	case e.Err == nil && e.Letter.ID != w.it.ID:
		return "", errGone // the topic was made anew
	case e.Err != nil || e.Letter.Key.Scope != w.it.Scope || e.Letter.Key.ID != w.it.Key:
		// Whoever applies the plan reads letters by another rule.
		return "it is not read as when the plan was made", nil
	}
	e.Note = w.e.Note
	w.e = e
	l := &w.e.Letter
	if l.Source.Topic == "" {
		return "the letter does not say where its message came from", nil
	}
	switch {
	case r.to != ToSource:
	case l.Source.JetStream && commands(l.Source.Subject):
		return "the letter names a subject by which the server is commanded", nil
	case !l.Source.JetStream && r.q.Read == nil && r.q.Broker.Destinations(r.q.Consumer, l.Source.Topic).DeadLetter != r.q.Topic:
		// Whoever can write letters must not have the operator write to any topic.
		return fmt.Sprintf("the letter says that it is of %s, whose letters lie elsewhere", l.Source.Topic), nil
	}
	if l.Pointer {
		if why, err := r.loadPayload(ctx, l); why != "" || err != nil {
			return why, err
		}
	}
	if w.partitions, err = r.sourcePartitions(ctx, l); err != nil {
		return "", err
	}
	return "", nil
}

// read returns the message at a place of the dead-letter topic.
func (r *letterReader) read(ctx context.Context, at Place) (*brokers.Delivery, error) {
	c := r.cursors[at.Partition]
	if c != nil && (at.Offset < c.at || at.Offset-c.at > farAhead) {
		r.drop(at.Partition)
		c = nil
	}
	fresh := c == nil
	if fresh {
		if len(r.cursors) >= maxCursors {
			r.close()
		}
		c = &cursor{at: at.Offset}
		c.next, c.stop = iter.Pull2(r.q.Broker.Browse(ctx, r.q.Topic, brokers.From{Offsets: map[int32]int64{at.Partition: at.Offset}}))
		r.cursors[at.Partition] = c
	}
	for {
		d := c.held
		if c.held = nil; d == nil {
			var err error
			var more bool
			if d, err, more = c.next(); err != nil {
				r.drop(at.Partition)
				if !fresh {
					return r.read(ctx, at) // who waits for a canary leaves a peer waiting, which may have ended it
				}
				return nil, err
			} else if !more {
				return nil, errGone
			}
		}
		switch {
		case d.Offset > at.Offset:
			c.held, c.at = d, at.Offset+1
			return nil, errGone
		case d.Offset == at.Offset:
			c.at = at.Offset + 1
			return d, nil
		}
	}
}

// origin reads one message of a source.
func (r *letterReader) origin(ctx context.Context, topic, identity string, partition int32, offset int64) (*brokers.Delivery, error) {
	for d, err := range r.q.Broker.Browse(ctx, topic, brokers.From{Offsets: map[int32]int64{partition: offset}}) {
		if errors.Is(err, brokers.ErrNoDestination) {
			return nil, errGone
		}
		if err != nil {
			return nil, err
		}
		if d.Offset != offset || identity != "" && d.Lane.Source != identity {
			return nil, errGone
		}
		return d, nil
	}
	return nil, errGone
}

// loadPayload reads the message that a pointer letter points to.
func (r *letterReader) loadPayload(ctx context.Context, l *Letter) (why string, err error) {
	s := &l.Source
	d, err := r.origin(ctx, s.Topic, s.Identity, s.Partition, s.Offset)
	if errors.Is(err, errGone) {
		return fmt.Sprintf("its payload was too large for the letter, and is not at %s/%d/%d any more", s.Topic, s.Partition, s.Offset), nil
	}
	if err != nil {
		return "", err
	}
	if sum := sha256.Sum256(d.Value); hex.EncodeToString(sum[:]) != l.SHA256 {
		return "its payload was too large for the letter, and another message is where it lay", nil
	}
	l.BrokerKey, l.Value, l.Headers, l.Pointer = d.Key, d.Value, original(d.Headers), false
	return "", nil
}

// loadOrigin reads a message that is no letter where it was first published.
func (r *letterReader) loadOrigin(ctx context.Context, w *work) (why string, err error) {
	from := w.it.From
	topic := cmp.Or(topicOf(from.Source), from.Source)
	d, err := r.origin(ctx, topic, from.Source, from.Partition, from.Offset)
	if err != nil {
		return "", err
	}
	w.e.Letter = Letter{
		Consumer: r.q.Consumer, Key: w.it.key(r.q.Consumer), Fingerprint: w.r.Fingerprint,
		BrokerKey: d.Key, Value: d.Value, Headers: original(d.Headers),
		Source: Source{
			Topic: topic, Identity: from.Source, Subject: d.Subject, Partition: from.Partition, Offset: from.Offset,
			JetStream: d.Subject != "", Time: d.Time,
		},
	}
	w.partitions, err = r.sourcePartitions(ctx, &w.e.Letter)
	return "", err
}

// sourcePartitions is how many partitions a topic has today, asked once: a
// message without a key goes to its own where there still is one.
func (r *letterReader) sourcePartitions(ctx context.Context, l *Letter) (int32, error) {
	topic := l.Source.Topic
	if r.to != ToSource || l.Source.JetStream || l.BrokerKey != nil {
		return 0, nil
	}
	if n, known := r.partitions[topic]; known {
		return n, nil
	}
	infos, err := r.q.Broker.Inspect(ctx, []string{topic})
	if err != nil {
		return 0, err
	}
	if r.partitions == nil {
		r.partitions = map[string]int32{}
	}
	for _, i := range infos {
		r.partitions[topic] = i.Partitions
	}
	return r.partitions[topic], nil
}
