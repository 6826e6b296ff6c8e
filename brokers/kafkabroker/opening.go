package kafkabroker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/cluster"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/coop"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/group"
)

// assigned makes lanes of new claims, and finds out where they begin beside
// everything else.
func (s *source) assigned(claims []group.Claim) {
	s.mu.Lock()
	var ls []*lane
	for _, c := range claims {
		ls = append(ls, s.newLane(c))
	}
	s.mu.Unlock()
	s.workers.Go(func() {
		s.open(ls)
		s.begun()
	})
}

// newLane registers a lane that is opening; s.mu is held.
func (s *source) newLane(c group.Claim) *lane {
	l := &lane{claim: c, leader: -1, high: -1}
	l.Topic, l.Partition = s.reads[c.Topic], c.Index
	l.Retry = l.Topic != c.Topic
	l.Backlog = -1
	s.lanes = append(s.lanes, l)
	s.byClaim[c], s.byLane[&l.Lane] = l, l
	return l
}

// open finds the lanes' positions, commits them, and hands the lanes over. It
// tries until it has done it, or the lanes are gone.
func (s *source) open(ls []*lane) {
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		ls = s.stillOpening(ls)
		if len(ls) == 0 || s.life.Err() != nil {
			return
		}
		err := s.openOnce(ls)
		if err == nil {
			s.trouble.over("positions")
			return
		}
		if s.life.Err() != nil {
			return
		}
		s.trouble.report("positions", err)
		nudge(s.stale)
		select {
		case <-s.life.Done():
		case <-time.After(pause):
		}
	}
}

func (s *source) stillOpening(ls []*lane) []*lane {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(ls, func(l *lane) bool { return l.life != opening })
}

// logs is what the cluster says about the partitions of some lanes.
type logs struct {
	topics    map[string]cluster.Topic
	committed map[coop.Partition]group.Position // of all partitions of their topics
	starts    map[coop.Partition]int64
	ends      map[coop.Partition]int64
	wanted    map[coop.Partition]int64 // by StartFrom, where there is no position
	origin    map[string]int32         // see note
}

func (s *source) openOnce(ls []*lane) error {
	ctx, cancel := context.WithTimeout(s.life, 4*cluster.Short)
	defer cancel()
	g, err := s.survey(ctx, ls)
	if err != nil {
		return err
	}
	first := map[group.Claim]group.Position{}
	s.mu.Lock()
	for _, l := range ls {
		if l.life == opening {
			s.begin(l, g, first)
		}
	}
	s.mu.Unlock()
	// A position is committed before the first delivery: a source that began
	// at the latest and stopped before its first commit would begin at another
	// latest, and lose what came in between.
	if err := s.member.Commit(ctx, first); err != nil && !errors.Is(err, group.ErrNotOwned) {
		return fmt.Errorf("commit where to begin: %w", err)
	}
	s.mu.Lock()
	for c, p := range first {
		if l := s.byClaim[c]; l != nil {
			l.stored = p
		}
	}
	for _, l := range ls {
		l.placed = true
	}
	s.mu.Unlock()
	s.events.Call(func() { s.announce(ls) })
	return nil
}

// survey asks for everything that begin needs.
func (s *source) survey(ctx context.Context, ls []*lane) (g logs, err error) {
	s.mu.Lock()
	g.topics = s.topics
	s.mu.Unlock()
	mine := map[string]cluster.Topic{}
	var ps []coop.Partition
	for _, l := range ls {
		t, ok := g.topics[l.claim.Topic]
		if !ok || t.Err != 0 {
			return g, fmt.Errorf("topic %q: %w", l.claim.Topic, kafka.UnknownTopicOrPartition)
		}
		mine[l.claim.Topic] = t
		ps = append(ps, l.claim.Partition)
	}
	if g.committed, err = s.positions(ctx, mine); err != nil {
		return g, err
	}
	if g.starts, err = listOffsets(ctx, s.b.cluster, mine, ps, earliest); err != nil {
		return g, err
	}
	if g.ends, err = listOffsets(ctx, s.b.cluster, mine, ps, latest); err != nil {
		return g, err
	}
	g.origin = map[string]int32{}
	for p, at := range g.committed {
		if n, ok := parseNote(at.Text); ok && n.id == mine[p.Topic].ID && n.origin > 0 {
			if was, seen := g.origin[p.Topic]; !seen || n.origin < was {
				g.origin[p.Topic] = n.origin
			}
		}
	}
	ps = slices.DeleteFunc(ps, func(p coop.Partition) bool { _, ok := g.committed[p]; return ok })
	g.wanted, err = s.wanted(ctx, mine, ps, g)
	return g, err
}

