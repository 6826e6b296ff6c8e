package group

import (
	"context"
	"fmt"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/offsetfetch"

	"github.com/onceward/onceward/brokers/kafkabroker/internal/cluster"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/coop"
)

// Positions reads what the group has committed. Partitions without a position
// are left out.
//
// Errors: of the network, or a [kafka.Error]; asking again may help.
func (m *Member) Positions(ctx context.Context, ps []coop.Partition) (map[coop.Partition]Position, error) {
	return positions(ctx, &m.coordinator, ps)
}

// PositionsOf is Positions for another group.
func PositionsOf(ctx context.Context, c *cluster.Cluster, group string, ps []coop.Partition) (map[coop.Partition]Position, error) {
	return positions(ctx, &coordinator{cluster: c, group: group, node: -1}, ps)
}

func positions(ctx context.Context, c *coordinator, ps []coop.Partition) (map[coop.Partition]Position, error) {
	byTopic := map[string][]int32{}
	for _, p := range ps {
		byTopic[p.Topic] = append(byTopic[p.Topic], p.Index)
	}
	req := &offsetfetch.Request{GroupID: c.group}
	for t, is := range byTopic {
		req.Topics = append(req.Topics, offsetfetch.RequestTopic{Name: t, PartitionIndexes: is})
	}
	res, err := call(ctx, c, cluster.Short, req, func(r *offsetfetch.Response) int16 { return r.ErrorCode })
	if err != nil {
		return nil, err
	}
	if kafka.Error(res.ErrorCode) == kafka.GroupIdNotFound {
		return nil, nil // newer brokers say so of a group that never was
	}
	if res.ErrorCode != 0 {
		return nil, fmt.Errorf("positions of group %q: %w", c.group, kafka.Error(res.ErrorCode))
	}
	found := map[coop.Partition]Position{}
	for _, t := range res.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode != 0 {
				return nil, fmt.Errorf("position of group %q on %s/%d: %w", c.group, t.Name, p.PartitionIndex, kafka.Error(p.ErrorCode))
			}
			if p.CommittedOffset >= 0 {
				found[coop.Partition{Topic: t.Name, Index: p.PartitionIndex}] = Position{Offset: p.CommittedOffset, Text: p.Metadata}
			}
		}
	}
	return found, nil
}
