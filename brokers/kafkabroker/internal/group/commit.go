package group

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/offsetcommit"

	"github.com/onceward/onceward/brokers/kafkabroker/internal/cluster"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/coop"
)

// Commit stores positions. It waits out rebalances and changes of the
// coordinator until ctx ends.
//
// Errors: [ErrNotOwned] when some claims were over (the others are stored); a
// [kafka.Error] that is final; ctx's with the last fault.
func (m *Member) Commit(ctx context.Context, positions map[Claim]Position) error {
	for {
		m.mu.Lock()
		id, generation, changed := m.id, m.generation, m.changed
		live := map[coop.Partition]Position{}
		for c, p := range positions {
			if h, ok := m.claims[c.Partition]; ok && h.epoch == c.Epoch {
				live[c.Partition] = p
			}
		}
		m.mu.Unlock()
		var over error
		if len(live) < len(positions) {
			over = ErrNotOwned
		}
		if len(live) == 0 {
			return over
		}
		err := m.store(ctx, id, generation, live)
		if err == nil {
			return over
		}
		err = m.judge(committing, err, id, generation)
		if !retriable(err) {
			return err
		}
		select {
		case <-changed:
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return errors.Join(ctx.Err(), err)
		}
	}
}

// store sends leader epoch -1, unknown. An epoch of 0 would be believed by a
// Java or franz-go member that takes the partition over, and make it read
// again from far behind.
func (m *Member) store(ctx context.Context, id string, generation int32, positions map[coop.Partition]Position) error {
	req := &offsetcommit.Request{GroupID: m.cfg.Group, GenerationID: generation, MemberID: id, GroupInstanceID: m.cfg.Instance}
	byTopic := map[string][]offsetcommit.RequestPartition{}
	for p, at := range positions {
		byTopic[p.Topic] = append(byTopic[p.Topic], offsetcommit.RequestPartition{
			PartitionIndex: p.Index, CommittedOffset: at.Offset, CommittedLeaderEpoch: -1, CommittedMetadata: at.Text,
		})
	}
	for topic, ps := range byTopic {
		req.Topics = append(req.Topics, offsetcommit.RequestTopic{Name: topic, Partitions: ps})
	}
	res, err := call[*offsetcommit.Response](ctx, &m.coordinator, cluster.Short, req, func(r *offsetcommit.Response) int16 {
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				if moved(p.ErrorCode) {
					return p.ErrorCode
				}
			}
		}
		return 0
	})
	if err != nil {
		return err
	}
	for _, t := range res.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode != 0 {
				return fmt.Errorf("%s/%d: %w", t.Name, p.PartitionIndex, kafka.Error(p.ErrorCode))
			}
		}
	}
	return nil
}