// positions reads what the group has committed on all partitions of topics.
func (s *source) positions(ctx context.Context, topics map[string]cluster.Topic) (map[coop.Partition]group.Position, error) {
	var all []coop.Partition
	for name, t := range topics {
		if t.Err == 0 {
			all = append(all, partitionsOf(name, len(t.Partitions))...)
		}
	}
	return s.member.Positions(ctx, all)
}

// wanted is where StartFrom puts partitions without a position.
func (s *source) wanted(ctx context.Context, topics map[string]cluster.Topic, ps []coop.Partition, g logs) (map[coop.Partition]int64, error) {
	at := map[coop.Partition]int64{}
	if len(ps) == 0 {
		return at, nil
	}
	for _, p := range ps {
		at[p] = g.starts[p]
	}
	var other map[coop.Partition]int64
	var err error
	switch s.spec.StartFrom.Kind {
	case brokers.StartLatest:
		other = g.ends
	case brokers.StartTime:
		if other, err = listOffsets(ctx, s.b.cluster, topics, ps, s.spec.StartFrom.Time.UnixMilli()); err != nil {
			return nil, err
		}
	case brokers.StartGroup:
		found, err := group.PositionsOf(ctx, s.b.cluster, s.spec.StartFrom.Group, ps)
		if err != nil {
			return nil, err
		}
		other = map[coop.Partition]int64{}
		for p, f := range found {
			other[p] = f.Offset
		}
	}
	for p, offset := range other {
		if _, asked := at[p]; !asked {
			continue
		}
		if origin := g.origin[p.Topic]; origin > 0 && p.Index >= origin {
			// The partition was added after the group began: all of it is
			// new, also what came before anybody noticed.
			continue
		}
		if _, retry := s.reads[p.Topic]; retry && s.reads[p.Topic] != p.Topic {
			continue // every copy that waits is this consumer's own
		}
		if offset < 0 {
			offset = g.ends[p] // nothing is as new as that time
		}
		at[p] = offset
	}
	return at, nil
}

// begin decides where a lane begins; s.mu is held. What is to be committed
// goes into first.
func (s *source) begin(l *lane, g logs, first map[group.Claim]group.Position) {
	p := l.claim.Partition
	topic := g.topics[p.Topic]
	l.id, l.leader = topic.ID, topic.Partitions[p.Index].Leader
	l.origin = int32(len(topic.Partitions))
	if was, ok := g.origin[p.Topic]; ok {
		l.origin = was
	}
	l.Source = sourceID(p.Topic, topic.ID)
	l.start = g.starts[p]
	at, committed := g.committed[p]
	n, noted := parseNote(at.Text)
	if noted {
		l.Mark = n.mark
		s.seen[n.mark] = true
	}
	offset := at.Offset
	if !committed {
		offset = g.wanted[p]
	}
	start, end := g.starts[p], g.ends[p]
	var gap *GapError
	l.held = false
	switch id, was := s.known[p.Topic]; {
	case committed && noted && topic.ID != (cluster.ID{}) && n.id != topic.ID,
		!committed && was && id != topic.ID:
		gap = &GapError{Partition: l.name(), Kind: TopicMadeAgain, Position: offset, Start: start, End: end}
	case offset < start:
		gap = &GapError{Partition: l.name(), Kind: BelowStart, Position: offset, Start: start, End: end}
	case offset > end:
		gap = &GapError{Partition: l.name(), Kind: PastEnd, Position: offset, Start: start, End: end}
	}
	if gap != nil {
		offset = s.bridge(l, gap)
	} else {
		s.known[p.Topic] = topic.ID
	}
	l.next = offset
	l.track.Reset(offset)
	l.Backlog = max(0, end-offset)
	l.stored = at
	if want := (group.Position{Offset: offset, Text: s.note(l)}); !l.held && (!committed || want != at) {
		first[l.claim] = want
	}
}

// announce tells of new lanes, and lets them be read.
func (s *source) announce(ls []*lane) {
	s.mu.Lock()
	ls = slices.DeleteFunc(ls, func(l *lane) bool { return l.life != opening })
	for _, l := range ls {
		l.told = true
	}
	s.mu.Unlock()
	if len(ls) == 0 {
		return
	}
	if f := s.spec.Events.Assigned; f != nil {
		if err := f(public(ls)); err != nil {
			s.fail(err)
			return
		}
	}
	s.mu.Lock()
	for _, l := range ls {
		if l.life == opening {
			l.life = live
		}
	}
	s.mu.Unlock()
	nudge(s.pump)
}

func public(ls []*lane) []*brokers.Lane {
	out := make([]*brokers.Lane, len(ls))
	for i, l := range ls {
		out[i] = &l.Lane
	}
	return out
}

// sourceID names what offsets count in.
func sourceID(topic string, id cluster.ID) string {
	if id == (cluster.ID{}) {
		return topic
	}
	return fmt.Sprintf("%s@%x", topic, id[:])
}
