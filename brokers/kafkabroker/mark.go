package kafkabroker

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/cluster"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/coop"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/group"
)

// noteVersion begins every text that this adapter keeps beside a position.
// What begins otherwise was written by other software and is not looked at.
const noteVersion = "onceward/1"

// note is what is kept beside a position.
type note struct {
	// id is that of the topic that the position counts in: it tells a topic
	// that was deleted and made again.
	id cluster.ID
	// origin is how many partitions the topic had when the group began with
	// it. A partition beyond them came later, and is read from its beginning
	// wherever the group began.
	origin int32
	mark   string // of Source.Mark
}

func (n note) String() string {
	return fmt.Sprintf("%s %s %d %s", noteVersion, hex.EncodeToString(n.id[:]), n.origin, n.mark)
}

func parseNote(text string) (n note, ok bool) {
	fields := strings.SplitN(text, " ", 4)
	if len(fields) != 4 || fields[0] != noteVersion || len(fields[1]) != 2*len(n.id) {
		return note{}, false
	}
	id, err := hex.DecodeString(fields[1])
	if err != nil {
		return note{}, false
	}
	origin, err := strconv.ParseInt(fields[2], 10, 32)
	if err != nil || origin < 0 {
		return note{}, false
	}
	copy(n.id[:], id)
	n.origin, n.mark = int32(origin), fields[3]
	return n, true
}

// note is what is to be kept beside the lane's position; s.mu is held.
func (s *source) note(l *lane) string {
	mark := l.Mark
	// Until the consumer has accepted the mark that was found, it stays: a
	// refused lane must not look like its own at the next start.
	if s.mark != "" && (l.life != opening || l.Mark == "") {
		mark = s.mark
	}
	return note{id: l.id, origin: l.origin, mark: mark}.String()
}

// Mark implements [brokers.Source]: it looks at what all partitions of the
// topics have, whoever owns them, and commits the text with the positions of
// its own.
func (s *source) Mark(ctx context.Context, mark string) error {
	if len(mark) > brokers.MaxMark {
		return fmt.Errorf("mark is %d bytes, at most %d", len(mark), brokers.MaxMark)
	}
	s.mu.Lock()
	err, first := s.err, s.mark == ""
	s.mu.Unlock()
	if err != nil {
		return err
	}
	found, err := s.strange(ctx, mark)
	if err != nil {
		return err
	}
	s.mu.Lock()
	// What was found is this source's. It may still be there at the next look,
	// beside a partition that is not written to now; so may what was written
	// without an answer.
	seen := map[string]bool{mark: true, s.mark: true}
	for _, text := range slices.Concat(found, s.unsure) {
		seen[text] = true
	}
	for _, l := range s.lanes {
		l.force = true
		seen[l.Mark] = true
	}
	s.mark, s.seen = mark, seen
	s.mu.Unlock()
	err = s.commitAll(ctx)
	s.mu.Lock()
	if err == nil {
		s.unsure = nil
	} else {
		s.unsure = append(s.unsure, mark)
	}
	s.mu.Unlock()
	if err != nil || !first {
		return err
	}
	// Two that begin at the same time both looked before either wrote. After
	// its own mark is there, at least one of them sees the other's, and takes
	// its own back: nothing has run yet.
	if _, err = s.strange(ctx, mark); err == nil {
		return nil
	}
	s.mu.Lock()
	s.mark = ""
	for _, l := range s.lanes {
		l.force = true
	}
	s.mu.Unlock()
	if back := s.commitAll(ctx); back != nil {
		s.trouble.report("mark", back)
	}
	return err
}

// strange looks for a mark on any partition that this source has neither
// written nor handed on with a lane. It returns what it has found.
func (s *source) strange(ctx context.Context, mark string) (found []string, err error) {
	if found, err = s.marks(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, text := range found {
		if text != mark && !s.seen[text] {
			return nil, &brokers.MarkError{Found: text}
		}
	}
	return found, nil
}

// Marks implements [brokers.MarkReader].
func (s *source) Marks(ctx context.Context) ([]string, error) {
	s.mu.Lock()
	err := s.err
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return s.marks(ctx)
}

// marks reads what is kept beside the positions of all partitions.
func (s *source) marks(ctx context.Context) (all []string, err error) {
	found, err := s.positions(ctx, s.view())
	if err != nil {
		return nil, err
	}
	return marksOf(found), nil
}

// marksOf are the marks beside some positions.
func marksOf(positions map[coop.Partition]group.Position) (all []string) {
	for _, p := range positions {
		if n, ok := parseNote(p.Text); ok && n.mark != "" && !slices.Contains(all, n.mark) {
			all = append(all, n.mark)
		}
	}
	return all
}

// ConsumerMarks implements [brokers.MarkBrowser].
func (b *broker) ConsumerMarks(ctx context.Context, consumer string, topics []string) ([]string, error) {
	names := slices.Clone(topics)
	for _, t := range topics {
		names = append(names, b.Destinations(consumer, t).Retry)
	}
	view, err := b.cluster.Metadata(ctx, names)
	if err != nil {
		return nil, fmt.Errorf("marks of consumer %q: %w", consumer, err)
	}
	var ps []coop.Partition
	for _, name := range names {
		if t, there := view.Topics[name]; there && t.Err == 0 {
			ps = append(ps, partitionsOf(name, len(t.Partitions))...)
		}
	}
	if len(ps) == 0 {
		return nil, nil
	}
	found, err := group.PositionsOf(ctx, b.cluster, consumer, ps)
	if err != nil {
		return nil, fmt.Errorf("marks of consumer %q: %w", consumer, err)
	}
	return marksOf(found), nil
}
