package kafkabroker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/cluster"
)

// Inspect implements [brokers.Browser].
//
// Errors: what the cluster or the connection says, when no broker answers or a
// topic has had no leader for half a minute.
func (b *broker) Inspect(ctx context.Context, topics []string) ([]brokers.TopicInfo, error) {
	infos := make([]brokers.TopicInfo, len(topics))
	var names []string
	for i, name := range topics {
		infos[i] = brokers.TopicInfo{Topic: name, Missing: true}
		if topicName.MatchString(name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return infos, nil
	}
	view, err := b.led(ctx, names)
	if err != nil {
		return nil, fmt.Errorf("inspect topics: %w", err)
	}
	var there []string
	for i, name := range topics {
		t, asked := view.Topics[name]
		switch {
		case !asked, t.Err == kafka.UnknownTopicOrPartition, t.Err == kafka.InvalidTopic:
		case t.Err == kafka.TopicAuthorizationFailed:
			infos[i] = brokers.TopicInfo{Topic: name, Hidden: true, Messages: -1}
		case t.Err != 0:
			return nil, fmt.Errorf("inspect topic %q: %w", name, t.Err)
		default:
			there = append(there, name)
			infos[i] = brokers.TopicInfo{Topic: name, Identity: sourceID(name, t.ID), Partitions: int32(len(t.Partitions))}
		}
	}
	have, _, err := b.describe(ctx, there)
	if err != nil {
		return nil, fmt.Errorf("inspect topics: %w", err)
	}
	for i := range infos {
		if info := &infos[i]; info.Partitions > 0 {
			b.inspect(ctx, info, view.Topics, have)
		}
	}
	return infos, nil
}

// led asks for topics, again while one of them has no leader: it was just made,
// or its leader moves.
func (b *broker) led(ctx context.Context, names []string) (cluster.View, error) {
	began := time.Now()
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		view, err := b.cluster.Metadata(ctx, names)
		if err != nil {
			return view, err
		}
		at := slices.IndexFunc(names, func(n string) bool { return view.Topics[n].Err == kafka.LeaderNotAvailable })
		if at < 0 {
			return view, nil
		}
		fault := fmt.Errorf("topic %q: %w", names[at], kafka.LeaderNotAvailable)
		if time.Since(began) > healing {
			return view, fault
		}
		select {
		case <-ctx.Done():
			return view, errors.Join(ctx.Err(), fault)
		case <-time.After(pause):
		}
	}
}

func (b *broker) inspect(ctx context.Context, info *brokers.TopicInfo, topics map[string]cluster.Topic, have map[string]settings) {
	for _, p := range topics[info.Topic].Partitions {
		info.Replicas = max(info.Replicas, p.Replicas)
	}
	info.Messages = b.count(ctx, info.Topic, topics)
	info.DropsOld = true
	s, known := have[info.Topic]
	if info.Hidden = !known; info.Hidden {
		return
	}
	info.MaxMessage, info.InSync, info.Compacted = s.maxBytes, int32(s.inSync), s.compacted
	if s.deleted && s.retention >= 0 {
		info.MaxAge = max(s.retention, time.Millisecond)
	}
	if s.deleted && s.kept >= 0 {
		info.MaxBytes = max(s.kept, 1)
	}
}

// count is how many offsets a topic has from the first to the end, -1 when
// that is not known. Of a compacted one fewer are messages.
func (b *broker) count(ctx context.Context, name string, topics map[string]cluster.Topic) (n int64) {
	ps := partitionsOf(name, len(topics[name].Partitions))
	starts, err := listOffsets(ctx, b.cluster, topics, ps, earliest)
	if err != nil {
		return -1
	}
	ends, err := listOffsets(ctx, b.cluster, topics, ps, latest)
	if err != nil {
		return -1
	}
	for _, p := range ps {
		n += max(0, ends[p]-starts[p])
	}
	return n
}
