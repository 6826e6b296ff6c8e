//go:build servers

package kafkabroker_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// positions is where a group stands, on each partition: -1 where it does not.
func (o *other) positions(t testing.TB, group, topic string, partitions int) map[int32]int64 {
	t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	g := kmsg.NewOffsetFetchRequestGroup()
	gt := kmsg.NewOffsetFetchRequestGroupTopic()
	g.Group, gt.Topic = group, topic
	for p := range int32(partitions) {
		gt.Partitions = append(gt.Partitions, p)
	}
	g.Topics = append(g.Topics, gt)
	req.Groups = append(req.Groups, g)
	res, err := req.RequestWith(t.Context(), o.client)
	if err == nil {
		err = kerr.ErrorForCode(res.Groups[0].ErrorCode)
	}
	if err != nil {
		t.Fatalf("positions of %s: %v", group, err)
	}
	at := map[int32]int64{}
	for _, p := range res.Groups[0].Topics[0].Partitions {
		at[p.Partition] = p.Offset
	}
	return at
}
