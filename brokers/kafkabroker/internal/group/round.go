package group

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/segmentio/kafka-go/protocol/joingroup"

	"github.com/onceward/onceward/brokers/kafkabroker/internal/coop"
)

// protocolName is the one assignor that is spoken. Java clients have it in
// their default list, franz-go as its default.
const protocolName = "cooperative-sticky"

// round joins once, and does what follows from the assignment.
func (m *Member) round(ctx context.Context) error {
	// Counted before the join: what changes in between is seen as a change.
	counts, err := m.counts(ctx, m.cfg.Topics)
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.reason, m.joining, m.baseline = "", true, counts
	id := m.id
	s := subscription{topics: m.cfg.Topics, generation: m.synced}
	s.claims = slices.SortedFunc(maps.Keys(m.claims), coop.Partition.Compare)
	m.mu.Unlock()
	defer m.settle()

	j, err := m.join(ctx, id, s)
	if err != nil {
		return m.judge(joining, err, id, -1)
	}
	m.mu.Lock()
	m.id, m.generation = j.MemberID, j.GenerationID
	id = j.MemberID
	m.mu.Unlock()
	var plan map[string][]coop.Partition
	if j.LeaderID == id {
		if plan, err = m.plan(ctx, j); err != nil {
			return err
		}
	}
	sent := time.Now()
	assigned, err := m.sync(ctx, id, j.GenerationID, plan)
	if err != nil {
		return m.judge(syncing, err, id, j.GenerationID)
	}
	m.take(id, j.GenerationID, sent, assigned)
	m.trouble(nil)
	if m.cfg.Joined != nil {
		m.cfg.Joined()
	}
	return nil
}

// take compares an assignment with what is held.
func (m *Member) take(id string, generation int32, sent time.Time, assigned []coop.Partition) {
	m.mu.Lock()
	m.synced = generation
	m.extend(sent)
	var gone []Claim
	for p, h := range m.claims {
		if !h.draining && !slices.Contains(assigned, p) {
			gone = append(gone, Claim{p, h.epoch})
		}
	}
	var added []coop.Partition
	for _, p := range assigned {
		// One that drains and came back is dropped first, and joined for
		// again.
		if _, have := m.claims[p]; !have {
			added = append(added, p)
		}
	}
	m.mu.Unlock()
	m.settle()
	m.revoke(gone)
	m.gain(id, generation, added)
}

// plan is the leader's work. A member whose words cannot be read gets nothing
// and harms nobody else.
func (m *Member) plan(ctx context.Context, j *joingroup.Response) (map[string][]coop.Partition, error) {
	var members []coop.Member
	var foreign []string
	topics := map[string]bool{}
	for _, x := range j.Members {
		s, err := decodeSubscription(x.Metadata)
		if err != nil {
			s = subscription{generation: -1}
		}
		if !s.ours {
			foreign = append(foreign, x.MemberID)
		}
		for _, t := range s.topics {
			topics[t] = true
		}
		members = append(members, coop.Member{ID: x.MemberID, Instance: x.GroupInstanceID, Topics: s.topics, Claims: s.claims, Generation: s.generation})
	}
	if m.cfg.Foreign != nil {
		m.cfg.Foreign(foreign)
	}
	counts, err := m.counts(ctx, slices.Sorted(maps.Keys(topics)))
	if err != nil {
		return nil, err
	}
	return coop.Assign(members, counts, m.cfg.Leads).Now, nil
}

// counts leaves out topics that do not exist.
func (m *Member) counts(ctx context.Context, topics []string) (map[string]int32, error) {
	view, err := m.cfg.Cluster.Metadata(ctx, topics)
	if err != nil {
		return nil, err
	}
	n := map[string]int32{}
	for name, t := range view.Topics {
		if t.Err == 0 {
			n[name] = int32(len(t.Partitions))
		}
	}
	return n, nil
}
