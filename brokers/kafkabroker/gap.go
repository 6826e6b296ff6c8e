package kafkabroker

import (
	"fmt"

	"github.com/onceward/onceward/brokers/kafkabroker/internal/coop"
)

// GapKind says how a position does not fit its log.
type GapKind uint8

const (
	// BelowStart: messages from the position on were deleted, by retention or
	// by somebody.
	BelowStart GapKind = iota + 1
	// PastEnd: the log is shorter than the position, since it lost its end or
	// the position was written by hand.
	PastEnd
	// TopicMadeAgain: the topic was deleted and made again, so the position
	// counts in another log.
	TopicMadeAgain
	// CopiesGone: waiting messages, which were to be read again, are not
	// there any more.
	CopiesGone
	// LostEnd: the log lost its end after it was read, as in an unclean
	// election. What was read of that and not finished is gone; reading goes on
	// at the committed position, and where that lies beyond the end too, PastEnd
	// follows.
	LostEnd
)

// GapError is reported through Events.Degraded under "gap TOPIC/PARTITION".
type GapError struct {
	Partition  string // topic/partition
	Kind       GapKind
	Position   int64 // where reading should have gone on
	Start, End int64 // of the log
	Policy     OnGap // what was done about it
	Gone       int   // messages that are not there, for CopiesGone
}

// Missing is how many messages are missing or in doubt: those between the
// position and the log's start; those between its end and the position; all of
// a log that was made again.
func (e *GapError) Missing() int64 {
	switch e.Kind {
	case BelowStart:
		return e.Start - e.Position
	case PastEnd, LostEnd:
		return e.Position - e.End
	case CopiesGone:
		return int64(e.Gone)
	}
	return e.End - e.Start
}

func (e *GapError) Error() string {
	var s string
	switch e.Kind {
	case BelowStart:
		s = fmt.Sprintf("%s: %d messages from position %d on were deleted before they were read; the log begins at %d", e.Partition, e.Missing(), e.Position, e.Start)
	case PastEnd:
		s = fmt.Sprintf("%s: position %d lies %d beyond the end of the log at %d", e.Partition, e.Position, e.Missing(), e.End)
	case TopicMadeAgain:
		s = fmt.Sprintf("%s: the topic was deleted and made again; position %d is of the former one, the new one has %d messages from %d on", e.Partition, e.Position, e.Missing(), e.Start)
	case LostEnd:
		return fmt.Sprintf("%s: the log lost its last %d messages, from %d on, after they were read; those that were not finished are gone", e.Partition, e.Missing(), e.End)
	case CopiesGone:
		return fmt.Sprintf("%s: %d waiting messages were deleted or compacted away before they were due, the first at offset %d", e.Partition, e.Gone, e.Position)
	}
	switch e.Policy {
	case SkipToEarliest:
		return s + fmt.Sprintf("; going on at the earliest, %d", e.Start)
	case SkipToLatest:
		return s + fmt.Sprintf("; going on at the latest, %d", e.End)
	}
	return s + "; the partition is held until the position is reset (kafka-consumer-groups --reset-offsets) or OnGap allows to skip"
}

// bridge does what OnGap says, and returns where to go on; s.mu is held.
func (s *source) bridge(l *lane, gap *GapError) int64 {
	gap.Policy = s.cfg.OnGap
	s.trouble.report("gap "+l.name(), gap)
	switch s.cfg.OnGap {
	case SkipToEarliest:
		s.known[l.claim.Topic] = l.id
		return gap.Start
	case SkipToLatest:
		s.known[l.claim.Topic] = l.id
		return gap.End
	}
	l.held = true
	return gap.Position
}

// outOfRange looks at a lane whose position the broker does not have.
func (s *source) outOfRange(l *lane) {
	ps := []coop.Partition{l.claim.Partition}
	start, err1 := listOffsets(s.life, s.b.cluster, s.view(), ps, earliest)
	end, err2 := listOffsets(s.life, s.b.cluster, s.view(), ps, latest)
	if err1 != nil || err2 != nil {
		return // the next fetch asks again
	}
	gap := &GapError{Partition: l.name(), Start: start[l.claim.Partition], End: end[l.claim.Partition]}
	if s.passGap(l, gap) {
		return
	}
	// The log lost its end. What is unsettled of it is not there any more, and
	// the position must go back with the log: the claim begins anew, and
	// compares what is committed with what is there.
	s.lose([]*lane{l}, gap)
	s.trouble.report("gap "+l.name(), gap)
	s.renew([]*lane{l})
}

// passGap goes on behind what was deleted, as far as OnGap says so. It reports
// false for a lane that is past the end of its log.
func (s *source) passGap(l *lane, gap *GapError) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	gap.Position = l.next
	switch {
	case l.life != live || l.held:
		return true
	case l.next > gap.End:
		gap.Kind = LostEnd
		return false
	case l.next >= gap.Start:
		return true // it is there after all: a leader that was behind
	}
	gap.Kind = BelowStart
	at := s.bridge(l, gap)
	if l.held {
		return true
	}
	l.next = at
	l.fails, l.force = 0, true
	l.track.Pass(at)
	return true
}
