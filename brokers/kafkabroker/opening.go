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
	defer s.mu.Unlock()
	if s.closing {
		return // Close waits for the workers that there are
	}
	byTopic := map[string][]*lane{} // what is asked at once
	for _, c := range claims {
		byTopic[c.Topic] = append(byTopic[c.Topic], s.newLane(c))
	}
	for _, ls := range byTopic {
		s.workers.Go(func() { s.open(ls) })
	}
}

// newLane registers a lane that is opening; s.mu is held.
func (s *source) newLane(c group.Claim) *lane {
	l := &lane{claim: c, leader: -1, high: -1, since: time.Now()}
	l.Topic, l.Partition = s.reads[c.Topic], c.Index
	l.Retry = l.Topic != c.Topic
	l.Backlog = -1
	s.lanes = append(s.lanes, l)
	s.byClaim[c], s.byLane[&l.Lane] = l, l
	return l
}

// leaderless is how long Open waits for the leader of one partition among
// others: one that was just made or moved has it soon.
const leaderless = 5 * time.Second

// open finds the positions of lanes of one topic, commits them, and hands the
// lanes over. It tries until it has done it for all, or they are gone: those
// whose partition has no leader do not hold up the others.
func (s *source) open(ls []*lane) {
	what := "positions of " + ls[0].claim.Topic
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		var led []*lane
		if ls, led = s.unplaced(ls); len(ls) == 0 || s.life.Err() != nil {
			s.trouble.over(what)
			s.begun()
			return
		}
		err := fmt.Errorf("%d of its partitions have no leader: %w", len(ls)-len(led), kafka.LeaderNotAvailable)
		if len(led) > 0 {
			err = s.openOnce(led)
		}
		s.begun()
		if err == nil {
			continue
		}
		if s.life.Err() != nil {
			return
		}
		s.trouble.report(what, err)
		nudge(s.stale)
		select {
		case <-s.life.Done():
		case <-time.After(pause):
		}
	}
}

// unplaced lists the lanes that still have no position, and those of them that
// have a leader to ask.
//
// Word that a claim is over may come before its lane is there, from another
// goroutine. Such a lane is dropped here: nobody would ever end it.
func (s *source) unplaced(ls []*lane) (open, led []*lane) {
	var stray []*lane
	defer func() { s.forget(stray) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range ls {
		if l.life != opening || l.placed {
			continue
		}
		if !s.member.Owns(l.claim) {
			stray = append(stray, l)
			continue
		}
		open = append(open, l)
		if p, ok := s.topics[l.claim.Topic].Partitions[l.claim.Index]; ok && p.Leader >= 0 {
			led = append(led, l)
		} else {
			l.tried = l.tried || time.Since(l.since) > leaderless
		}
	}
	return open, led
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
	s.mu.Lock()
	ls = slices.DeleteFunc(ls, func(l *lane) bool {
		l.tried = l.tried || g.committed != nil && time.Since(l.since) > leaderless
		return !g.knows(l.claim.Partition)
	})
	s.mu.Unlock()
	if len(ls) == 0 {
		return err
	}
	done, err := s.writing(ctx)
	if err != nil {
		return err
	}
	defer done()
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

// knows says whether everything was found out about a partition.
func (g *logs) knows(p coop.Partition) bool {
	_, start := g.starts[p]
	_, end := g.ends[p]
	_, committed := g.committed[p]
	_, wanted := g.wanted[p]
	return start && end && (committed || wanted)
}

// survey asks for everything that begin needs. The error says why something is
// not known.
func (s *source) survey(ctx context.Context, ls []*lane) (g logs, err error) {
	g.topics = s.view()
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
	var fault [3]error
	g.starts, fault[0] = listOffsets(ctx, s.b.cluster, mine, ps, earliest)
	g.ends, fault[1] = listOffsets(ctx, s.b.cluster, mine, ps, latest)
	g.origin = map[string]int32{}
	for p, at := range g.committed {
		if n, ok := parseNote(at.Text); ok && !madeAgain(n.id, mine[p.Topic].ID) && n.origin > 0 {
			if was, seen := g.origin[p.Topic]; !seen || n.origin < was {
				g.origin[p.Topic] = n.origin
			}
		}
	}
	ps = slices.DeleteFunc(ps, func(p coop.Partition) bool {
		_, committed := g.committed[p]
		_, start := g.starts[p]
		_, end := g.ends[p]
		return committed || !start || !end
	})
	g.wanted, fault[2] = s.wanted(ctx, mine, ps, g)
	return g, errors.Join(fault[:]...)
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
	var fault error
	switch s.spec.StartFrom.Kind {
	case brokers.StartLatest:
		other = g.ends
	case brokers.StartTime:
		other, fault = listOffsets(ctx, s.b.cluster, topics, ps, s.spec.StartFrom.Time.UnixMilli())
		for _, p := range ps {
			if _, ok := other[p]; !ok {
				delete(at, p)
			}
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
	return at, fault
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
	var gap GapKind
	l.held = false
	switch id, was := s.known[p.Topic]; {
	case committed && noted && madeAgain(n.id, topic.ID),
		!committed && was && madeAgain(id, topic.ID):
		gap = TopicMadeAgain
	case offset < start:
		gap = BelowStart
	case offset > end:
		gap = PastEnd
	}
	if gap != 0 {
		offset = s.bridge(l, &GapError{Partition: l.name(), Kind: gap, Position: offset, Start: start, End: end})
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
