package brokers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Spec is what a consumer asks of a broker.
type Spec struct {
	// Consumer names the group or durable, and the destinations.
	Consumer string
	// Topics are Kafka topics or JetStream streams: at least one, each once.
	Topics []string
	// StartFrom says where a consumer without a position begins. A position
	// that the broker has always wins.
	StartFrom Start
	// Unfinished bounds deliveries handed out and not settled, so that the
	// adapter can size its prefetch and the broker's own bound.
	Unfinished Limit
	// LongestWait is the longest delay that [Source.Defer] or a waiting copy
	// will see; the retry destination must keep messages longer.
	LongestWait time.Duration
	// Drain bounds how long [Events.Revoked] may take; default [DefaultDrain].
	Drain time.Duration
	// Events are called by the source; all are optional.
	Events Events
}

// DefaultDrain is under the 30 s that Kubernetes grants for an end.
const DefaultDrain = 25 * time.Second

// Validate looks for what no broker can serve. [Broker.Open] refuses that with
// a [*StartError], and looks besides at what its own broker demands of names.
//
// Errors: every fault at once, joined.
func (s *Spec) Validate() error {
	var wrong []error
	if s.Consumer == "" {
		wrong = append(wrong, errors.New("Consumer is empty"))
	}
	if len(s.Topics) == 0 {
		wrong = append(wrong, errors.New("Topics is empty"))
	}
	for i, topic := range s.Topics {
		if slices.Contains(s.Topics[:i], topic) {
			wrong = append(wrong, fmt.Errorf("topic %q is named twice", topic))
		}
	}
	if err := s.StartFrom.Validate(); err != nil {
		wrong = append(wrong, fmt.Errorf("StartFrom %w", err))
	}
	return errors.Join(wrong...)
}

// Events tells a consumer what happens to its lanes. The source calls them
// from goroutines of its own, one at a time for the same lane.
type Events struct {
	// Assigned is called before the first delivery of new lanes. It must not
	// block. An error makes the source end with it: the mark of a lane is of
	// another store.
	Assigned func(lanes []*Lane) error
	// Revoked is called when lanes must be given up. It blocks until their
	// handlers have ended, at most until ctx ends; acks until it returns
	// still count, and none after.
	Revoked func(ctx context.Context, lanes []*Lane)
	// Lost is called when lanes are gone already: nothing of them can be
	// acknowledged. It must not block.
	Lost func(lanes []*Lane, cause error)
	// Degraded reports trouble that heals by itself (nil: healed), under a
	// short name of what is affected, such as "connection" or "gap ORDERS/3".
	Degraded func(what string, err error)
}

// Start is where a new consumer begins.
type Start struct {
	Kind  StartKind
	Time  time.Time // StartTime
	Group string    // StartGroup
}

// StartKind is one way of beginning. The zero value is none: it must be said.
type StartKind uint8

// The ways of beginning.
const (
	StartUnset    StartKind = iota
	StartEarliest           // all that the broker still has
	StartLatest             // only what comes after the first start
	StartTime               // the first message stored at or after Time
	// StartGroup is where another Kafka group or durable stands, which must stand
	// somewhere; partitions of which that one has no position begin at the
	// earliest.
	StartGroup
)

// Validate says what a start lacks.
//
// Errors: text that goes on after the name of the field: "is not set".
func (s Start) Validate() error {
	switch {
	case s.Kind == StartUnset:
		return errors.New("is not set: where a consumer without a position begins has no safe default")
	case s.Kind > StartGroup:
		return fmt.Errorf("has the unknown kind %d", s.Kind)
	case s.Kind == StartTime && s.Time.IsZero():
		return errors.New("is the zero time")
	case s.Kind == StartGroup && s.Group == "":
		return errors.New("is the position of a group without a name")
	}
	return nil
}

// String is the word used in logs.
func (s Start) String() string {
	switch s.Kind {
	case StartEarliest:
		return "earliest"
	case StartLatest:
		return "latest"
	case StartTime:
		return "time " + s.Time.UTC().Format(time.RFC3339)
	case StartGroup:
		return "position of " + s.Group
	}
	return "unset"
}
