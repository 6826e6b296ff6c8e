package brokers

import "time"

// Header is one header of a message. A name may occur more than once, and the
// order is kept. Value is bytes as the broker stored them; nil and empty are
// different where the broker tells them apart (Kafka does, NATS does not).
type Header struct {
	Key   string
	Value []byte
}

// Lane is one period of owning one partition: a Kafka partition from its
// assignment to its revocation, or a JetStream stream for as long as the
// source is open. The same partition gained again is another Lane, so pointer
// equality tells whether a late finisher still owns what it read.
//
// A Lane is immutable and made by the adapter.
type Lane struct {
	// Topic is the topic or stream that the user named, also on a retry lane.
	Topic string
	// Partition is the Kafka partition; 0 on JetStream.
	Partition int32
	// Retry says that the lane carries copies of messages that wait: the
	// consumer's own retry topic or stream.
	Retry bool
	// Source identifies what the offsets count in, and changes when the topic
	// or stream is deleted and made again: the name, "@", and the topic id or
	// the stream's creation time. Positions of different Sources are never
	// compared.
	Source string
	// Mark is the text that an earlier owner left beside the position with
	// [Source.Mark]; empty when there is none.
	Mark string
	// Backlog is about how many messages waited when the lane began, -1 when
	// unknown.
	Backlog int64
}

// Delivery is one handing-over of one message. The adapter owns the struct
// and never reuses it; Key, Value and Headers stay valid and must not be
// written to.
type Delivery struct {
	Lane *Lane
	// Offset is the Kafka offset or the JetStream stream sequence.
	Offset int64
	// Subject is the JetStream subject; empty on Kafka.
	Subject string
	// Key is the broker's own key, nil when there is none. NATS has none.
	Key []byte
	// Value is the payload. Nil is a tombstone on Kafka.
	Value []byte
	// Headers in stored order, nil when there are none.
	Headers []Header
	// Time is when the broker stored the message, or the producer's time
	// where the topic is configured so.
	Time time.Time
	// Handle is the adapter's own.
	Handle any
}

// Size is what the delivery counts against a limit in bytes: key, value,
// headers and a fixed 128 bytes for the struct.
func (d *Delivery) Size() int {
	n := 128 + len(d.Key) + len(d.Value)
	for _, h := range d.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}

// Outgoing is one message to publish.
type Outgoing struct {
	// Topic is a Kafka topic or a JetStream subject, mostly from
	// [Destinations].
	Topic   string
	Key     []byte
	Value   []byte
	Headers []Header
	// Subject is the JetStream subject that the message was first published to,
	// for a copy that waits at a [Destinations.Retry]: the adapter gives it back
	// in [Delivery.Subject]. Kafka ignores it.
	Subject string
	// ID, where not empty, makes a repeat of the publish harmless as far as
	// the broker can: JetStream's message id. Kafka ignores it.
	ID string
	// Partition, where not nil, asks for that Kafka partition in place of the
	// one that the key hashes to.
	Partition *int32
}
