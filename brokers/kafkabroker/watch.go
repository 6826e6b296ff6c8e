package kafkabroker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/onceward/onceward/brokers/kafkabroker/internal/cluster"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/group"
)

// Pauses between two looks at the metadata, however often somebody finds it
// old: the first of several is short, since a leader that moved is soon known;
// a partition that stays without one is no reason for a storm.
const (
	leastPause = 100 * time.Millisecond
	mostPause  = time.Second
	// failedPause is after a look that nobody answered.
	failedPause = 500 * time.Millisecond
)

// watch keeps the metadata as new as the cluster: leaders that moved, new
// partitions, topics that came, went, or were made again.
func (s *source) watch() {
	tick := time.NewTicker(s.cfg.WatchInterval)
	defer tick.Stop()
	pause := leastPause
	for {
		select {
		case <-s.life.Done():
			return
		case <-tick.C:
		case <-s.stale:
		}
		if !s.look() {
			pause = max(pause, failedPause)
			nudge(s.stale)
		}
		select {
		case <-s.life.Done():
			return
		case <-time.After(pause):
		}
		if len(s.stale) > 0 { // what was found is old again, or still
			pause = min(2*pause, mostPause)
		} else {
			pause = leastPause
		}
	}
}

func (s *source) look() bool {
	view, err := s.b.cluster.Metadata(s.life, slices.Sorted(maps.Keys(s.reads)))
	if err != nil {
		if s.life.Err() == nil {
			s.trouble.report("metadata", err)
		}
		return false
	}
	s.trouble.over("metadata")
	s.heard(view.Topics)
	return true
}

// heard takes in what the topics are now.
func (s *source) heard(topics map[string]cluster.Topic) {
	counts := map[string]int32{}
	var came []string
	var again []*lane
	s.mu.Lock()
	for name, t := range topics {
		if t.Err == 0 {
			counts[name] = int32(len(t.Partitions))
			if old, ok := s.topics[name]; ok && old.Err != 0 {
				came = append(came, name)
			}
		}
		s.missing(name, t.Err)
	}
	s.topics = topics
	for _, l := range s.lanes {
		t := topics[l.claim.Topic]
		p, ok := t.Partitions[l.claim.Index]
		switch {
		case t.Err != 0 || !ok:
			l.leader = -1
		case l.life != opening && madeAgain(l.id, t.ID):
			again = append(again, l)
		default:
			l.leader = p.Leader
			if l.life != opening && l.id == (cluster.ID{}) {
				l.id = t.ID // the cluster was upgraded meanwhile
			}
		}
	}
	s.mu.Unlock()
	if len(again) > 0 {
		s.lose(again, fmt.Errorf("topic %q was deleted and made again", again[0].claim.Topic))
		s.renew(again)
	}
	for _, name := range came {
		if s.reads[name] == name {
			s.workers.Go(func() { s.destinationsOf(name) })
		}
	}
	s.member.Observe(counts)
	nudge(s.pump)
	nudge(s.later)
}

// view is what the topics were when they were last heard of.
func (s *source) view() map[string]cluster.Topic {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.topics
}

// madeAgain says whether a topic's ids are those of two topics. Clusters older
// than Kafka 2.8 do not tell the id, and neither do those that are being
// upgraded: that says nothing.
func madeAgain(was, is cluster.ID) bool {
	return was != is && was != (cluster.ID{}) && is != (cluster.ID{})
}

// missing reports a topic that is not there, and that it came.
func (s *source) missing(name string, code kafka.Error) {
	what := "topic " + name
	switch code {
	case 0:
		s.trouble.over(what)
	case kafka.UnknownTopicOrPartition:
		s.trouble.report(what, fmt.Errorf("does not exist; it is read as soon as it does: %w", code))
	default:
		s.trouble.report(what, code)
	}
}

// renew makes new lanes of the claims of lanes that ended.
func (s *source) renew(ls []*lane) {
	claims := make([]group.Claim, len(ls))
	for i, l := range ls {
		claims[i] = l.claim
	}
	s.assigned(claims)
}

// destinationsOf checks, and where told makes, the destinations of a topic
// that came later.
func (s *source) destinationsOf(topic string) {
	ctx, cancel := context.WithTimeout(s.life, 4*cluster.Short)
	defer cancel()
	notes, err := s.b.prepare(ctx, s.spec, []string{topic})
	if err != nil && s.life.Err() == nil {
		s.trouble.report("destinations of "+topic, err)
		return
	}
	s.remark(notes)
}

// remark reports what is not right about destinations but no fault.
func (s *source) remark(notes []remark) {
	for _, n := range notes {
		s.trouble.report(n.what, n.err)
	}
}
