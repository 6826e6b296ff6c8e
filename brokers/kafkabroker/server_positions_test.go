//go:build servers

package kafkabroker_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// tryPositions is where a group stands on each partition, -1 where it does
// not; it says false while the coordinator does not answer.
func (o *other) tryPositions(t testing.TB, group, topic string, partitions int) (map[int32]int64, bool) {
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
		return nil, false
	}
	at := map[int32]int64{}
	for _, p := range res.Groups[0].Topics[0].Partitions {
		at[p.Partition] = p.Offset
	}
	return at, true
}

// settled says that a group stands at the end of a topic.
func (o *other) settled(t testing.TB, group, topic string, partitions int) bool {
	t.Helper()
	at, ok := o.tryPositions(t, group, topic, partitions)
	if !ok {
		return false
	}
	for p, end := range o.ends(t, topic, -1) {
		// Of an empty partition no position need be kept.
		if at[p] != end && end > 0 {
			return false
		}
	}
	return true
}
