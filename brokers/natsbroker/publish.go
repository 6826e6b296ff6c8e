package natsbroker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceward/onceward/brokers"
)

const (
	// publishWait is how long a PubAck may take before the publish is repeated.
	// A server that syncs every write under load answers within a second.
	publishWait = 5 * time.Second
	// publishPause is the pause before a repeat.
	publishPause = 250 * time.Millisecond
	// noStreamFor is how long a subject may be without a stream before that is
	// believed: a server that has just started, or a cluster that elects a
	// leader, answers so too.
	noStreamFor = 2 * time.Second
	// publishAtOnce is how many of one call are sent before the first PubAck is
	// awaited.
	publishAtOnce = 512
)

// Codes of refusals that JetStream's Go package has no name for.
const (
	codeStoreFailed   = 10077 // full: "maximum messages exceeded" and the like
	codeHeaderTooLong = 10097
)

// Publish stores each message; see [brokers.Broker]. A PubAck that says
// "duplicate" is a confirmation: the stream has the message of that ID.
//
// A message whose confirmation is lost is sent again while ctx lives when it
// has an ID; without one it is [brokers.ErrUnknownOutcome] at once, since a
// repeat might store it twice.
//
// Errors besides: a stream that is full, for which there is no sentinel.
func (b *Broker) Publish(ctx context.Context, messages []brokers.Outgoing) []error {
	errs := make([]error, len(messages))
	for from := 0; from < len(messages); from += publishAtOnce {
		to := min(from+publishAtOnce, len(messages))
		b.publish(ctx, messages[from:to], errs[from:to])
	}
	return errs
}

// letter is one publish under way.
type letter struct {
	msg     *nats.Msg
	at      int // its place in the call
	future  jetstream.PubAckFuture
	since   time.Time // when it was sent first
	sent    bool      // perhaps sent, so the outcome may be unknown
	repeats bool      // may be sent again
}

func (b *Broker) publish(ctx context.Context, messages []brokers.Outgoing, errs []error) {
	var open []*letter
	for i := range messages {
		m := &messages[i]
		msg, err := wrap(m)
		if err != nil {
			errs[i] = fmt.Errorf("publish to %.80q: %w", m.Topic, err)
			continue
		}
		open = append(open, &letter{msg: msg, at: i, repeats: m.ID != ""})
	}
	for round := 0; len(open) > 0; round++ {
		if round > 0 {
			rest(ctx, publishPause)
		}
		for _, l := range open {
			b.send(ctx, l)
		}
		again := open[:0]
		for _, l := range open {
			retry, err := b.await(ctx, l)
			switch {
			case retry && ctx.Err() == nil:
				again = append(again, l)
			case err != nil:
				errs[l.at] = fmt.Errorf("publish to %q: %w", l.msg.Subject, err)
			}
		}
		open = again
	}
}

// send hands the letter to the connection, where it is not broken: what is
// buffered for a later connection could be stored long after its caller gave up.
func (b *Broker) send(ctx context.Context, l *letter) {
	l.future = nil
	if !b.up.Load() {
		return
	}
	select {
	case b.slots <- struct{}{}:
	case <-ctx.Done():
		return
	}
	future, err := b.js.PublishMsgAsync(l.msg)
	if err != nil {
		<-b.slots
		l.future = failed{err}
		return
	}
	if l.since.IsZero() {
		l.since = time.Now()
	}
	l.future, l.sent = future, true
}

// failed is a future of what was not sent.
type failed struct{ err error }

func (f failed) Ok() <-chan *jetstream.PubAck { return nil }
func (f failed) Msg() *nats.Msg               { return nil }
func (f failed) Err() <-chan error {
	c := make(chan error, 1)
	c <- f.err
	return c
}

// await waits for a letter's PubAck and says whether to send it again.
func (b *Broker) await(ctx context.Context, l *letter) (retry bool, err error) {
	if l.future == nil {
		if ctx.Err() != nil || b.nc.IsClosed() {
			return false, l.undecided(ctx, nats.ErrDisconnected)
		}
		return true, nil
	}
	if _, unsent := l.future.(failed); !unsent {
		defer func() { <-b.slots }()
	}
	for {
		b.mu.Lock()
		denied := b.denied
		b.mu.Unlock()
		if err := b.denial(l.since, l.msg.Subject); err != nil {
			return false, fmt.Errorf("%w: %w", brokers.ErrUnauthorized, err)
		}
		select {
		case <-l.future.Ok():
			return false, nil
		case err := <-l.future.Err():
			return b.judge(ctx, l, err)
		case <-ctx.Done():
			return false, l.undecided(ctx, nil)
		case <-denied:
		}
	}
}

// judge says what a failed publish means.
func (b *Broker) judge(ctx context.Context, l *letter, err error) (retry bool, _ error) {
	var api *jetstream.APIError
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		return false, fmt.Errorf("%w: %d bytes, the server takes %d", brokers.ErrTooLarge, len(l.msg.Data), b.nc.MaxPayload())
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders):
		// Nobody heard it, so nothing is stored.
		if time.Since(l.since) < noStreamFor {
			l.sent = false
			return true, brokers.ErrNoDestination
		}
		return false, fmt.Errorf("%w: no stream has this subject", brokers.ErrNoDestination)
	case errors.As(err, &api):
		switch {
		case api.ErrorCode == jetstream.JSErrCodeStreamMessageExceedsMaximum, api.ErrorCode == codeHeaderTooLong:
			return false, fmt.Errorf("%w: %w", brokers.ErrTooLarge, err)
		case api.ErrorCode == codeStoreFailed:
			// Full, or its disk fails. It is not stored; waiting here would
			// hide that from the caller, who backs off and reports.
			return false, err
		case api.Code == 503:
			// No leader, or resources are short for a moment.
			return true, err
		}
		return false, err
	case errors.Is(err, jetstream.ErrTooManyStalledMsgs):
		return true, err // not sent: others' confirmations are awaited
	case errors.Is(err, nats.ErrConnectionClosed):
		return false, l.undecided(ctx, err)
	case errors.Is(err, nats.ErrDisconnected), errors.Is(err, jetstream.ErrAsyncPublishTimeout):
		// Sent, and the answer is lost.
		return l.repeats, fmt.Errorf("%w: %w", brokers.ErrUnknownOutcome, err)
	}
	return false, l.undecided(ctx, err)
}

// undecided is the error of a letter that ended without an answer.
func (l *letter) undecided(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if l.sent {
		return fmt.Errorf("%w: %w", brokers.ErrUnknownOutcome, err)
	}
	return err
}
