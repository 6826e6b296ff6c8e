package cluster

import (
	"context"
	"fmt"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/findcoordinator"
)

// Coordinator asks any broker which one keeps a group, and reports the code of
// the answer, which kafka-go's own routing ignores.
func (c *Cluster) Coordinator(ctx context.Context, group string) (int32, error) {
	res, err := c.Any(ctx, &findcoordinator.Request{Key: group})
	if err != nil {
		return -1, err
	}
	r := res.(*findcoordinator.Response)
	if r.ErrorCode != 0 {
		return -1, fmt.Errorf("find the coordinator of group %q: %w", group, kafka.Error(r.ErrorCode))
	}
	if _, err := c.broker(r.NodeID); err != nil {
		// A broker that came after the last metadata.
		if _, err := c.Metadata(ctx, nil); err != nil {
			return -1, err
		}
	}
	return r.NodeID, nil
}
