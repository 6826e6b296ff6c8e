package natsbroker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/internal/subject"
)

// answering is how long one call of the API may take.
const answering = 5 * time.Second

// holder finds the stream of a name, and the filter to look for in it, which is
// empty for all of it. By convention a subject begins with the stream's
// name, and asking for that needs no more rights than a consumer has.
func (b *Broker) holder(ctx context.Context, name string) (_ jetstream.Stream, filter string, err error) {
	stream, _, _ := strings.Cut(name, ".")
	if checkName("stream", stream) == nil {
		s, err := b.streamNamed(ctx, stream)
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
		case err != nil:
			return nil, "", err
		case stream == name:
			return s, "", nil
		default:
			for _, pattern := range s.CachedInfo().Config.Subjects {
				if subject.Matches(pattern, name) {
					return s, name, nil
				}
			}
		}
	}
	if !subjectPattern(name) {
		return nil, "", fmt.Errorf("%w: it is neither the name of a stream nor a subject", brokers.ErrNoDestination)
	}
	streams, err := b.streamsOf(ctx, name)
	switch {
	case err != nil:
		return nil, "", err
	case len(streams) == 0:
		return nil, "", fmt.Errorf("%w: no stream has this subject", brokers.ErrNoDestination)
	case len(streams) > 1:
		return nil, "", &brokers.StartError{
			What: fmt.Sprintf("find the stream of %q", name), Wrong: fmt.Sprintf("several have it, such as %s and %s", streams[0], streams[1]),
			Mend: "name one stream, or a subject of one",
		}
	}
	s, err := b.streamNamed(ctx, streams[0])
	return s, name, err
}

func (b *Broker) streamNamed(ctx context.Context, name string) (s jetstream.Stream, err error) {
	err = b.call(ctx, func(ctx context.Context) error {
		s, err = b.js.Stream(ctx, name)
		return err
	})
	return s, err
}

// streamsOf lists streams that have a subject, more than one when there are.
func (b *Broker) streamsOf(ctx context.Context, subject string) (names []string, err error) {
	err = b.call(ctx, func(ctx context.Context) error {
		names = nil
		list := b.js.StreamNames(ctx, jetstream.WithStreamListSubject(subject))
		for name := range list.Name() {
			names = append(names, name)
		}
		return list.Err()
	})
	return names, err
}

// call does one call of the API within some seconds.
//
// Errors besides: [brokers.ErrUnauthorized] when the server says that we may
// not; [nats.ErrDisconnected] at once while there is no connection.
func (b *Broker) call(ctx context.Context, f func(context.Context) error) error {
	if !b.up.Load() {
		return nats.ErrDisconnected
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, answering)
	defer cancel()
	ctx, end := b.untilDenied(ctx)
	defer end()
	err := f(ctx)
	if err == nil {
		return nil
	}
	if denied := b.denial(began, ""); denied != nil {
		return fmt.Errorf("%w: %w", brokers.ErrUnauthorized, denied)
	}
	return err
}

// subjectPattern reports whether s is a subject, perhaps with wildcards, that
// the server takes in a request.
func subjectPattern(s string) bool {
	if len(s) > maxSubject {
		return false
	}
	tokens := strings.Split(s, ".")
	for i, token := range tokens {
		if token == "" || strings.ContainsAny(token, " \t\r\n\x00") {
			return false
		}
		if strings.Contains(token, ">") && (token != ">" || i < len(tokens)-1) || strings.Contains(token, "*") && token != "*" {
			return false
		}
	}
	return true
}
