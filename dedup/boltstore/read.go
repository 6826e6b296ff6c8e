package boltstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/onceward/onceward/dedup"
	bolt "go.etcd.io/bbolt"
)

// view is one short read transaction. Long ones would have the file grow.
type view struct {
	s        *Store
	top, log *bolt.Bucket
	words    *dictionary
	secret   secret
	buckets  map[uint32]*bolt.Bucket
	buf      []byte
}

// found is a place in a segment that the transaction sees.
type found struct {
	at place
	g  *segment
}

// view runs read in a transaction that has all that the index spoke of while
// plan ran. Plan runs under s.mu; read must not take it.
func (s *Store) view(ctx context.Context, plan func(v *view), read func(v *view) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.guard(func() error {
		v := &view{s: s, buckets: make(map[uint32]*bolt.Bucket, 2)}
		tx, err := s.beginView(v, plan)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if v.top = tx.Bucket(bucketTop); v.top != nil {
			v.log = v.top.Bucket(bucketLog)
		}
		if v.log == nil {
			return s.breaks(s.damaged("its tables are gone"))
		}
		err = read(v)
		if d := (*dedup.DamagedError)(nil); errors.As(err, &d) {
			return s.breaks(d)
		}
		return err
	})
}

// beginView begins the transaction under the lock under which plan looks at
// the index. A commit comes before its changes to the index, so what the index
// speaks of is in the transaction.
func (s *Store) beginView(v *view, plan func(v *view)) (*bolt.Tx, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	switch {
	case s.closed:
		return nil, dedup.ErrClosed
	case s.broken != nil:
		return nil, s.broken
	case s.db == nil:
		return nil, fmt.Errorf("%s: closed after a failed commit, until the next write", s.path)
	}
	v.words, v.secret = s.words, s.secret
	plan(v)
	tx, err := s.db.Begin(false)
	if err != nil {
		return nil, fmt.Errorf("%s: begin to read: %w", s.path, err)
	}
	return tx, nil
}

// find is for plan.
func (v *view) find(h hash, to []found) []found {
	var buf [4]place
	for _, at := range v.s.index.find(h, buf[:0]) {
		to = append(to, found{at, v.s.segments[at.segment()]})
	}
	return to
}

// entry reads the entry at a place that was found.
func (v *view) entry(f found) (e entry, err error) {
	if f.g == nil {
		return e, v.s.segmentGone(f.at.segment())
	}
	b := v.buckets[f.g.no]
	if b == nil {
		if b = v.log.Bucket(segmentKey(f.g.no)); b == nil {
			return e, v.s.segmentGone(f.g.no)
		}
		v.buckets[f.g.no] = b
	}
	row := entryIn(b, binary.BigEndian.AppendUint32(nil, f.at.n()))
	if row == nil {
		return e, v.s.goneAt(f.at)
	}
	if e, _, err = parse(row, f.g, f.at); err != nil {
		return e, v.s.damagedAt(f.at, err)
	}
	return e, nil
}

// record reads an entry's record; Key is the caller's to set.
func (v *view) record(e *entry, f found) (r dedup.Record, err error) {
	if err := e.record(&r, f.g.base, v.words); err != nil {
		return r, v.s.damagedAt(f.at, err)
	}
	r.Live = v.s.live(&r, e.seq, v.s.clock.now())
	return r, nil
}

