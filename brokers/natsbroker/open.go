package natsbroker

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/internal/serial"
)

// Open binds the durables of the consumer's streams and of their retry
// streams; see [brokers.Broker] and, for what is made and compared, the
// package's documentation.
//
// Errors besides: a name that NATS cannot hold.
func (b *Broker) Open(ctx context.Context, spec brokers.Spec) (brokers.Source, error) {
	if err := b.checkSpec(&spec); err != nil {
		return nil, err
	}
	s := &source{
		b: b, spec: spec, events: serial.New(), wake: make(chan struct{}, 1), checking: map[*lane]bool{},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	ctx, cancel := b.untilDenied(ctx)
	defer cancel()
	if err := s.bind(ctx); err != nil {
		s.cancel()
		for _, l := range s.lanes {
			l.unsubscribe()
		}
		return nil, err
	}
	b.mu.Lock()
	b.sources[s] = true
	b.mu.Unlock()
	s.begin()
	return s, nil
}

func (b *Broker) checkSpec(spec *brokers.Spec) error {
	if err := checkName("consumer", spec.Consumer); err != nil {
		return err
	}
	what := fmt.Sprintf("open consumer %q", spec.Consumer)
	if b.nc.IsClosed() {
		return &brokers.StartError{What: what, Wrong: "the connection is closed"}
	}
	if err := spec.Validate(); err != nil {
		return &brokers.StartError{What: what, Wrong: "spec", Err: err}
	}
	spec.Topics = slices.Clone(spec.Topics)
	for _, topic := range spec.Topics {
		if err := checkName("stream", topic); err != nil {
			return err
		}
	}
	for _, topic := range spec.Topics {
		for _, own := range []string{letterStream(topic), retryStream(topic)} {
			if slices.Contains(spec.Topics, own) {
				return &brokers.StartError{
					What: what, Wrong: fmt.Sprintf("stream %q is where this consumer itself writes for %q", own, topic),
					Mend: "read it with a consumer of another name",
				}
			}
		}
	}
	if spec.Unfinished.Messages < 1 {
		spec.Unfinished.Messages = 1000
	}
	if spec.Unfinished.Bytes < 1 {
		spec.Unfinished.Bytes = 64 << 20
	}
	return nil
}

// bind finds or makes all that the spec names, and subscribes.
func (s *source) bind(ctx context.Context) error {
	b, spec := s.b, &s.spec
	pending := spec.Unfinished.Messages + b.config.Prefetch
	for _, topic := range spec.Topics {
		to := b.Destinations(spec.Consumer, topic)
		main, err := b.stream(ctx, wanted{role: sourceRole, name: topic, replicas: 1})
		if err != nil {
			return err
		}
		replicas := main.CachedInfo().Config.Replicas
		if _, err = b.stream(ctx, wanted{
			role: letterRole, name: letterStream(topic), subject: to.DeadLetter, replicas: replicas,
		}); err != nil {
			return err
		}
		retry, err := b.stream(ctx, wanted{
			role: retryRole, name: retryStream(topic), subject: to.Retry, replicas: replicas, longest: spec.LongestWait,
		})
		if err != nil {
			return err
		}
		for _, from := range []struct {
			stream jetstream.Stream
			wanted durableWanted
			retry  bool
		}{
			{main, durableWanted{name: spec.Consumer, ackWait: b.config.AckWait, pending: pending, start: spec.StartFrom}, false},
			{retry, durableWanted{
				name: spec.Consumer, filter: to.Retry, ackWait: b.config.AckWait, pending: unlimited,
				start: brokers.Start{Kind: brokers.StartEarliest},
			}, true},
		} {
			consumer, err := b.durable(ctx, from.stream, from.wanted)
			if err != nil {
				return err
			}
			l := s.lane(topic, from.stream, consumer, from.retry)
			l.agreed = from.wanted
			l.agreed.ackWait = l.ackWait // what progress is told by, also where it was the durable's own
			s.lanes = append(s.lanes, l)
		}
	}
	began := time.Now()
	marks, err := openMarks(ctx, s)
	if err != nil {
		return b.explain(fmt.Sprintf("read the mark of consumer %q", spec.Consumer), began, err)
	}
	s.marks = marks
	for _, l := range s.lanes {
		if err := l.renew(); err != nil {
			return err
		}
	}
	return nil
}

// lane describes one durable.
func (s *source) lane(topic string, stream jetstream.Stream, consumer jetstream.Consumer, retry bool) *lane {
	of, info := stream.CachedInfo(), consumer.CachedInfo()
	l := &lane{
		s: s, consumer: consumer, stream: of.Config.Name, durable: info.Name, created: info.Created,
		ackWait: info.Config.AckWait, want: s.b.config.Prefetch,
		next:  s.b.api + "CONSUMER.MSG.NEXT." + of.Config.Name + "." + info.Name,
		inbox: s.b.nc.NewInbox() + ".",
	}
	l.learn(info)
	l.held.init()
	l.Topic, l.Retry = topic, retry
	l.Source = identity(of)
	l.Backlog = int64(info.NumPending) + int64(info.NumAckPending)
	return l
}

// identity names what a stream's sequences count in.
func identity(of *jetstream.StreamInfo) string {
	return of.Config.Name + "@" + of.Created.UTC().Format(time.RFC3339Nano)
}

// learn takes over what the durable allows in one request, which may be edited
// while it is read.
func (l *lane) learn(info *jetstream.ConsumerInfo) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.most, l.expires = info.Config.MaxRequestBatch, requestExpires
	if m := info.Config.MaxRequestExpires; m > 0 {
		l.expires = min(l.expires, m)
	}
	// A request is bounded to a quarter of what may be unfinished, as about
	// four overlap, and yet to more than the server takes as one message.
	l.maxBytes = max(l.s.spec.Unfinished.Bytes/4, int(l.s.b.nc.MaxPayload())+(128<<10))
	if m := info.Config.MaxRequestMaxBytes; m > 0 {
		l.maxBytes = min(l.maxBytes, m)
	}
}

func (l *lane) unsubscribe() {
	l.mu.Lock()
	sub := l.sub
	l.mu.Unlock()
	if sub != nil {
		_ = sub.Unsubscribe()
	}
}
