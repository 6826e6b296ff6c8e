package deadletter

import (
	"slices"
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

var reasons = [...]Reason{
	ReasonTerminal, ReasonExhausted, ReasonCrashLoop, ReasonDecode, ReasonKey, ReasonConflict, ReasonTooOld, ReasonInDoubt,
}

// Reasons are all of them.
func Reasons() []Reason { return slices.Clone(reasons[:]) }

// Valid says that r is one of the reasons.
func (r Reason) Valid() bool { return slices.Contains(reasons[:], r) }

// Letter is a dead letter before it is written, or after it was read: what
// died, and why. The zero value of a field means that it is not known.
type Letter struct {
	ID          string // dl-id, 1 to 128 bytes: see [ID], [ConflictID] and [IDAt]
	Consumer    string
	Reason      Reason
	Error       string // one line of at most 1 KiB
	ErrorType   string // at most 256 bytes, as AppVersion, Traceparent and ReplayJob
	Stack       string // of a panic, at most 4 KiB
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

	// The message that died, byte for byte.
	BrokerKey []byte
	Value     []byte
	Headers   []brokers.Header // without dl-*
	// Pointer says that the payload was too large for the destination: the
	// letter has its SHA-256 and where it lies, and Value is nil.
	Pointer bool
	SHA256  string // 64 hexadecimal digits, of the payload
	Size    int    // of the payload

	omitted string // by a pointer: value, and perhaps headers and key
}

// Omitted names what a pointer letter left out of the original for its size:
// "value", "value headers", "value key" or "value headers key"; empty for any
// other letter.
func (l *Letter) Omitted() string { return l.omitted }

// Source is where the message lies.
type Source struct {
	Topic     string // Kafka topic or JetStream stream
	Identity  string // brokers.Lane.Source; left out of a letter over 512 bytes
	Subject   string // JetStream only; left out of a letter over 2 KiB
	Partition int32
	Offset    int64 // Kafka offset or JetStream sequence
	JetStream bool
	Time      time.Time
}
