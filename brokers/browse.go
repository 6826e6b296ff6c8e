package brokers

import (
	"context"
	"iter"
	"time"
)

// Browser is a [Broker] that can also show what a topic holds, to people and
// to replays.
type Browser interface {
	// Browse yields what topic holds at the moment when the iteration begins:
	// within a partition in order of the offsets, and partition after partition.
	// On JetStream topic is a subject, which may have wildcards, or the name of a
	// stream, which goes first. What is deleted meanwhile may be left out.
	//
	// It joins no group, commits nothing and leaves nothing at the broker. Each
	// partition has one lane, of which Topic (the stream's name on JetStream),
	// Partition, Source and Backlog are set: the same Source as the lanes of a
	// consumer, and about how many messages were there to be read. Deliveries are
	// not settled, cannot be, and stay valid.
	//
	// It blocks while messages come from the broker, and reads no more of them
	// than some megabytes ahead of the caller, who may stop early and may take any
	// time. Iterating again begins anew. It may be called concurrently.
	//
	// Errors, yielded once, last, and with a nil delivery: [ErrNoDestination] and
	// [ErrUnauthorized] wrapped with the topic; a [*StartError]; ctx.Err();
	// [ErrClosed]; the place of what is damaged; an error of the connection that
	// did not heal within half a minute.
	Browse(ctx context.Context, topic string, from From) iter.Seq2[*Delivery, error]

	// Inspect describes topics or, on JetStream, the streams that hold them, as
	// far as the rights of the connection allow. It returns one [TopicInfo] for
	// each, in the same order, also for those that are missing or hidden, which is
	// no error. It blocks for some round trips and may be called concurrently.
	//
	// Errors: a [*StartError] for a subject that several streams have; ctx.Err();
	// those of a closed broker and of the connection.
	Inspect(ctx context.Context, topics []string) ([]TopicInfo, error)
}

// From says where to begin to browse. The zero value is everything.
type From struct {
	// Since leaves out what the broker stored before; on Kafka what lies before
	// the first message of the partition that has this time or a later one.
	Since time.Time
	// Offsets, where not nil, are the first ones wanted of each partition
	// (JetStream: 0); partitions that it does not name are left out, and those
	// that are not there ignored. An offset below the log's start begins there.
	// With Since, the later of both counts.
	Offsets map[int32]int64
}

// TopicInfo is how a topic is set up. A limit that is not set is 0.
type TopicInfo struct {
	Topic   string
	Missing bool // all else is zero then
	// Hidden says that the rights of the connection do not allow to see all of
	// it: what is zero then is not known.
	Hidden     bool
	Identity   string // the Source of its lanes
	Partitions int32  // 1 on JetStream
	Replicas   int32
	// InSync is how many replicas confirm a publish (min.insync.replicas); on
	// JetStream the majority.
	InSync     int32
	MaxAge     time.Duration // how long messages are kept
	MaxBytes   int64         // how many bytes are kept; of a Kafka partition
	MaxCount   int64         // how many messages are kept
	MaxMessage int64         // bytes of one message
	Compacted  bool
	// DropsOld says that at a limit old messages go; else new ones are refused.
	DropsOld bool
	// ConsumedOnce says that reading removes (work queue or interest retention).
	ConsumedOnce bool
	// InMemory says that nothing is on disk.
	InMemory bool
	Messages int64 // about how many are there, -1 when unknown
}
