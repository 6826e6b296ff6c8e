package natsbroker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceward/onceward/brokers"
)

const (
	// healing is for how long a browse waits for a server that is away, from the
	// first fault on, until a message comes again.
	healing = 30 * time.Second
	// lookPause is the pause after a fault.
	lookPause = 250 * time.Millisecond
)

// Browse yields what a subject or stream holds; see [brokers.Browser]. A name
// that is both is the stream's. Envelopes are opened as for deliveries.
//
// Of a stream whose messages stay when they are read it makes a consumer of its
// own, in memory, without acks, and deletes it at the end; after a crash the
// server does that within half a minute. Of a work queue or an interest stream,
// and where no consumer may be made, it asks for one message after the other,
// which takes a round trip for each, and Backlog is -1 then.
func (b *Broker) Browse(ctx context.Context, name string, from brokers.From) iter.Seq2[*brokers.Delivery, error] {
	return func(yield func(*brokers.Delivery, error) bool) {
		l := &look{b: b, name: name, from: from}
		if err := l.run(ctx, yield); err != nil {
			yield(nil, fmt.Errorf("browse %.80q: %w", name, err))
		}
	}
}

// look is one browse.
type look struct {
	b    *Broker
	name string
	from brokers.From

	// Of the stream, once it was found.
	stream, filter string
	created        time.Time
	next, end      uint64 // sequences to be read: from next up to end
	replicated     bool
	single         bool // messages are asked for one by one
	lane           *brokers.Lane

	trouble time.Time // when what has not healed began; zero without
}

// found is one message.
type found struct {
	sequence uint64
	subject  string
	header   nats.Header
	data     []byte
	stored   time.Time
	last     bool // nothing follows
}

// reader gets messages in order from look.next on.
type reader interface {
	// read blocks for the next message. Errors: io.EOF when there is none; any
	// other one ends the reader.
	read(ctx context.Context) (found, error)
	close()
}

// run returns nil also when the caller has had enough.
func (l *look) run(ctx context.Context, yield func(*brokers.Delivery, error) bool) error {
	for {
		err := l.attempt(ctx, yield)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case final(err):
			return err
		case l.b.nc.IsClosed():
			return brokers.ErrClosed
		}
		if l.trouble.IsZero() {
			l.trouble = time.Now()
		}
		if time.Since(l.trouble) > healing {
			return err
		}
		rest(ctx, lookPause)
	}
}

// final says that a retry does not mend it.
func final(err error) bool {
	return errors.Is(err, brokers.ErrNoDestination) || errors.Is(err, brokers.ErrUnauthorized) || errors.As(err, new(*brokers.StartError))
}

// attempt reads until the end, or until something fails.
func (l *look) attempt(ctx context.Context, yield func(*brokers.Delivery, error) bool) error {
	if err := l.place(ctx); err != nil || l.next > l.end {
		return err
	}
	r, err := l.open(ctx)
	if err != nil {
		return err
	}
	defer r.close()
	for l.next <= l.end {
		m, err := r.read(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return l.confirm(ctx)
		case err != nil:
			return err
		case m.sequence > l.end:
			return nil
		}
		l.trouble = time.Time{}
		l.next = m.sequence + 1
		d := &brokers.Delivery{Lane: l.lane, Offset: int64(m.sequence), Subject: m.subject, Time: m.stored}
		unwrap(m.header, m.data, d)
		if !yield(d, nil) {
			return nil
		}
		if m.last && l.next <= l.end {
			return l.confirm(ctx)
		}
	}
	return nil
}

// confirm asks the stream's leader whether nothing is left before the end. The
// consumer may have been put beside a replica that is behind.
func (l *look) confirm(ctx context.Context) error {
	if !l.replicated || l.single {
		return nil
	}
	m, err := l.pick(ctx, l.next, l.subjects())
	switch {
	case errors.Is(err, io.EOF), err == nil && m.sequence > l.end:
		return nil
	case errors.Is(err, brokers.ErrUnauthorized):
		return nil // as well as these rights can tell
	case err != nil:
		return err
	}
	return fmt.Errorf("the replica that is read is behind: it lacks message %d", m.sequence)
}

// subjects is the filter as a pattern.
func (l *look) subjects() string {
	if l.filter == "" {
		return ">"
	}
	return l.filter
}

// open makes the reader that the stream allows.
func (l *look) open(ctx context.Context) (reader, error) {
	if !l.single {
		r, err := l.reel(ctx)
		if err == nil {
			return r, nil
		}
		if !errors.Is(err, brokers.ErrUnauthorized) && !errors.Is(err, jetstream.ErrMaximumConsumersLimit) {
			return nil, err
		}
		// No consumer is to be had, but perhaps the messages are.
		l.single = true
	}
	return &picker{look: l}, nil
}

// place finds the stream and, the first time, what is to be read of it.
func (l *look) place(ctx context.Context) error {
	s, filter, err := l.b.holder(ctx, l.name)
	if err != nil {
		return err
	}
	info := s.CachedInfo()
	if l.lane != nil {
		if !info.Created.Equal(l.created) {
			return fmt.Errorf("%w any more: stream %q was made again", brokers.ErrNoDestination, l.stream)
		}
		return nil
	}
	l.stream, l.filter, l.created = info.Config.Name, filter, info.Created
	l.replicated = info.Config.Replicas > 1
	l.single = info.Config.Retention != jetstream.LimitsPolicy
	l.next, l.end = max(1, info.State.FirstSeq), info.State.LastSeq
	if l.from.Offsets != nil {
		first, wanted := l.from.Offsets[0]
		if !wanted {
			l.end = 0
		}
		l.next = max(l.next, uint64(max(0, first)))
	}
	if !l.from.Since.IsZero() {
		if err := l.skip(ctx, l.from.Since); err != nil {
			return err
		}
	}
	l.lane = &brokers.Lane{Topic: l.stream, Source: identity(info), Backlog: -1}
	return nil
}
