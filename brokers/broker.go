package brokers

import (
	"context"
	"time"
)

// Broker is a connection to one Kafka cluster or NATS server, made by an
// adapter's Connect. A Broker may serve several consumers at once.
type Broker interface {
	// Open checks that everything the spec names exists and fits, makes what
	// is missing where the adapter was told to (Create), joins the group or
	// binds the durable, and begins to fetch.
	//
	// It blocks for some round trips until ctx ends and may be called
	// concurrently. The adapter keeps a copy of spec.
	//
	// Errors: a [*StartError] for what no retry mends (wrong credentials, a
	// missing topic, a mismatch, another software in the group); anything else
	// is transient, and the caller retries.
	Open(ctx context.Context, spec Spec) (Source, error)

	// Destinations names where letters and waiting copies of one topic go, by
	// the adapter's convention, without asking the broker.
	Destinations(consumer, topic string) Destinations

	// Publish stores each message and returns one error for each, in the same
	// order; nil means that all in-sync replicas have it (JetStream: its
	// PubAck came). One message that cannot be stored never fails another.
	//
	// It blocks until every message is decided or ctx ends, may be called
	// concurrently, and keeps nothing of messages after it returns.
	//
	// Errors of an item: [ErrTooLarge], [ErrNoDestination] and
	// [ErrUnauthorized] wrapped with the topic; an error that wraps
	// [ErrUnknownOutcome] when the message may or may not be stored (ctx ended,
	// the connection broke): publish again with the same ID. Anything else
	// was not stored. The adapter retries what is transient while ctx lives.
	Publish(ctx context.Context, messages []Outgoing) []error

	// Close ends the connection. Sources must be closed before. It does not
	// wait for the broker.
	//
	// Errors: one of the connection, which is gone all the same.
	Close() error
}

// Destinations are a consumer's own topics for one source topic.
type Destinations struct {
	DeadLetter string // where letters are published
	Retry      string // where waiting copies are published
}

// Source hands out deliveries of one consumer and takes their settlement.
// All methods may be called concurrently, but Receive only by one goroutine.
//
// While a delivery is unsettled the adapter keeps it: it tells the broker
// about progress where the broker has a deadline (JetStream's AckWait), from
// the moment it reaches the client's memory, and never moves a position past
// it.
type Source interface {
	// Receive blocks until there is at least one delivery and returns those
	// at hand, at most limit.Messages and about limit.Bytes (one delivery may
	// pass it). Order within a lane is the broker's. It never hands out
	// deliveries of a lane that ended.
	//
	// Errors: ctx.Err(); [ErrClosed] after Close; a [*StartError] when the
	// source can no longer work without a person (consumer or stream deleted,
	// fenced by a twin, a mark by another store). What heals by itself is
	// reported through [Events.Degraded], and Receive keeps blocking.
	Receive(ctx context.Context, limit Limit) ([]*Delivery, error)

	// Ack says that the outcome of each is durable; the broker will not
	// deliver it again, save after a crash of the broker or of this process.
	// Deliveries of ended lanes are ignored and counted in the error.
	//
	// It does not wait for the broker. Kafka's position follows at an
	// interval, on revocation and at Close, over a contiguous prefix only.
	//
	// Errors: tells how many could not be acknowledged and why; they will be
	// delivered again, which the record answers. The caller only reports it.
	Ack(deliveries []*Delivery) error

	// Defer gives deliveries back, to be delivered again not before the delay
	// (0: as soon as the broker likes). A deferred one costs a few bytes until
	// then, holds nothing of its payload and keeps its place: a position does
	// not pass it. While the source is closing or a lane is revoked, it is
	// left to the next owner. It does not wait for the broker.
	//
	// Errors: tells how many could not be given back and why; the broker
	// delivers them again by itself. The caller only reports it.
	Defer(deliveries []*Delivery, delay time.Duration) error

	// Abandon stops telling the broker about progress without settling: the
	// handler hangs, and the broker may hand the message to somebody else.
	Abandon(deliveries []*Delivery)

	// Pause stops (or resumes) handing out deliveries of one lane, while
	// others go on. Deliveries already received are not affected.
	Pause(lane *Lane, paused bool)

	// Mark keeps a short text (≤ [MaxMark] bytes) where the broker keeps the
	// consumer's state, for the next owner to find in [Lane.Mark]. It may block
	// for one round trip, or only note the text for the next commit.
	//
	// Errors: a [*MarkError] with the text found when another process wrote
	// one since this source read it.
	Mark(ctx context.Context, mark string) error

	// Floors reports, for each owned lane, how far everything is acknowledged:
	// every offset below Next is settled. Lanes that are not known yet are
	// left out. It may block for one round trip of each.
	//
	// Errors: ctx.Err(); what has ended the source, such as [ErrClosed]; one of
	// the connection, after which it may be asked again.
	Floors(ctx context.Context) ([]Floor, error)

	// Close gives back what is unsettled, commits what is settled, leaves the
	// group (static members do not) and stops fetching. It blocks until ctx
	// ends at most; nothing is sent after it returns. It calls no events: who
	// closes has drained before. Closing again does nothing.
	//
	// Errors: tells what could not be given back or committed in time; it is
	// delivered again, which the record answers.
	Close(ctx context.Context) error
}

// MaxMark is the longest text, in bytes, that [Source.Mark] takes: a store's name
// and a number, with room to spare. Kafka keeps 4 KiB beside a position.
const MaxMark = 512

// MarkReader is implemented by a [Source] that may own no lane while another
// process owns all, and so finds no mark with a lane. It is optional.
type MarkReader interface {
	// Marks returns every text that [Source.Mark] has kept anywhere for the
	// consumer, whoever owns the lanes, each once. It writes nothing, and
	// blocks for one round trip.
	//
	// Errors: ctx.Err(); one of the connection: nothing is known of the marks.
	Marks(ctx context.Context) ([]string, error)
}

// MarkBrowser is implemented by a [Broker] that shows a consumer's marks to
// somebody who is none. It is optional.
type MarkBrowser interface {
	// ConsumerMarks returns every text that [Source.Mark] has kept for the
	// consumer of topics, each once; none where it never ran. It joins nothing,
	// writes nothing, and blocks for some round trips.
	//
	// Errors: ctx.Err(); what the server or the connection says, also where rights
	// are missing: then nothing is known of the marks.
	ConsumerMarks(ctx context.Context, consumer string, topics []string) ([]string, error)
}

// Limit bounds one Receive. Both are at least 1.
type Limit struct {
	Messages int
	Bytes    int
}

// Floor is how far one lane is acknowledged without a gap.
type Floor struct {
	Lane *Lane
	Next int64 // the first offset that is not settled
	Lag  int64 // messages of the lane beyond it, -1 when unknown
}