// Lookup is [dedup.Store.Lookup].
func (s *Store) Lookup(ctx context.Context, keys []dedup.Key) ([]dedup.Record, error) {
	records := make([]dedup.Record, len(keys))
	places := make([][]found, len(keys))
	err := s.view(ctx, func(v *view) {
		for i := range keys {
			h, _ := v.words.hashOf(v.secret, &keys[i], &v.buf)
			places[i] = v.find(h, nil)
		}
	}, func(v *view) error {
		for i := range keys {
			records[i].Key = keys[i]
			for _, f := range places[i] {
				e, err := v.entry(f)
				if err != nil {
					return err
				}
				if !e.is(&keys[i], v.words) {
					continue
				}
				if records[i], err = v.record(&e, f); err != nil {
					return err
				}
				records[i].Key = keys[i]
				break
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return records, nil
}

// Letters is [dedup.Store.Letters].
func (s *Store) Letters(ctx context.Context, ids []string) ([]dedup.Letter, error) {
	letters := make([]dedup.Letter, len(ids))
	err := s.view(ctx, func(*view) {}, func(v *view) error {
		b := v.top.Bucket(bucketLetters)
		for i, id := range ids {
			letters[i].ID = id
			if id == "" {
				continue
			}
			if row := b.Get([]byte(id)); row != nil {
				l, err := v.letter([]byte(id), row)
				if err != nil {
					return err
				}
				letters[i] = l
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return letters, nil
}

func (v *view) letter(key, row []byte) (dedup.Letter, error) {
	l, _, err := parseLetter(key, row)
	if err != nil {
		return l, v.s.damaged(fmt.Sprintf("letter %q: %v", key, err))
	}
	return l, nil
}

// scanStep is how many records are copied in one transaction.
const scanStep = 256

// Scan is [dedup.Store.Scan]. A record is as of the moment when it is copied;
// one that is there from beginning to end is seen exactly once. It reads in
// the order of hashes: a million records take a few seconds.
func (s *Store) Scan(ctx context.Context, consumer string) iter.Seq2[dedup.Record, error] {
	return func(yield func(dedup.Record, error) bool) {
		for i := range len(index{}.tables) {
			var hashes []hash
			err := s.view(ctx, func(v *view) { hashes = v.s.index.hashes(i, nil) }, func(*view) error { return nil })
			if err != nil {
				yield(dedup.Record{}, err)
				return
			}
			for part := range slices.Chunk(hashes, scanStep) {
				records, err := s.records(ctx, part, consumer)
				if err != nil {
					yield(dedup.Record{}, err)
					return
				}
				for i := range records {
					if !yield(records[i], nil) {
						return
					}
				}
			}
		}
	}
}

// records reads the records of all keys with these hashes.
func (s *Store) records(ctx context.Context, hashes []hash, consumer string) (records []dedup.Record, err error) {
	var places []found
	err = s.view(ctx, func(v *view) {
		for _, h := range hashes {
			places = v.find(h, places)
		}
		slices.SortFunc(places, func(a, b found) int { return int(a.at.segment()) - int(b.at.segment()) })
	}, func(v *view) error {
		for _, f := range places {
			e, err := v.entry(f)
			if err != nil {
				return err
			}
			key, err := e.key(v.words)
			if err != nil {
				return v.s.damagedAt(f.at, err)
			}
			if consumer != "" && key.Consumer != consumer {
				continue
			}
			r, err := v.record(&e, f)
			if err != nil {
				return err
			}
			r.Key = key
			records = append(records, r)
		}
		return nil
	})
	return records, err
}

// ScanLetters is [dedup.Store.ScanLetters], with what [Store.Scan] says.
func (s *Store) ScanLetters(ctx context.Context, consumer string) iter.Seq2[dedup.Letter, error] {
	return func(yield func(dedup.Letter, error) bool) {
		var last []byte
		for more := true; more; {
			var letters []dedup.Letter
			err := s.view(ctx, func(*view) {}, func(v *view) error {
				c := v.top.Bucket(bucketLetters).Cursor()
				key, row := c.Seek(last)
				if key != nil && last != nil && bytes.Equal(key, last) {
					key, row = c.Next()
				}
				seen := 0
				for ; key != nil && seen < scanStep; key, row = c.Next() {
					l, err := v.letter(key, row)
					if err != nil {
						return err
					}
					seen++
					last = append(last[:0], key...)
					if consumer == "" || l.Key.Consumer == consumer {
						letters = append(letters, l)
					}
				}
				more = seen == scanStep
				return nil
			})
			if err != nil {
				yield(dedup.Letter{}, err)
				return
			}
			for _, l := range letters {
				if !yield(l, nil) {
					return
				}
			}
		}
	}
}

// Prefixes is [dedup.Store.Prefixes].
func (s *Store) Prefixes(ctx context.Context, consumer string) ([]dedup.Position, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := s.usable(); err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	var prefixes []dedup.Position
	for l, offset := range s.prefixes {
		if l.consumer == consumer {
			prefixes = append(prefixes, dedup.Position{Source: l.source, Partition: l.partition, Offset: offset})
		}
	}
	return prefixes, nil
}
