package kafkabroker

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/onceward/onceward/brokers/kafkabroker/internal/fetch"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/records"
)

const (
	// maxFlights is how many fetches to one broker are on their way at most.
	// More than one, so that a lane with room need not wait while the broker
	// waits for messages of idle lanes.
	maxFlights = 4
	// longWait is how long the broker may wait for a first message: four
	// requests a second to each broker when nothing comes.
	longWait = 250 * time.Millisecond
	// shortWait is that of a second fetch to the same broker. What came back
	// empty from it waits for the next long one.
	shortWait = 50 * time.Millisecond
	// silence bounds a fetch beyond its wait.
	silence = 4 * time.Second

	// maxLaneAsk bounds what is asked for of one lane, and leastLaneAsk is
	// asked for at least, in bytes.
	maxLaneAsk   = 1 << 20
	leastLaneAsk = 64 << 10
	// maxAsk bounds one answer, as far as single batches allow.
	maxAsk = 16 << 20
	// maxPrefetch bounds what is read ahead in all lanes, in bytes.
	maxPrefetch = 32 << 20
)

// tool is what one fetch works with, used again by the next.
type tool struct {
	decoder *records.Decoder
	buffer  []byte
}

// again calls look until the source ends: when it was nudged, and after what
// look says at the latest.
func (s *source) again(nudged <-chan struct{}, look func() time.Duration) {
	for {
		timer := time.NewTimer(look())
		select {
		case <-s.life.Done():
			timer.Stop()
			return
		case <-nudged:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// launch starts fetches wherever lanes have room, and says when to look again at the latest.
func (s *source) launch() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, wait := time.Now(), time.Minute
	ask := s.share()
	byLeader := map[int32][]*lane{}
	for _, l := range s.lanes {
		if l.life != live || l.flying || l.paused || l.held || l.bytes > ask/2 {
			continue
		}
		if l.leader < 0 {
			nudge(s.stale)
			continue
		}
		if d := l.after.Sub(now); d > 0 {
			wait = min(wait, d)
			continue
		}
		byLeader[l.leader] = append(byLeader[l.leader], l)
	}
	for leader, ls := range byLeader {
		flights := s.flights[leader]
		if flights >= maxFlights {
			continue
		}
		if flights > 0 && !slices.ContainsFunc(ls, func(l *lane) bool { return !l.idle }) {
			continue
		}
		s.fly(leader, ls, ask, flights == 0)
	}
	return wait
}

// share is how much of the room for reading ahead one lane has.
func (s *source) share() int {
	room := min(maxPrefetch, max(leastLaneAsk, s.spec.Unfinished.Bytes))
	return min(maxLaneAsk, max(leastLaneAsk, room/max(1, len(s.lanes))))
}

// fly sends one fetch; s.mu is held.
func (s *source) fly(leader int32, ls []*lane, ask int, first bool) {
	t, _ := s.tools.Get().(*tool)
	if t == nil {
		t = &tool{decoder: records.NewDecoder(s.cfg.MaxBatchBytes)}
	}
	req := &fetch.Request{
		MaxWait: shortWait, MaxBytes: int32(min(maxAsk, ask*len(ls))), Limit: s.cfg.MaxBatchBytes + maxAsk,
		ClientID: s.b.cluster.ClientID(), Buffer: t.buffer,
	}
	if first {
		req.MaxWait = longWait
	}
	// Who comes first in a request is served first when the answer is full.
	s.turn++
	at := s.turn % len(ls)
	ls = slices.Concat(ls[at:], ls[:at])
	slices.SortStableFunc(ls, func(a, b *lane) int { return strings.Compare(a.claim.Topic, b.claim.Topic) })
	for _, l := range ls {
		l.flying = true
		req.Wants = append(req.Wants, fetch.Want{
			Topic: l.claim.Topic, ID: l.id, Partition: l.claim.Index, Offset: l.next, MaxBytes: int32(ask),
		})
	}
	s.flights[leader]++
	s.workers.Go(func() { s.flight(leader, ls, req, t, first) })
}

// flight waits for one fetch and takes in what it brought.
func (s *source) flight(leader int32, ls []*lane, req *fetch.Request, t *tool, first bool) {
	res, err := s.b.cluster.Raw(s.life, leader, req.MaxWait+silence, req)
	if err == nil {
		a := res.(*fetch.Answer)
		t.buffer = a.Buffer
		if a.Err != 0 {
			err = a.Err
		}
		for _, r := range a.Results {
			s.landed(ls[r.Want], req.Wants[r.Want].Offset, r, t, first)
		}
		s.tools.Put(t)
	}
	s.mu.Lock()
	s.flights[leader]--
	for _, l := range ls {
		l.flying = false
		if err != nil {
			l.retryLater()
		}
	}
	s.mu.Unlock()
	if err == nil {
		s.trouble.over("connection")
	} else if s.life.Err() == nil {
		s.trouble.report("connection", fmt.Errorf("fetch from broker %d: %w", leader, err))
		nudge(s.stale)
	}
	nudge(s.pump)
	nudge(s.hungry)
}

// retryLater waits longer each time, up to a second; s.mu is held.
func (l *lane) retryLater() {
	l.fails++
	l.after = time.Now().Add(min(time.Second, 50*time.Millisecond<<min(l.fails, 5)))
}

// landed takes in one lane's part of an answer.
func (s *source) landed(l *lane, from int64, r fetch.Result, t *tool, first bool) {
	if r.Err != 0 {
		s.refused(l, r.Err)
		return
	}
	t.decoder.Only = nil
	t.decoder.MaxBytes = 4 * maxLaneAsk
	set, fault := t.decoder.Decode(r.Records, from, r.Aborted)
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.life != live || l.next != from {
		return
	}
	for _, ds := range set.Slabs {
		l.own(ds)
	}
	for i, ds := range set.Slabs {
		bytes := 0
		if i == 0 {
			bytes = set.Bytes
		}
		l.put(ds, bytes)
	}
	l.next, l.high = set.Next, r.LastStable
	l.track.Pass(set.Next)
	// A short wait that brought nothing goes into the next long one.
	l.idle = set.Next == from && !first
	if fault != nil {
		l.retryLater()
		s.trouble.report("partition "+l.name(), fmt.Errorf("cannot be read at offset %d: %w", set.Next, fault))
		return
	}
	if len(r.Records) > 0 && set.Next == from {
		// Bytes, but no batch of them is whole or new: asking again at once
		// would spin.
		l.retryLater()
		return
	}
	if l.fails > 0 {
		l.fails = 0
		s.trouble.over("partition " + l.name())
	}
}

// refused acts on a partition's error code.
func (s *source) refused(l *lane, code kafka.Error) {
	s.mu.Lock()
	l.retryLater()
	fails := l.fails
	s.mu.Unlock()
	what := "partition " + l.name()
	switch code {
	case kafka.OffsetOutOfRange:
		s.workers.Go(func() { s.outOfRange(l) })
	case kafka.UnknownTopicOrPartition, kafka.LeaderNotAvailable, kafka.NotLeaderForPartition, kafka.ReplicaNotAvailable,
		kafka.FencedLeaderEpoch, kafka.UnknownLeaderEpoch, kafka.KafkaStorageError,
		fetch.OffsetNotAvailable, fetch.UnknownTopicID, fetch.InconsistentTopicID:
		// The metadata is older than the cluster: a leader moved, or the
		// topic went. The watch finds out which.
		s.mu.Lock()
		l.leader = -1
		s.mu.Unlock()
		nudge(s.stale)
		if fails > 3 {
			s.trouble.report(what, fmt.Errorf("has no leader: %w", code))
		}
	case kafka.TopicAuthorizationFailed:
		s.mu.Lock()
		l.after = time.Now().Add(5 * time.Second)
		s.mu.Unlock()
		s.trouble.report(what, fmt.Errorf("must not be read: %w", code))
	default:
		s.trouble.report(what, fmt.Errorf("cannot be read: %w", code))
	}
}
