package consumer

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/onceward/onceward/dedup"
)

// Stats are the figures of a consumer that a dashboard shows: what waits for
// people, and what repeats have cost.
type Stats struct {
	// Open letters wait for somebody; Held ones have died three times and wait
	// for somebody who has looked; of Sent ones the copy is not answered yet.
	// Letters that are resolved, discarded or gone are in none of them.
	Open, Held, Sent int
	// Oldest is when the oldest letter that is open or held was written; zero
	// when there is none.
	Oldest time.Time
	// Reasons counts the open and held ones by dl-reason.
	Reasons map[string]int
	// Absorbed counts the deliveries, since this process began, that lay below
	// what the store knew to be acknowledged when their partition was assigned
	// and were answered from their records: after a position was set back, how
	// much of it has cost nothing.
	Absorbed int64
	// At is when the letters were counted.
	At time.Time
}

const (
	// statsFor is how long a count of the letters is given again, so that
	// whoever scrapes metrics, from several places, reads the store rarely;
	// and statsShare times as long as it took to count them, where that is
	// more: counting a million takes a second.
	statsFor   = 5 * time.Second
	statsShare = 20
)

type stats struct {
	mu    sync.Mutex // held while they are counted: one at a time
	last  Stats
	until time.Time
}

// Stats reports figures. The letters are counted by going through the store's
// notes, at most once in five seconds; a call in between gets the last count,
// and one that comes while they are counted waits for it. It may be called at
// any time, from anywhere.
//
// Errors: those of the store's ScanLetters.
func (c *Consumer) Stats(ctx context.Context) (Stats, error) {
	s, err := c.stats.count(ctx, c.cfg.Store, c.cfg.Name)
	s.Absorbed = c.pipeline.absorbed.Load()
	return s, err
}

func (s *stats) count(ctx context.Context, store dedup.Store, consumer string) (Stats, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	began := time.Now()
	if began.After(s.until) {
		counted := Stats{Reasons: map[string]int{}, At: began}
		for l, err := range store.ScanLetters(ctx, consumer) {
			if err != nil {
				return Stats{}, fmt.Errorf("letters of %s: %w", consumer, err)
			}
			counted.add(&l)
		}
		s.last, s.until = counted, began.Add(max(statsFor, statsShare*time.Since(began)))
	}
	last := s.last
	last.Reasons = maps.Clone(last.Reasons)
	return last, nil
}

func (s *Stats) add(l *dedup.Letter) {
	switch l.State {
	case dedup.LetterOpen:
		s.Open++
	case dedup.LetterHeld:
		s.Held++
	case dedup.LetterSent:
		s.Sent++
		return
	default:
		return
	}
	s.Reasons[l.Reason]++
	if s.Oldest.IsZero() || l.Noted.Before(s.Oldest) {
		s.Oldest = l.Noted
	}
}
