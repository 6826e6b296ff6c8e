package deadletter

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/onceward/onceward/brokers"
)

// outgoing is the copy of a letter's message: the original, byte for byte, but
// for the headers by which it would command the broker, and those of a copy.
func (a *application) outgoing(w *work) brokers.Outgoing {
	l := &w.e.Letter
	m := brokers.Outgoing{Key: l.BrokerKey, Value: l.Value, Subject: l.Source.Subject, Headers: resendable(l.Headers)}
	if w.it.ID != "" {
		// Another token makes another copy, which must not be taken for a repeat of
		// the one before, whose token is worth nothing any more.
		sum := sha256.Sum256([]byte(w.token))
		m.ID = fmt.Sprintf("%s-%s-%x", a.f.Job, w.it.ID, sum[:6])
		m.Headers = append(m.Headers, Ticket{ID: w.it.ID, Token: w.token, Job: a.f.Job, Count: l.ReplayCount + 1}.Headers()...)
	} else {
		m.ID = fmt.Sprintf("%s-%x", a.f.Job, keyHash(w.it.Scope, w.it.Key))
	}
	switch {
	case a.f.To == ToRetry:
		m.Topic = a.q.Broker.Destinations(a.q.Consumer, l.Source.Topic).Retry
	case l.Source.JetStream:
		m.Topic = l.Source.Subject
	default:
		m.Topic = l.Source.Topic
		if l.BrokerKey == nil && w.partitions > l.Source.Partition {
			m.Partition = &l.Source.Partition // nothing else tells where it belongs
		}
	}
	return m
}

// commands says that a server acts on what is published to a subject. Whoever may
// write letters can name any, and a copy is published with the operator's rights.
func commands(subject string) bool {
	for _, own := range [...]string{"$JS.", "$SYS.", "$SRV.", "_"} {
		if strings.HasPrefix(subject, own) {
			return true
		}
	}
	return subject == ""
}

// resendable are a message's headers without those that a NATS server takes as
// commands: the id of the first publish would make a copy within two minutes a
// silent nothing, a rollup would wipe the stream.
//
// Source: the names are those of nats-server's headers, which all begin so.
func resendable(headers []brokers.Header) []brokers.Header {
	kept := make([]brokers.Header, 0, len(headers)+len(ticketNames))
	for _, h := range headers {
		if !IsOwnHeader(h.Key) && (len(h.Key) < 5 || !strings.EqualFold(h.Key[:5], "nats-")) {
			kept = append(kept, h)
		}
	}
	return kept
}
