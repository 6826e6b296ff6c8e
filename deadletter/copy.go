package deadletter

import (
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
		m.ID = a.f.Job + "-" + w.it.ID
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
