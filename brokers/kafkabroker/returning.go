package kafkabroker

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/onceward/onceward/brokers/kafkabroker/internal/coop"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/fetch"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/position"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/records"
)

const (
	// neighbours is how far deferred messages may lie apart to be read with
	// one request, in offsets.
	neighbours = 2_000
	// guessedSize of a message in the log decides how much is asked for.
	guessedSize = 512
	// maxReturn is how many are read again at a time in one lane.
	maxReturn = 500
)

// recall reads deferred messages again that are due, and says when to look again at the latest.
func (s *source) recall() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, wait := time.Now(), time.Minute
	crowded := false
	defer func() { s.crowded.Store(crowded) }()
	for _, l := range s.lanes {
		if l.life != live || l.asking || l.paused || l.leader < 0 || len(l.later) == 0 {
			continue
		}
		if l.bytes > s.share() {
			crowded = true
			continue
		}
		if d := l.after.Sub(now); d > 0 {
			wait = min(wait, d)
			continue
		}
		due := l.due(now)
		if len(due) > 0 {
			l.asking = true
			s.workers.Go(func() { s.readAgain(l, due) })
			continue
		}
		if len(l.later) > 0 {
			wait = min(wait, l.later[0].due.Sub(now))
		}
	}
	return max(wait, 0)
}

// due takes deferrals off the heap that are due and lie near each other: of
// those that are due first, the ones near the lowest offset.
func (l *lane) due(now time.Time) map[int64]*position.Span {
	var due []deferral
	for len(l.later) > 0 && len(due) < maxReturn && !l.later[0].due.After(now) {
		d := heap.Pop(&l.later).(deferral)
		if !d.span.Settled(d.offset) {
			due = append(due, d)
		}
	}
	if len(due) == 0 {
		return nil
	}
	slices.SortFunc(due, func(a, b deferral) int { return cmp.Compare(a.offset, b.offset) })
	got := map[int64]*position.Span{}
	for _, d := range due {
		if d.offset <= due[0].offset+neighbours {
			got[d.offset] = d.span
		} else {
			heap.Push(&l.later, d)
		}
	}
	return got
}

// readAgain fetches deferred messages. What it does not get this time goes
// back to the others.
func (s *source) readAgain(l *lane, want map[int64]*position.Span) {
	from, last := int64(-1), int64(-1)
	for o := range want {
		if from < 0 || o < from {
			from = o
		}
		last = max(last, o)
	}
	s.mu.Lock()
	// A broker sends the batch at an offset whatever its size; more is asked
	// for only as far as there may be something to find.
	leader, w := l.leader, fetch.Want{
		Topic: l.claim.Topic, ID: l.id, Partition: l.claim.Index, Offset: from,
		MaxBytes: int32(min(maxLaneAsk, 1+(last-from)*guessedSize)),
	}
	s.mu.Unlock()
	req := &fetch.Request{
		Wants: []fetch.Want{w}, MaxBytes: w.MaxBytes, Limit: s.cfg.MaxBatchBytes + maxAsk, ClientID: s.b.cluster.ClientID(),
	}
	res, err := s.b.cluster.Raw(s.life, leader, silence, req)
	got, next := records.Set{}, from
	var code kafka.Error
	start := int64(0)
	if err == nil {
		a := res.(*fetch.Answer)
		code = a.Err
		if code == 0 && len(a.Results) == 1 {
			r := a.Results[0]
			code, start = r.Err, r.LogStart
			d := records.NewDecoder(s.cfg.MaxBatchBytes)
			d.Only = func(offset int64) bool { return want[offset] != nil }
			d.MaxBytes = maxLaneAsk
			got, err = d.Decode(r.Records, from, r.Aborted)
			next = got.Next
		}
	}
	if code == kafka.OffsetOutOfRange {
		// The beginning of the log has passed some of them.
		next, code = s.beginningOf(l, start), 0
	}
	s.mu.Lock()
	for _, ds := range got.Slabs {
		for i := range ds {
			d := &ds[i]
			d.Lane, d.Handle = &l.Lane, want[d.Offset]
			delete(want, d.Offset)
		}
	}
	if l.life == live {
		for i, ds := range got.Slabs {
			bytes := 0
			if i == 0 {
				bytes = got.Bytes
			}
			l.put(ds, bytes)
		}
		s.leftover(l, want, next)
	}
	l.asking = false
	// Nothing came and nothing is gone: a new leader may not show the end of its
	// log yet. Asking again at once would spin.
	bad := err != nil || code != 0 || len(got.Slabs) == 0 && next <= from
	if bad {
		l.retryLater()
	}
	s.mu.Unlock()
	if bad {
		nudge(s.stale)
	}
	nudge(s.hungry)
	nudge(s.later)
}

// leftover sorts out what was asked for and did not come: what lies below next
// is not in the log any more, and the rest is asked for again; s.mu is held.
func (s *source) leftover(l *lane, want map[int64]*position.Span, next int64) {
	gone := false
	now := time.Now()
	for o, span := range want {
		if o >= next {
			l.postpone(o, span, now)
			continue
		}
		if span.Settle(o) {
			if l.gone == 0 || o < l.firstGone {
				l.firstGone = o
			}
			l.gone++
			gone = true
		}
	}
	if gone {
		// What came due before is told again: the report takes the place of
		// the last one.
		s.trouble.report("gap "+l.name(), &GapError{Partition: l.name(), Kind: CopiesGone, Position: l.firstGone, Gone: l.gone})
	}
}

// beginningOf asks where a lane's log begins; 0 when it cannot be told.
func (s *source) beginningOf(l *lane, told int64) int64 {
	if told > 0 {
		return told
	}
	at, err := listOffsets(s.life, s.b.cluster, s.view(), []coop.Partition{l.claim.Partition}, earliest)
	if err != nil {
		return 0
	}
	return at[l.claim.Partition]
}
