package kafkabroker

import (
	"context"
	"errors"
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

// Whose latest offset is asked for.
const (
	uncommitted int8 = 0 // the high watermark
	committed   int8 = 1 // the last stable offset: what follows is not decided yet
)

// listOffsets asks the leaders for the first offset at or after a time in ms,
// earliest or latest; -1 stands for none. What could not be found out is left
// out, and the error says why for one of those.
func listOffsets(ctx context.Context, c *cluster.Cluster, topics map[string]cluster.Topic, ps []coop.Partition, at int64) (map[coop.Partition]int64, error) {
	return offsetsFor(ctx, c, topics, ps, at, uncommitted)
}

// offsetsFor is listOffsets for one kind of readers.
func offsetsFor(ctx context.Context, c *cluster.Cluster, topics map[string]cluster.Topic, ps []coop.Partition, at int64, isolation int8) (map[coop.Partition]int64, error) {
	var fault error
	byLeader := map[int32]map[string][]listoffsets.RequestPartition{}
	for _, p := range ps {
		part, ok := topics[p.Topic].Partitions[p.Index]
		if !ok || part.Leader < 0 {
			fault = fmt.Errorf("%s/%d: %w", p.Topic, p.Index, kafka.LeaderNotAvailable)
			continue
		}
		if byLeader[part.Leader] == nil {
			byLeader[part.Leader] = map[string][]listoffsets.RequestPartition{}
		}
		byLeader[part.Leader][p.Topic] = append(byLeader[part.Leader][p.Topic],
			listoffsets.RequestPartition{Partition: p.Index, CurrentLeaderEpoch: -1, Timestamp: at})
	}
	found := map[coop.Partition]int64{}
	for leader, byTopic := range byLeader {
		req := &listoffsets.Request{ReplicaID: -1, IsolationLevel: isolation}
		for t, ps := range byTopic {
			req.Topics = append(req.Topics, listoffsets.RequestTopic{Topic: t, Partitions: ps})
		}
		res, err := c.Call(ctx, leader, cluster.Short, req)
		if err != nil {
			fault = err
			continue
		}
		for _, t := range res.(*listoffsets.Response).Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode != 0 {
					fault = fmt.Errorf("%s/%d: %w", t.Topic, p.Partition, kafka.Error(p.ErrorCode))
					continue
				}
				found[coop.Partition{Topic: t.Topic, Index: p.Partition}] = p.Offset
			}
		}
	}
	if fault == nil && len(found) < len(ps) {
		fault = errors.New("a broker left out partitions that it was asked for")
	}
	return found, fault
}
