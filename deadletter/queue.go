package deadletter

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/dedup"
)

// Queue is the dead letters of one consumer: the topic in which they lie, and
// the store that knows what became of them. Its methods may be called
// concurrently, and each may be called again after a crash at any point.
type Queue struct {
	// Topic is the dead-letter topic, or the subject on JetStream.
	Topic string
	// Consumer whose letters they are; [Queue.Owner] finds out. Letters of
	// another consumer in the topic are an error, for its records are not in
	// this store.
	Consumer string
	Broker   Broker
	Store    Store
	// Window is how long the consumer's store remembers what is finished; the
	// shortest one of its routes. A letter without a record is not sent when it
	// is older, since its operation may have been done meanwhile and forgotten.
	// Default [dedup.DefaultWindow], as the consumer's own; a plan takes a shorter
	// one that it finds in the consumer's records.
	Window time.Duration
	// Read makes a letter of a message of the topic; default [Decode]. See
	// [Foreign] for letters that others have written.
	Read func(*brokers.Delivery) (Letter, error)
}

// Broker is what a [Queue] needs of a broker: every adapter that can browse.
type Broker interface {
	brokers.Browser
	// Publish is as that of [brokers.Broker].
	Publish(ctx context.Context, messages []brokers.Outgoing) []error
	// Destinations is as that of [brokers.Broker].
	Destinations(consumer, topic string) brokers.Destinations
}

// Store is what a [Queue] needs of the consumer's store; see [dedup.Store].
type Store interface {
	Apply(ctx context.Context, ops []dedup.Op) ([]dedup.Answer, error)        // for one commit
	Lookup(ctx context.Context, keys []dedup.Key) ([]dedup.Record, error)     // of several keys at once
	Letters(ctx context.Context, ids []string) ([]dedup.Letter, error)        // notes by dl-id
	Scan(ctx context.Context, consumer string) iter.Seq2[dedup.Record, error] // all records of a consumer
	// ScanLetters goes through all notes of a consumer.
	ScanLetters(ctx context.Context, consumer string) iter.Seq2[dedup.Letter, error]
	Info() dedup.Info // names the store that a plan was made with
}

func (q *Queue) window() time.Duration {
	if q.Window > 0 {
		return q.Window
	}
	return dedup.DefaultWindow
}

func (q *Queue) read(d *brokers.Delivery) (Letter, error) {
	if q.Read != nil {
		return q.Read(d)
	}
	return Decode(d)
}

// Owner is the consumer that the first letter of the topic names.
//
// Errors: [ErrNotFound] where there is no letter that names one among the first
// thousand messages; those of the broker's Browse.
func (q *Queue) Owner(ctx context.Context) (string, error) {
	n := 0
	for d, err := range q.Broker.Browse(ctx, q.Topic, brokers.From{}) {
		if err != nil {
			return "", err
		}
		if l, err := q.read(d); err == nil && l.Consumer != "" {
			return l.Consumer, nil
		}
		if n++; n == 1000 {
			break
		}
	}
	return "", fmt.Errorf("%w: a letter in %s that names its consumer", ErrNotFound, q.Topic)
}

// know asks the store about letters and records at once.
func (q *Queue) know(ctx context.Context, ids []string, keys []dedup.Key) (notes []dedup.Letter, records []dedup.Record, err error) {
	if len(ids) > 0 {
		notes, err = dedup.Letters(ctx, q.Store, ids)
	}
	if err == nil && len(keys) > 0 {
		records, err = dedup.Lookup(ctx, q.Store, keys)
	}
	return notes, records, err
}

// Errors of a [Queue].
var (
	ErrNotFound = errors.New("not found")
	// ErrRefused says that nothing was changed, since a guard does not hold.
	ErrRefused = errors.New("refused")
)

// ForeignError says that a topic holds letters of another consumer.
type ForeignError struct {
	Topic, Consumer, Found string
}

func (e *ForeignError) Error() string {
	if e.Consumer == "" {
		return fmt.Sprintf("%s holds letters of consumer %q, and no consumer was named", e.Topic, e.Found)
	}
	return fmt.Sprintf("%s holds letters of consumer %q, not of %q: its records are in another store", e.Topic, e.Found, e.Consumer)
}
