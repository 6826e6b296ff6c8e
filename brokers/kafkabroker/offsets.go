package kafkabroker

import (
	"context"
	"fmt"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/listoffsets"

	"github.com/onceward/onceward/brokers/kafkabroker/internal/cluster"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/coop"
)

// The times that ListOffsets takes for the ends of a log.
const (
	earliest = -2
	latest   = -1
)

// listOffsets asks the leaders for the first offset at or after a time in ms,
// earliest or latest. -1 stands for none, all partitions must answer.
func listOffsets(ctx context.Context, c *cluster.Cluster, topics map[string]cluster.Topic, ps []coop.Partition, at int64) (map[coop.Partition]int64, error) {
	byLeader := map[int32]map[string][]listoffsets.RequestPartition{}
	for _, p := range ps {
		part, ok := topics[p.Topic].Partitions[p.Index]
		if !ok || part.Leader < 0 {
			return nil, fmt.Errorf("%s/%d: %w", p.Topic, p.Index, kafka.LeaderNotAvailable)
		}
		if byLeader[part.Leader] == nil {
			byLeader[part.Leader] = map[string][]listoffsets.RequestPartition{}
		}
		byLeader[part.Leader][p.Topic] = append(byLeader[part.Leader][p.Topic],
			listoffsets.RequestPartition{Partition: p.Index, CurrentLeaderEpoch: -1, Timestamp: at})
	}
	found := map[coop.Partition]int64{}
	for leader, byTopic := range byLeader {
		req := &listoffsets.Request{ReplicaID: -1}
		for t, ps := range byTopic {
			req.Topics = append(req.Topics, listoffsets.RequestTopic{Topic: t, Partitions: ps})
		}
		res, err := c.Call(ctx, leader, cluster.Short, req)
		if err != nil {
			return nil, err
		}
		for _, t := range res.(*listoffsets.Response).Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode != 0 {
					return nil, fmt.Errorf("%s/%d: %w", t.Topic, p.Partition, kafka.Error(p.ErrorCode))
				}
				found[coop.Partition{Topic: t.Topic, Index: p.Partition}] = p.Offset
			}
		}
	}
	for _, p := range ps {
		if _, ok := found[p]; !ok {
			return nil, fmt.Errorf("%s/%d: the broker did not answer for it", p.Topic, p.Index)
		}
	}
	return found, nil
}
