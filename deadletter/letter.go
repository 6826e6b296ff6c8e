package deadletter

import (
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/dedup"
)

// Reason is why a message is dead: a closed list.
type Reason string

// The reasons.
const (
	ReasonTerminal  Reason = "terminal"   // the handler refused it for good
	ReasonExhausted Reason = "exhausted"  // its failures are used up
	ReasonCrashLoop Reason = "crash-loop" // it kills the process that runs it
	ReasonDecode    Reason = "decode"     // its payload cannot be read
	ReasonKey       Reason = "key"        // no usable business id, or no route
	ReasonConflict  Reason = "conflict"   // same key, other content
	ReasonTooOld    Reason = "too-old"    // passed before, and its record has expired
	ReasonInDoubt   Reason = "in-doubt"   // an effect may have happened
)

// Letter is a dead letter before it is written, or after it was read. Message
// is the original, byte for byte.
type Letter struct {
	ID          string // dl-id
	Consumer    string
	Reason      Reason
	Error       string // ≤ 1 KiB
	ErrorType   string
	Stack       string // panics, ≤ 4 KiB
	Failures    int
	Crashes     int
	FirstFailed time.Time
	LastFailed  time.Time
	Key         dedup.Key // zero without a usable key
	Run         uint32
	Fingerprint dedup.Fingerprint
	Source      Source
	AppVersion  string
	Traceparent string
	ReplayJob   string
	ReplayCount int

	// Message that died.
	BrokerKey []byte
	Value     []byte
	Headers   []brokers.Header // without dl-*
	// Pointer says that the payload was too large for the destination: the
	// letter has its SHA-256 and where it lies, and Value is nil.
	Pointer bool
	SHA256  string
	Size    int
}

// Source is where the message lies.
type Source struct {
	Topic     string // Kafka topic or JetStream stream
	Identity  string // brokers.Lane.Source
	Subject   string // JetStream only
	Partition int32
	Offset    int64 // Kafka offset or JetStream sequence
	JetStream bool
	Time      time.Time
}
