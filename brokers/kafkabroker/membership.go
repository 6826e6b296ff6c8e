package kafkabroker

import (
	"context"
	"errors"
	"maps"
	"sync"

	"github.com/onceward/onceward/brokers/kafkabroker/internal/coop"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/group"
)

// membership is one member of the consumer's group, which reads its topics and
// their retry topics.
//
// Beside members of other software it is two, the second one of a group
// CONSUMER.retry for the retry topics: a foreign leader counts partitions, and
// would give away as many messages as it hands out partitions that only this
// software reads.
type membership struct {
	members []*group.Member
	topics  []map[string]bool // by member
}

// retryGroup is the group that reads retry topics beside foreign members.
func retryGroup(consumer string) string { return consumer + ".retry" }

func newMembership(cfg group.Config, reads map[string]string, apart bool) *membership {
	m := &membership{}
	add := func(name string, take func(topic, of string) bool) {
		c := cfg
		c.Group, c.Topics = name, nil
		topics := map[string]bool{}
		for topic, of := range reads {
			if take(topic, of) {
				topics[topic] = true
				c.Topics = append(c.Topics, topic)
			}
		}
		m.members, m.topics = append(m.members, group.New(c)), append(m.topics, topics)
	}
	if !apart {
		add(cfg.Group, func(string, string) bool { return true })
		return m
	}
	add(cfg.Group, func(topic, of string) bool { return topic == of })
	// That all is well is said by the first one.
	hear := cfg.Trouble
	cfg.Joined = nil
	cfg.Trouble = func(err error) {
		if err != nil {
			hear(err)
		}
	}
	add(retryGroup(cfg.Group), func(topic, of string) bool { return topic != of })
	return m
}

// Run runs all members until ctx ends or one cannot go on.
func (m *membership) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(m.members))
	var running sync.WaitGroup
	for i, member := range m.members {
		running.Go(func() {
			defer cancel()
			errs[i] = member.Run(ctx)
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// Kill ends all members without a word.
func (m *membership) Kill() {
	for _, member := range m.members {
		member.Kill()
	}
}

// Leased says whether new work may begin.
func (m *membership) Leased() bool {
	for _, member := range m.members {
		if !member.Leased() {
			return false
		}
	}
	return true
}

// Owns says whether a claim is held, and not to be given up.
func (m *membership) Owns(c group.Claim) bool {
	for i, member := range m.members {
		if m.topics[i][c.Topic] {
			return member.Owns(c)
		}
	}
	return false
}

// Observe passes on how many partitions topics have.
func (m *membership) Observe(counts map[string]int32) {
	for i, member := range m.members {
		own := map[string]int32{}
		for topic, n := range counts {
			if m.topics[i][topic] {
				own[topic] = n
			}
		}
		member.Observe(own)
	}
}

// Positions reads what is committed.
func (m *membership) Positions(ctx context.Context, ps []coop.Partition) (map[coop.Partition]group.Position, error) {
	all := map[coop.Partition]group.Position{}
	for i, member := range m.members {
		var own []coop.Partition
		for _, p := range ps {
			if m.topics[i][p.Topic] {
				own = append(own, p)
			}
		}
		if len(own) == 0 {
			continue
		}
		found, err := member.Positions(ctx, own)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, found)
	}
	return all, nil
}

// Commit stores positions; see [group.Member.Commit].
func (m *membership) Commit(ctx context.Context, positions map[group.Claim]group.Position) error {
	var errs []error
	for i, member := range m.members {
		own := map[group.Claim]group.Position{}
		for c, p := range positions {
			if m.topics[i][c.Topic] {
				own[c] = p
			}
		}
		if len(own) > 0 {
			errs = append(errs, member.Commit(ctx, own))
		}
	}
	return errors.Join(errs...)
}
