package memstore

import (
	"context"
	"iter"
	"time"

	"github.com/onceward/onceward/dedup"
)

// scanStep is how many records a scan copies before it lets others in: some
// 100 µs of the lock.
const scanStep = 128

// Lookup is [dedup.Store.Lookup].
func (s *Store) Lookup(ctx context.Context, keys []dedup.Key) ([]dedup.Record, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	now := time.Now()
	records := make([]dedup.Record, len(keys))
	for i, key := range keys {
		if r := s.records[key]; r != nil {
			records[i] = asOf(r, now)
		} else {
			records[i].Key = key
		}
	}
	return records, nil
}

func asOf(r *dedup.Record, now time.Time) dedup.Record {
	c := r.Clone()
	c.Live = c.State == dedup.InProgress && now.Before(c.LeaseUntil)
	return c
}

// lock locks s.mu unless the store is closed or ctx has ended.
func (s *Store) lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return dedup.ErrClosed
	}
	return nil
}

// Letters is [dedup.Store.Letters].
func (s *Store) Letters(ctx context.Context, ids []string) ([]dedup.Letter, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	letters := make([]dedup.Letter, len(ids))
	for i, id := range ids {
		l := s.letters[id]
		l.ID = id
		letters[i] = l
	}
	return letters, nil
}

// Scan is [dedup.Store.Scan]. A record is as of the moment when it is copied;
// one that is there from beginning to end of the scan is seen exactly once.
func (s *Store) Scan(ctx context.Context, consumer string) iter.Seq2[dedup.Record, error] {
	return func(yield func(dedup.Record, error) bool) {
		if err := s.lock(ctx); err != nil {
			yield(dedup.Record{}, err)
			return
		}
		scan(ctx, s, s.records, func(r *dedup.Record) (dedup.Record, bool) {
			return asOf(r, time.Now()), consumer == "" || r.Key.Consumer == consumer
		}, yield)
	}
}

// ScanLetters is [dedup.Store.ScanLetters], with what [Store.Scan] says.
func (s *Store) ScanLetters(ctx context.Context, consumer string) iter.Seq2[dedup.Letter, error] {
	return func(yield func(dedup.Letter, error) bool) {
		if err := s.lock(ctx); err != nil {
			yield(dedup.Letter{}, err)
			return
		}
		scan(ctx, s, s.letters, func(l dedup.Letter) (dedup.Letter, bool) {
			return l, consumer == "" || l.Key.Consumer == consumer
		}, yield)
	}
}

// scan ranges over m, which it is called with s.mu held for, and lets others
// change it between two steps: a map in Go may change while it is ranged over,
// as long as it is not at the same time.
func scan[K comparable, V, T any](
	ctx context.Context, s *Store, m map[K]V, take func(V) (T, bool), yield func(T, error) bool,
) {
	step := make([]T, 0, scanStep)
	hand := func() (goOn bool) { // gives up the lock; has it again when true
		s.mu.Unlock()
		for _, t := range step {
			if !yield(t, nil) {
				return false
			}
		}
		step = step[:0]
		if err := s.lock(ctx); err != nil {
			var none T
			yield(none, err)
			return false
		}
		return true
	}
	seen := 0
	for _, v := range m {
		if t, ok := take(v); ok {
			step = append(step, t)
		}
		if seen++; seen%scanStep == 0 && !hand() {
			return
		}
	}
	if hand() {
		s.mu.Unlock()
	}
}

// Prefixes is [dedup.Store.Prefixes].
func (s *Store) Prefixes(ctx context.Context, consumer string) ([]dedup.Position, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var prefixes []dedup.Position
	for l, offset := range s.prefixes {
		if l.consumer == consumer {
			prefixes = append(prefixes, dedup.Position{Source: l.source, Partition: l.partition, Offset: offset})
		}
	}
	return prefixes, nil
}

// Info is [dedup.Store.Info].
func (s *Store) Info() dedup.Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	info := dedup.Info{
		Kind: "memstore", Local: true, ID: s.id, Sequence: s.sequence, Records: int64(len(s.records)),
	}
	if s.bound > 0 {
		info.Full = float64(len(s.records)) / float64(s.bound)
	}
	return info
}
