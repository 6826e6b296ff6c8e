package group

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/describegroups"

	"github.com/onceward/onceward/brokers/kafkabroker/internal/cluster"
)

// Foreign lists the members of a group that are other software, as "member,
// client id, host". While a rebalance hides what members say of themselves it
// waits, at most patience; who still says nothing is not counted.
func Foreign(ctx context.Context, c *cluster.Cluster, group string, patience time.Duration) ([]string, error) {
	k := &coordinator{cluster: c, group: group, node: -1}
	for end := time.Now().Add(patience); ; sleep(ctx, 100*time.Millisecond) {
		names, hidden, err := roster(ctx, k)
		if err != nil || !hidden || time.Now().After(end) || ctx.Err() != nil {
			return names, err
		}
	}
}

func roster(ctx context.Context, k *coordinator) (foreign []string, hidden bool, err error) {
	code := func(r *describegroups.Response) int16 {
		if len(r.Groups) == 0 {
			return 0
		}
		return r.Groups[0].ErrorCode
	}
	res, err := call(ctx, k, cluster.Short, &describegroups.Request{Groups: []string{k.group}}, code)
	if err != nil {
		return nil, false, err
	}
	if c := code(res); c != 0 {
		return nil, false, fmt.Errorf("describe group %q: %w", k.group, kafka.Error(c))
	}
	if len(res.Groups) == 0 || len(res.Groups[0].Members) == 0 {
		return next(ctx, k)
	}
	for _, g := range res.Groups {
		for _, m := range g.Members {
			ours, known := Ours(m.MemberMetadata)
			switch {
			case !known:
				hidden = true
			case !ours:
				foreign = append(foreign, memberName(m.MemberID, m.ClientID, m.ClientHost))
			}
		}
	}
	return foreign, hidden, nil
}

func memberName(id, client, host string) string {
	return fmt.Sprintf("%s, client id %q, on %s", id, client, strings.TrimPrefix(host, "/"))
}

// next lists the members of a group of the next protocol. At least one of them
// is other software: without it the group would not be of that protocol.
func next(ctx context.Context, k *coordinator) (foreign []string, hidden bool, err error) {
	req := &nextGroupRequest{client: k.cluster.ClientID(), group: k.group}
	res, err := call(ctx, k, cluster.Short, req, func(a *nextGroupAnswer) int16 { return int16(a.code) })
	if err != nil {
		return nil, false, err
	}
	switch res.code {
	case 0, kafka.GroupIdNotFound, kafka.GroupAuthorizationFailed, kafka.UnsupportedVersion:
		return res.members, false, nil
	}
	return nil, false, fmt.Errorf("describe group %q: %w", k.group, res.code)
}
