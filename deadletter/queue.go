package deadletter

import (
	"context"
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
	// Consumer whose letters they are; where empty, the one that the first
	// letter names. Letters of another consumer in the topic are an error, for
	// its records are not in this store.
	Consumer string
	Broker   Broker
	Store    Store
	// Window is how long the consumer's store remembers what is finished; the
	// shortest one of its routes. A letter without a record is not sent when it
	// is older, since its operation may have been done meanwhile and forgotten.
	// Default 14 days, the consumer's own default.
	Window time.Duration
	// Read makes a letter of a message of the topic; default [Decode]. See
	// [Foreign] for letters that others have written.
	Read func(*brokers.Delivery) (Letter, error)
}

// Broker is what a [Queue] needs of a broker: every adapter that can browse.
type Broker interface {
	brokers.Browser
	Publish(ctx context.Context, messages []brokers.Outgoing) []error
	Destinations(consumer, topic string) brokers.Destinations
}

// Store is what a [Queue] needs of the consumer's store; see [dedup.Store].
type Store interface {
	Apply(ctx context.Context, ops []dedup.Op) ([]dedup.Answer, error)
	Lookup(ctx context.Context, keys []dedup.Key) ([]dedup.Record, error)
	Letters(ctx context.Context, ids []string) ([]dedup.Letter, error)
	Scan(ctx context.Context, consumer string) iter.Seq2[dedup.Record, error]
	ScanLetters(ctx context.Context, consumer string) iter.Seq2[dedup.Letter, error]
	Info() dedup.Info
}

// Place is where a letter lies in its dead-letter topic.
type Place struct {
	Partition int32
	Offset    int64
}

// Entry is a letter as it lies in the topic, and what the store knows of it.
type Entry struct {
	Letter Letter
	At     Place
	Stored time.Time // when the dead-letter topic stored it
	// Note of the store; State is LetterNone where there is none: the letter is
	// not noted yet, or was written by somebody else, or has been forgotten
	// together with the record of its operation.
	Note dedup.Letter
	// Err says why the message is no readable letter. Letter has only the
	// message then, and an ID by its place.
	Err error
}

const defaultWindow = 14 * 24 * time.Hour
