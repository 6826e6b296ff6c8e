package consumer

import (
	"log/slog"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/dedup"
)

// Start says where a consumer begins that the broker knows no position of.
type Start = brokers.Start

// Ways to begin. There is no default: Earliest runs the whole backlog, Latest
// ignores it, and either is a disaster where the other was meant.
var (
	Earliest = Start{Kind: brokers.StartEarliest}
	Latest   = Start{Kind: brokers.StartLatest}
)

// FromTime begins at the first message stored at or after t.
func FromTime(t time.Time) Start { return Start{Kind: brokers.StartTime, Time: t} }

// CommittedBy begins where another Kafka group or JetStream durable stands, when
// the consumer has no position of its own so far: the setting may stay. A
// partition of which the group has no position begins at the earliest message. A
// group of which the broker knows nothing ends Run with a *brokers.StartError.
func CommittedBy(group string) Start { return Start{Kind: brokers.StartGroup, Group: group} }

// Config describes a consumer. Name, Broker, Topics, StartFrom and Store are
// required; the zero value of everything else is the default that is said
// beside it.
type Config struct {
	// Name of the consumer: the Kafka group or JetStream durable, part of every
	// key and of the dead-letter and retry destinations. It must never change
	// while records are kept. 1 to 128 letters, digits, '-' and '_'.
	Name   string
	Broker brokers.Broker
	// Topics are Kafka topics or JetStream streams, 1 to 1,000, each once.
	Topics    []string
	StartFrom Start
	Store     dedup.Store

	// Workers is how many handlers run at once; 1 to 10,000, default 16: enough
	// to hide the latency of one dependency, few enough for its pool.
	Workers int
	// Unfinished bounds deliveries in the process, running, waiting or parked;
	// at either bound no more are received. Default 6,000 messages, or twice
	// Workers, whichever is more: with quick handlers one third is in a commit
	// that is worth its syncs of the disk, another in the next, and the rest is
	// decoded and handled meanwhile. At least Workers, at most 1,000,000; and
	// 64 MiB (at least 1 MiB).
	Unfinished Limit
	// Lease is how long a claim blocks others unless renewed, each third of
	// it; 1 s to 24 h, default 30 s: a pause of the process that is shorter
	// goes unnoticed. A handler may run longer than its lease.
	Lease time.Duration
	// Drain is how long handlers may finish after a stop; 1 ms to 1 h, default
	// 25 s, under the 30 s that Kubernetes grants.
	Drain time.Duration
	// Breaker stops new work while a dependency is down.
	Breaker Breaker
	// Middleware wraps every route's handler, the first outermost.
	Middleware []Middleware
	// Observer, where set, is handed what was decided, in slices. It is called
	// from the pipeline: it must be quick and keep nothing of the slice.
	Observer func([]Decision)
	// Logger for everything that is not returned; default slog.Default().
	Logger *slog.Logger
	// Redact is applied to error texts and stacks before they reach a log, a
	// record or a letter; default: as they are.
	Redact func(string) string
	// AppVersion is written into letters, at most 128 bytes; default: the main
	// module's version.
	AppVersion string
	// AllowLocalInGroup lets several processes with local stores share one
	// group, each deduplicating only what it sees itself.
	AllowLocalInGroup bool
}

// Limit bounds deliveries by count and bytes.
type Limit = brokers.Limit

// Breaker is the circuit breaker: when retryable failures of different keys
// pass a share of recent work, no new handlers start, one at a time probes,
// and nothing is counted as a failure until it recovers.
//
// Recent work is the last attempts whose outcome says something about a
// dependency: successes, and first failures of a key. A key that failed before
// is known to be its own fault, so messages that always fail never open it,
// however often they are tried. MinKeys first failures without a success
// between them open it at once, before any key has used up its failures. It
// closes after probes that succeed, or when fewer than MinKeys different keys
// are left to probe: those are used up like any others.
type Breaker struct {
	// Share of recent attempts that failed; above 0 to 1, default 0.5.
	Share float64
	// MinKeys is how many different keys must have failed; 2 to 10,000,
	// default 10: fewer are those messages' fault.
	MinKeys int
	// Recent is how many attempts are looked at; MinKeys to 100,000, default
	// 100, or MinKeys where that is more.
	Recent int
	// Probe is the pause between probes; 1 ms to 30 s, default 1 s, doubled up
	// to 30 s while they fail.
	Probe time.Duration
	// Off turns it off.
	Off bool
}

// Bounds and defaults of a configuration; their reasons are at the fields.
const (
	maxWorkers       = 10_000
	maxUnfinished    = 1_000_000
	minUnfinishedMem = 1 << 20
	maxDrain         = time.Hour
	maxAppVersion    = 128
	maxTopics        = 1_000
	maxTopicName     = 255
	maxProbe         = 30 * time.Second
	maxTimeout       = 24 * time.Hour
	maxDelay         = 30 * 24 * time.Hour
	maxWindow        = 10 * 366 * 24 * time.Hour
)
