package natsbroker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/internal/subject"
)

// role is what a stream is to a consumer.
type role uint8

const (
	sourceRole role = iota
	letterRole
	retryRole
)

// wanted is a stream that must exist, and how.
type wanted struct {
	role     role
	name     string
	subject  string        // that is published to; empty for a source
	longest  time.Duration // that a copy waits in a retry stream
	replicas int           // when it is made
}

// stream finds the stream, makes it where Create says so, and compares it.
func (b *Broker) stream(ctx context.Context, w wanted) (jetstream.Stream, error) {
	what := fmt.Sprintf("open stream %q", w.name)
	began := time.Now()
	s, err := b.js.Stream(ctx, w.name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		config := w.config(b.config.Subjects[w.name])
		if !b.config.Create {
			return nil, &brokers.StartError{What: what, Wrong: "it does not exist", Mend: "set Create, or: " + addStream(config), Err: err}
		}
		s, err = b.js.CreateStream(ctx, config)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another process was faster
			s, err = b.js.Stream(ctx, w.name)
		}
		what = fmt.Sprintf("make stream %q", w.name)
	}
	if err != nil {
		return nil, b.explain(what, began, err)
	}
	if wrong, mend := w.compare(&s.CachedInfo().Config); wrong != "" {
		return nil, &brokers.StartError{What: what, Wrong: wrong, Mend: mend}
	}
	return s, nil
}

// explain makes a [*brokers.StartError] of an API error that a retry does not
// mend.
func (b *Broker) explain(what string, began time.Time, err error) error {
	if _, known := errors.AsType[*brokers.StartError](err); known {
		return err
	}
	if denied := b.denial(began, ""); denied != nil {
		return &brokers.StartError{What: what, Wrong: "these credentials may not do that", Err: denied}
	}
	var api *jetstream.APIError
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return &brokers.StartError{What: what, Wrong: "JetStream is not enabled", Err: err}
	case errors.Is(err, jetstream.ErrInvalidStreamName), errors.Is(err, jetstream.ErrInvalidConsumerName):
		return &brokers.StartError{What: what, Wrong: "NATS cannot hold this name", Err: err}
	case errors.As(err, &api) && api.Code >= 400 && api.Code < 500:
		return &brokers.StartError{What: what, Wrong: "the server refuses", Err: err}
	case errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("%s: JetStream does not answer: %w", what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// config is how the stream is made.
func (w *wanted) config(subjects []string) jetstream.StreamConfig {
	c := jetstream.StreamConfig{
		Name: w.name, Subjects: []string{w.name + ".>"}, Storage: jetstream.FileStorage, Replicas: max(1, w.replicas),
	}
	switch w.role {
	case sourceRole:
		if len(subjects) > 0 {
			c.Subjects = subjects
		}
	case letterRole:
		// Old letters are never pushed out by new ones.
		c.Discard = jetstream.DiscardNew
	case retryRole:
		// A copy that was settled is of no more use.
		c.Retention = jetstream.WorkQueuePolicy
		c.Discard = jetstream.DiscardNew
	}
	return c
}

// compare says what is wrong with an existing stream, and how to mend it.
func (w *wanted) compare(c *jetstream.StreamConfig) (wrong, mend string) {
	if w.role == sourceRole {
		return "", ""
	}
	edit := func(flags string) string { return "nats stream edit " + w.name + " " + flags }
	bounded := c.MaxMsgs > 0 || c.MaxBytes > 0 || c.MaxMsgsPerSubject > 0
	switch {
	case !slices.ContainsFunc(c.Subjects, func(pattern string) bool { return subject.Matches(pattern, w.subject) }):
		return fmt.Sprintf("it does not have the subject %q", w.subject),
			edit("--subjects='" + strings.Join(append(slices.Clone(c.Subjects), w.subject), ",") + "'")
	case c.NoAck:
		return "it confirms no publish", edit("--ack")
	case w.role == letterRole && c.Retention != jetstream.LimitsPolicy:
		return fmt.Sprintf("its retention is %s: letters would go when somebody reads them", c.Retention), edit("--retention=limits")
	case w.role == retryRole && c.Retention == jetstream.InterestPolicy:
		return "its retention is interest: copies would go while no consumer is bound", edit("--retention=limits")
	case bounded && c.Discard != jetstream.DiscardNew:
		return "it is bounded and discards old messages: they would be lost without a word", edit("--discard=new")
	case w.role == retryRole && c.MaxAge > 0 && c.MaxAge <= w.longest:
		return fmt.Sprintf("it keeps messages for %v, but one may wait for %v", c.MaxAge, w.longest),
			edit(fmt.Sprintf("--max-age=%v", 2*w.longest))
	}
	return "", ""
}

// addStream is the command that makes a stream.
func addStream(c jetstream.StreamConfig) string {
	retention := "limits"
	if c.Retention == jetstream.WorkQueuePolicy {
		retention = "work"
	}
	discard := "old"
	if c.Discard == jetstream.DiscardNew {
		discard = "new"
	}
	return fmt.Sprintf("nats stream add %s --subjects='%s' --storage=file --retention=%s --discard=%s --replicas=%d --defaults",
		c.Name, strings.Join(c.Subjects, ","), retention, discard, c.Replicas)
}

// checkName says whether NATS can hold a stream's or durable's name.
func checkName(what, name string) error {
	wrong := ""
	switch {
	case name == "":
		wrong = "it is empty"
	case len(name) > 240: // the server's 255, without _RETRY and some room
		wrong = fmt.Sprintf("it has %d bytes, at most 240", len(name))
	case strings.ContainsAny(name, ". \t\r\n*>/\\"):
		wrong = "NATS names hold no space and none of . * > / \\"
	default:
		for _, r := range name {
			if r < ' ' || r == 0x7f || r == 0xfffd {
				wrong = "NATS names hold printable characters only"
			}
		}
	}
	if wrong == "" {
		return nil
	}
	return &brokers.StartError{What: fmt.Sprintf("use the %s name %q", what, name), Wrong: wrong}
}
