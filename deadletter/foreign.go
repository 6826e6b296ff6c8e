package deadletter

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/dedup"
)

// Envelope is the form in which a dead letter lies in its topic.
type Envelope string

// The envelopes.
const (
	EnvelopeAuto      Envelope = "auto"      // onceward's where dl-version is there, else the first that fits
	EnvelopeOnceward  Envelope = "onceward"  // see the package
	EnvelopeSpring    Envelope = "spring"    // Spring Kafka: kafka_dlt-*, or kafka_original-* of a retryable topic
	EnvelopeWatermill Envelope = "watermill" // its poison queue: reason_poisoned and others
	EnvelopeConnect   Envelope = "connect"   // Kafka Connect: __connect.errors.*
	EnvelopeStreams   Envelope = "streams"   // Kafka Streams: __streams.errors.*
	EnvelopeBare      Envelope = "bare"      // the message as it is, and nothing about its failure
)

// Envelopes are all of them.
func Envelopes() []Envelope {
	return []Envelope{
		EnvelopeAuto, EnvelopeOnceward, EnvelopeSpring, EnvelopeWatermill, EnvelopeConnect, EnvelopeStreams, EnvelopeBare,
	}
}

// Foreign reads letters that others have written; its Read is for [Queue.Read].
//
// Such a letter has the reason terminal and an id by its place in the
// dead-letter topic. Its key is what ID finds, for nobody else's letters name
// one that this consumer would know. What is sent back has the headers of the
// message without those of the envelope. Identity of the source is empty, since
// others do not keep it, and where an envelope does not tell the place, or it
// cannot be read, Partition and Offset are 0.
//
// The fields must not be changed once it is in use; then it may be used
// concurrently.
type Foreign struct {
	// Consumer that shall handle them: in whose name their records are.
	Consumer string
	// Envelope that they are in; default [EnvelopeAuto].
	Envelope Envelope
	// Topic, or stream, that Consumer reads, for letters that do not say where
	// they are from; where empty, it is not known of those.
	Topic string
	// Scope and ID make the key, as the consumer's route does: ID finds the
	// business id in the message, of which it sees key, value and the headers
	// without the envelope. Nil: letters have no key, and are decided without a
	// record of one.
	Scope string
	ID    func(d *brokers.Delivery) (string, error)
}

// ErrNotForeign says that a message is not in the envelope that was asked for.
var ErrNotForeign = errors.New("message is not in this envelope")

// Read makes a letter of a message of a dead-letter topic.
//
// Errors: as [Decode] for letters of onceward; [ErrNotForeign] wrapped with the
// envelope; one that says why the message has no key, where ID was to find one.
// Headers of an envelope that are broken are no error: what they were to say is
// not known.
func (f Foreign) Read(d *brokers.Delivery) (Letter, error) {
	var read func(*brokers.Delivery) (Letter, bool)
	switch f.Envelope {
	case EnvelopeAuto, "":
		l, err := Decode(d)
		if !errors.Is(err, ErrNotLetter) {
			return l, err
		}
		read = anyEnvelope
	case EnvelopeOnceward:
		return Decode(d)
	default:
		read = foreignReaders[f.Envelope]
		if read == nil {
			return Letter{}, fmt.Errorf("envelope %q is none of %v", f.Envelope, Envelopes())
		}
	}
	l, ok := read(d)
	if !ok {
		return Letter{}, fmt.Errorf("%s: %w", f.Envelope, ErrNotForeign)
	}
	return f.finish(l, d)
}

// foreignReaders have one entry for each envelope but onceward's own.
var foreignReaders = map[Envelope]func(*brokers.Delivery) (Letter, bool){
	EnvelopeSpring:    readSpring,
	EnvelopeWatermill: readWatermill,
	EnvelopeConnect:   readConnect,
	EnvelopeStreams:   readStreams,
	EnvelopeBare:      readBare,
}

func anyEnvelope(d *brokers.Delivery) (Letter, bool) {
	for _, e := range []Envelope{EnvelopeSpring, EnvelopeWatermill, EnvelopeConnect, EnvelopeStreams} {
		if l, ok := foreignReaders[e](d); ok {
			return l, true
		}
	}
	return readBare(d)
}

func readBare(d *brokers.Delivery) (Letter, bool) {
	return Letter{Headers: original(d.Headers)}, true
}

// finish fills in what does not depend on the envelope.
func (f Foreign) finish(l Letter, d *brokers.Delivery) (Letter, error) {
	var lane brokers.Lane
	if d.Lane != nil {
		lane = *d.Lane
	}
	l.ID = IDAt(f.Consumer, lane.Source, lane.Partition, d.Offset, ReasonTerminal)
	l.Consumer, l.Reason = f.Consumer, ReasonTerminal
	l.BrokerKey, l.Value = d.Key, d.Value
	if len(l.Headers) == 0 {
		l.Headers = nil
	}
	l.Fingerprint = dedup.Fingerprint{Rule: dedup.PayloadRule, Sum: sha256.Sum256(d.Value)}
	for i := range l.Headers {
		if l.Headers[i].Key == "traceparent" {
			l.Traceparent = line(string(l.Headers[i].Value), maxName)
			break
		}
	}
	if d.Subject != "" {
		l.Source.JetStream = true
		if l.Source.Subject == "" {
			l.Source.Subject = l.Source.Topic
		}
		l.Source.Topic, l.Source.Partition = "", 0
	}
	if l.Source.Topic == "" {
		l.Source.Topic = f.Topic
	}
	if l.Source.Time.IsZero() {
		// At the latest: who keeps no time has written it later.
		l.Source.Time = d.Time
	}
	if f.ID == nil {
		return l, nil
	}
	view := *d
	view.Headers = l.Headers
	id, err := f.ID(&view)
	if err != nil {
		return l, fmt.Errorf("no key: %w", err)
	}
	key := dedup.Key{Consumer: f.Consumer, Scope: f.Scope, ID: id}
	if err := key.Validate(); err != nil {
		return l, fmt.Errorf("no key: %w", err)
	}
	l.Key = key
	return l, nil
}

// milliseconds since 1970, as Kafka has them.
func milliseconds(n int64) time.Time {
	if n <= 0 || n > 1e14 { // beyond the year 5138 it is no time
		return time.Time{}
	}
	return time.UnixMilli(n).UTC()
}
