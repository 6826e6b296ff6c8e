package kafkabroker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/segmentio/kafka-go/sasl"

	"github.com/onceward/onceward/brokers"
)

// Config says how to reach a cluster and how to behave in a group. Only
// Brokers is needed.
type Config struct {
	// Brokers are addresses, host:port, of some brokers of the cluster. None
	// of them is special: one that is dead or silent costs a second.
	Brokers []string
	// TLS, where not nil, is used for all connections. ServerName is filled in
	// from the address when it is empty.
	TLS *tls.Config
	// SASL authenticates all connections: any mechanism of kafka-go's sasl
	// packages (PLAIN, SCRAM) or of its own modules (MSK IAM).
	SASL sasl.Mechanism
	// ClientID is the name that the brokers see in logs and quotas. Default
	// "onceward".
	ClientID string
	// Create makes missing dead-letter and retry topics when a source is
	// opened, with as many partitions as the source topic. Without it a
	// missing one is a start error.
	Create bool

	// InstanceID makes the group's member static: a process that comes back
	// under the same name within SessionTimeout finds its partitions where
	// they were, and nobody else is disturbed. It must differ between the
	// processes of a group; the host name of a StatefulSet's pod is a good one.
	InstanceID string
	// AllowForeignMembers lets this process into a group that other software
	// is a member of. They must have the cooperative-sticky assignor in common
	// (franz-go's default; Java's, since it is in the default list).
	AllowForeignMembers bool

	// OnGap says what to do where a position does not fit its log. Default
	// [HoldPartition].
	OnGap OnGap

	// SessionTimeout is the silence after which the cluster gives a process's
	// partitions to the others: how long they stand still after a crash.
	// Default 10 s, since heartbeats do not depend on handlers; 1 s to 30 min,
	// within what the cluster allows (from 6 s on by default).
	SessionTimeout time.Duration
	// RebalanceTimeout is how long the cluster waits for members to join a
	// new round. Handlers do not count towards it. Default 30 s; 1 s to 30 min.
	RebalanceTimeout time.Duration
	// Heartbeat is how often a member shows that it lives, and so how fast it
	// hears of a rebalance. Default a tenth of SessionTimeout; 10 ms to half of
	// it.
	Heartbeat time.Duration
	// Healthy, where not nil, is asked before each heartbeat. An error ends the
	// membership, so that others get the partitions of a process that hangs
	// although its heartbeats go on; Receive then returns a StartError. It must
	// not block.
	Healthy func() error
	// CommitInterval is how often positions are committed. Default 1 s: after
	// a crash at most that much is delivered again, and answered from the
	// records, at one small request a second; 10 ms to 30 min.
	CommitInterval time.Duration
	// WatchInterval is how often topics are looked at for new partitions, new
	// topics and topics made again. Default 5 s; 50 ms to 30 min.
	WatchInterval time.Duration

	// MaxBatchBytes bounds one record batch, as it comes and when
	// decompressed. A larger one is never allocated; its partition stands
	// still and says so. Default 128 MiB; 1 MiB to 1 GiB.
	MaxBatchBytes int

	// Dial makes connections. Default net.Dialer's.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// OnGap is what to do where a position does not fit its log: messages below it
// were deleted, it lies beyond the end, or the topic was made again.
type OnGap uint8

const (
	// HoldPartition reads nothing of the partition until a person decides.
	HoldPartition OnGap = iota
	// SkipToEarliest goes on with the first message that is there.
	SkipToEarliest
	// SkipToLatest goes on with what comes from now on.
	SkipToLatest
)

func (g OnGap) String() string {
	switch g {
	case HoldPartition:
		return "hold"
	case SkipToEarliest:
		return "earliest"
	case SkipToLatest:
		return "latest"
	}
	return fmt.Sprintf("OnGap(%d)", uint8(g))
}

const maxTimeout = 30 * time.Minute

// complete fills in defaults, and reports everything that is wrong.
func (c Config) complete() (Config, error) {
	var wrong []error
	if len(c.Brokers) == 0 {
		wrong = append(wrong, errors.New("Brokers is empty"))
	}
	c.Brokers = slices.Clone(c.Brokers)
	for _, b := range c.Brokers {
		if _, _, err := net.SplitHostPort(b); err != nil {
			wrong = append(wrong, fmt.Errorf("Brokers: %q is not host:port", b))
		}
	}
	if c.ClientID == "" {
		c.ClientID = "onceward"
	}
	if len(c.ClientID) > 249 || len(c.InstanceID) > 249 {
		wrong = append(wrong, errors.New("ClientID and InstanceID are at most 249 bytes"))
	}
	if c.OnGap > SkipToLatest {
		wrong = append(wrong, fmt.Errorf("OnGap %v is not known", c.OnGap))
	}
	between := func(name string, d *time.Duration, def, least, most time.Duration) {
		if *d == 0 {
			*d = def
		}
		if *d < least || *d > most {
			wrong = append(wrong, fmt.Errorf("%s is %v, it must be %v to %v", name, *d, least, most))
		}
	}
	between("SessionTimeout", &c.SessionTimeout, 10*time.Second, time.Second, maxTimeout)
	between("RebalanceTimeout", &c.RebalanceTimeout, 30*time.Second, time.Second, maxTimeout)
	between("Heartbeat", &c.Heartbeat, c.SessionTimeout/10, 10*time.Millisecond, c.SessionTimeout/2)
	between("CommitInterval", &c.CommitInterval, time.Second, 10*time.Millisecond, maxTimeout)
	between("WatchInterval", &c.WatchInterval, 5*time.Second, 50*time.Millisecond, maxTimeout)
	if c.MaxBatchBytes == 0 {
		c.MaxBatchBytes = 128 << 20
	}
	if c.MaxBatchBytes < 1<<20 || c.MaxBatchBytes > 1<<30 {
		wrong = append(wrong, fmt.Errorf("MaxBatchBytes is %d, it must be 1 MiB to 1 GiB", c.MaxBatchBytes))
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext
	}
	if len(wrong) > 0 {
		return c, &brokers.StartError{What: "connect to Kafka", Wrong: "configuration", Err: errors.Join(wrong...)}
	}
	return c, nil
}
