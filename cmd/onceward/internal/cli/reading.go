package cli

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/cmd/onceward/internal/address"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/deadletter"
)

// reading sets how messages of the dead-letter topic are read. named says that
// the topic has the name of one of onceward's: there a message that is no
// letter is a fault to be shown, and no letter of somebody else's to be sent.
func (f *connection) reading(s *session, named bool) error {
	e := deadletter.Envelope(f.envelope)
	if e == "" {
		e = deadletter.EnvelopeAuto
		if named {
			e = deadletter.EnvelopeOnceward
		}
	}
	if !slices.Contains(deadletter.Envelopes(), e) {
		return usage("--envelope must be one of %v", deadletter.Envelopes())
	}
	f.envelope = string(e)
	if (f.idFrom == "") != (f.scope == "") {
		return usage("--id-from and --scope make a key together")
	}
	if e == deadletter.EnvelopeOnceward {
		if f.idFrom != "" {
			return usage("--id-from is for letters of others: those of onceward name their key")
		}
		return nil
	}
	foreign := deadletter.Foreign{Consumer: s.queue.Consumer, Envelope: e, Topic: s.source, Scope: f.scope}
	if f.idFrom != "" {
		id, err := extract(f.idFrom)
		if err != nil {
			return usage("--id-from: %w", err)
		}
		foreign.ID = id
	}
	s.queue.Read = foreign.Read
	if e == deadletter.EnvelopeAuto {
		s.queue.Read = func(d *brokers.Delivery) (deadletter.Letter, error) {
			l, err := foreign.Read(d)
			if err == nil && l.Reason == deadletter.ReasonTerminal && l.Error == "" && l.ErrorType == "" {
				s.failureless()
			}
			return l, err
		}
	}
	return nil
}

// noSource refuses a topic or stream that the consumer reads: each of its
// messages would count as a letter, and be sent again.
func (s *session) noSource(ctx context.Context, at *address.Address) error {
	name, reader := cmp.Or(at.Stream, at.Topic), s.queue.Consumer
	if reader == "" {
		return nil
	}
	letters := s.queue.Broker.Destinations(reader, name).DeadLetter
	infos, err := s.queue.Broker.Inspect(ctx, []string{letters})
	if err == nil && len(infos) == 1 && !infos[0].Missing && !infos[0].Hidden {
		return usage("consumer %s reads %s, and its letters lie in %s; if these are letters all the same, give --envelope", reader, name, letters)
	}
	return nil // what rights do not allow to see is read as it is asked for
}

// rule is how letters of others are read, as a plan keeps it; empty for those
// of onceward.
func (f *connection) rule(s *session) string {
	if s.queue.Read == nil {
		return ""
	}
	return url.Values{"envelope": {f.envelope}, "id-from": {f.idFrom}, "scope": {f.scope}, "source": {s.source}}.Encode()
}

// follow reads letters as a plan says, where no flag does.
func (f *connection) follow(rule string) error {
	values, err := url.ParseQuery(rule)
	if err != nil {
		return errors.New("the plan does not say how its letters are read: give --envelope and the others as for the plan")
	}
	if f.envelope == "" && f.idFrom == "" {
		f.envelope, f.idFrom, f.scope = values.Get("envelope"), values.Get("id-from"), values.Get("scope")
	}
	f.source = cmp.Or(f.source, values.Get("source"))
	return nil
}

// extract is a rule of a consumer's routes, for messages of a topic.
func extract(rule string) (func(*brokers.Delivery) (string, error), error) {
	kind, name, _ := strings.Cut(rule, ":")
	var e consumer.Extract
	switch kind {
	case "field":
		e = consumer.Field(name)
	case "header":
		e = consumer.Header(name)
	case "broker-key":
		e = consumer.BrokerKey()
	default:
		return nil, errors.New("must be field:PATH, header:NAME or broker-key")
	}
	if e.From == nil {
		return nil, errors.New("the path or name after the colon cannot be one")
	}
	return func(d *brokers.Delivery) (string, error) {
		id, err := e.From(&consumer.Delivery{BrokerKey: d.Key, Value: d.Value, Headers: d.Headers, Subject: d.Subject, Time: d.Time})
		if err == nil && strings.TrimFunc(id, unicode.IsSpace) == "" {
			err = errors.New("the id is blank") // as for a consumer, it stands for nothing
		}
		return id, err
	}, nil
}
