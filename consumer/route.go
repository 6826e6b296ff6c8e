package consumer

import (
	"context"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/dedup"
)

// Result is what a handler leaves behind for whoever sends the same operation
// again. Up to 4 KiB are kept with the record, larger ones as their SHA-256. It
// must not be changed after the handler has returned: it is written later.
type Result []byte

// Handler does the work of one operation. It runs with its key claimed, at
// most once at a time for that key in all processes that share the store.
type Handler func(ctx context.Context, d *Delivery) (Result, error)

// Middleware wraps a handler. It runs inside the claim, never for duplicates.
type Middleware func(Handler) Handler

// Route joins an action with its key, policy and handler. Scope, ID and Run
// are required; the zero value of everything else is a safe default.
type Route struct {
	// Scope names the action, such as "order.create": part of the key, so it
	// must never change while records are kept. 1 to 128 bytes; "onceward."
	// begins scopes of onceward's own.
	Scope string
	// Match says which deliveries this route takes; the first route that
	// matches wins, and none is a key letter. Zero: every delivery.
	Match Match
	// Decode turns the payload into what ID and Run use, kept in
	// [Delivery.Decoded]. Nil: nothing is decoded. A failure is a decode letter.
	Decode func(d *Delivery) (any, error)
	// ID finds the business id in the delivery.
	ID Extract
	// Run is the handler.
	Run Handler

	// Order names what must stay in order: deliveries with the same value run
	// one after another. One in which it is not found is a key letter. Zero:
	// the broker's key, else the business id.
	Order Extract
	// Fingerprint is a digest of what must be equal when the key is equal.
	// Zero: SHA-256 of the raw value.
	Fingerprint Digest
	// Retry says how often and when a failed handler runs again.
	Retry Retry
	// AfterFailure says what becomes of later deliveries of the same ordering
	// key.
	AfterFailure AfterFailure
	// Timeout of one attempt; 10 ms to 24 h, default 5 min: longer than any
	// call that is not hung. The context ends then, and the lease is renewed
	// for twice as long.
	Timeout time.Duration
	// Window is how long a finished record answers repeats; default 14 days,
	// longer than brokers commonly keep messages (7 days) and replays wait. At
	// least 1 s, and no shorter than all waits of Retry together.
	Window time.Duration
	// Archive keeps a small tombstone after the window, which answers for ever.
	Archive bool
	// Classify sorts errors that the handler did not mark itself; default
	// [ClassifyDefault].
	Classify func(error) Class
	// OnDuplicate, where set, sees the stored result when a delivery is
	// answered from the record. It must be quick and may run more than once.
	OnDuplicate func(ctx context.Context, d *Delivery, stored Result)

	// Set when the configuration was checked.
	consumer        string
	policy          *dedup.Policy
	fingerprintRule uint32
	fields          []path // that ID, Order and Fingerprint read
}

// Match decides whether a route takes a delivery. Rule says how, for logs.
type Match struct {
	Rule string
	Is   func(d *Delivery) bool
}

// Extract finds a text in a delivery. Rule names the path tried, for logs and
// letters. From returns an error that says what was tried and what was there;
// it must not return an id that stands for several operations.
type Extract struct {
	Rule string
	From func(d *Delivery) (string, error)

	fields []path // of the payload that it reads
	wrong  string // fault of its making, reported with the configuration
}

// Digest makes a fingerprint. Rule names how and what of; digests made by
// different rules are never compared.
type Digest struct {
	Rule string
	Sum  func(d *Delivery) ([32]byte, error)

	fields []path // of the payload that it reads
	wrong  string // fault of its making, reported with the configuration
}

// AfterFailure is what becomes of later deliveries of an ordering key when one
// fails.
type AfterFailure uint8

const (
	// Continue lets later deliveries of the key run while a failed one is on
	// its way through the retry topic, or dead. While it waits in the process,
	// they queue behind it.
	Continue AfterFailure = iota
	// HoldKey keeps the failed one in the process until it is decided; later
	// deliveries of the key wait, however long.
	HoldKey
)

// Retry is a schedule of attempts.
type Retry struct {
	// MaxFailures is how many counted failures end in an exhausted letter; 1
	// to 10,000, default 10.
	MaxFailures int
	// MaxLoneCrashes is how many deaths of the process, with nothing else
	// running, end in a crash-loop letter; 1 to 100, default 3.
	MaxLoneCrashes int
	// Initial delay; 1 µs to 30 days, default 500 ms. Multiplier of each further
	// one; 1 to 10, default 2. Max bounds it, jitter included; Initial to 30
	// days, default 5 min.
	Initial    time.Duration
	Multiplier float64
	Max        time.Duration
	// Jitter is the share by which a delay varies either way; 0 to 1. The zero
	// value means the default 0.5; NoJitter turns it off.
	Jitter   float64
	NoJitter bool
	// MaxBlocking is the longest wait inside the process; a longer one leaves
	// for the retry topic or stream; 1 ms to 24 h, default 30 s.
	MaxBlocking time.Duration
}

// Delivery is what a handler sees of a message. Its bytes must not be written
// to and stay valid.
type Delivery struct {
	// Key is the claimed key; zero while it is being found.
	Key dedup.Key
	// Topic is the topic or stream that the message was first published to,
	// Partition and Offset its place there (JetStream: 0 and the sequence),
	// also when it was read from the retry topic; while the key is being found
	// they are those of the copy then.
	Topic     string
	Partition int32
	Offset    int64
	Subject   string // JetStream
	// BrokerKey is the broker's own key; nil when there is none.
	BrokerKey []byte
	// Value is the payload; nil for a tombstone.
	Value []byte
	// Headers without any dl-*, which are onceward's own.
	Headers []brokers.Header
	Time    time.Time
	// Decoded is what Route.Decode returned.
	Decoded any

	located *located // while the key is being found
}

// Header returns the first header of that name as text, empty when there is
// none.
func (d *Delivery) Header(name string) string {
	for i := range d.Headers {
		if d.Headers[i].Key == name {
			return string(d.Headers[i].Value)
		}
	}
	return ""
}
