package natsbroker

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceward/onceward/brokers"
)

// Inspect describes the streams of subjects or of that name; see
// [brokers.Browser]. Messages are those of the subject, where it has no
// wildcards; MaxCount is the lesser one of the stream's and of a subject's, and
// MaxMessage that of the stream or of the server.
//
// Errors: a [*brokers.StartError] for a subject of several streams, and what
// the server or the connection says.
func (b *Broker) Inspect(ctx context.Context, topics []string) ([]brokers.TopicInfo, error) {
	infos := make([]brokers.TopicInfo, len(topics))
	for i, name := range topics {
		info, err := b.inspect(ctx, name)
		switch {
		case errors.Is(err, brokers.ErrNoDestination):
			info = brokers.TopicInfo{Missing: true}
		case errors.Is(err, brokers.ErrUnauthorized):
			info = brokers.TopicInfo{Hidden: true, Messages: -1}
		case err != nil:
			return nil, fmt.Errorf("inspect %.80q: %w", name, err)
		}
		infos[i] = info
		infos[i].Topic = name
	}
	return infos, nil
}

func (b *Broker) inspect(ctx context.Context, name string) (brokers.TopicInfo, error) {
	s, subject, err := b.holder(ctx, name)
	if err != nil {
		return brokers.TopicInfo{}, err
	}
	of := s.CachedInfo()
	c := &of.Config
	info := brokers.TopicInfo{
		Identity: identity(of), Partitions: 1, Replicas: int32(c.Replicas), InSync: int32(c.Replicas/2 + 1),
		MaxAge: c.MaxAge, MaxBytes: max(0, c.MaxBytes), MaxCount: max(0, c.MaxMsgs), MaxMessage: b.nc.MaxPayload(),
		DropsOld: c.Discard == jetstream.DiscardOld, ConsumedOnce: c.Retention != jetstream.LimitsPolicy,
		InMemory: c.Storage == jetstream.MemoryStorage, Messages: int64(of.State.Msgs),
	}
	if c.MaxMsgSize > 0 {
		info.MaxMessage = min(info.MaxMessage, int64(c.MaxMsgSize))
	}
	if n := c.MaxMsgsPerSubject; n > 0 {
		if info.MaxCount == 0 || n < info.MaxCount {
			info.MaxCount = n
		}
		info.DropsOld = info.DropsOld || !c.DiscardNewPerSubject
	}
	switch {
	case subject == "":
	case !literalSubject(subject):
		info.Messages = -1
	default:
		err = b.call(ctx, func(ctx context.Context) error {
			of, err = s.Info(ctx, jetstream.WithSubjectFilter(subject))
			return err
		})
		if err != nil {
			return brokers.TopicInfo{}, err
		}
		info.Messages = int64(of.State.Subjects[subject])
	}
	return info, nil
}
