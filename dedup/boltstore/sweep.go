package boltstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/onceward/onceward/dedup"
)

// Sweep is [dedup.Store.Sweep]. A record goes when its window is over, or up to
// an eighth of the window later where an unfinished one written before it is in
// the way. What is over and must stay, because of a letter or because the
// prefix has not passed it, is looked at again by later calls: up to 100,000
// such records are remembered, others are looked at after another window.
//
// A step is one commit and holds up writers for it: with limit 1000, a few
// milliseconds.
func (s *Store) Sweep(ctx context.Context, limit int) (swept dedup.Swept, err error) {
	if err := s.take(ctx); err != nil {
		return swept, err
	}
	defer s.give()
	if err := s.writable(); err != nil || limit <= 0 {
		return swept, err
	}
	var w *sweeper
	err = s.update(func(b *batch) error {
		w = &sweeper{batch: b, left: limit, looks: limit + minLooks, late: s.late}
		if err := w.again(); err != nil {
			return err
		}
		return w.classes()
	}, false)
	if err != nil {
		return swept, err
	}
	s.late = w.late
	return dedup.Swept{Records: w.gone, More: w.more}, nil
}

const (
	// minLooks is how many entries without a record of theirs a step passes
	// over at most, beside as many as its limit.
	minLooks = 10_000
	// maxLate bounds what is remembered of records that are over and must stay.
	maxLate = 100_000
	// sweptEarly is how many such entries in a row are worth a commit.
	sweptEarly = 1000
)

// sweeper is one step of a sweep.
type sweeper struct {
	*batch
	left  int // records that may be ended or carried
	looks int // entries that may be looked at
	gone  int
	freed uint32 // entries in dropped segments
	more  bool
	// late are hashes of records that are over and must stay.
	late []hash
}

// again looks at the oldest of those that had to stay.
func (w *sweeper) again() error {
	now := w.late[:min(len(w.late), w.left)]
	w.late = append([]hash(nil), w.late[len(now):]...)
	for _, h := range now {
		var buf [4]place
		for _, at := range w.s.index.find(h, buf[:0]) {
			e, _, err := w.entry(at)
			if err != nil {
				return err
			}
			key, err := e.key(w.words)
			if err != nil {
				return w.s.damagedAt(at, err)
			}
			h, route := w.route(&key)
			x, err := w.locate(&key, &hashed{h: h, route: route})
			if err != nil {
				return err
			}
			if x.rec.State != dedup.Succeeded && x.rec.State != dedup.Failed || !over(&x.rec, w.now) {
				continue
			}
			ended, err := w.end(x)
			if err != nil {
				return err
			}
			if !ended {
				w.late = append(w.late, h)
				continue
			}
			w.left--
			if err := w.write(x); err != nil {
				return err
			}
		}
	}
	return nil
}

func over(r *dedup.Record, now time.Time) bool {
	return r.Window > 0 && !r.Finished.Add(r.Window).After(now)
}

// classes sweeps the segments of each class, oldest first, until one must stay.
func (w *sweeper) classes() error {
	stays := map[uint32]bool{0: true} // class 0 is kept for ever
	for _, no := range slices.Sorted(maps.Keys(w.s.segments)) {
		class := w.s.segments[no].class
		if stays[class] {
			continue
		}
		if w.more = w.freed >= maxEntries; w.more {
			return nil
		}
		g := w.segment(no)
		if g == nil {
			return w.s.segmentGone(no)
		}
		gone, err := w.sweep(g)
		if err != nil || w.more {
			return err
		}
		stays[class] = !gone
	}
	return nil
}

// sweep sweeps a segment, from its mark on as long as what comes is over or
// counts no more. What must stay moves to the newest segment. With nothing
// left, the segment goes.
func (w *sweeper) sweep(g *openSegment) (gone bool, err error) {
	n, moved := g.mark, false
	end := w.s.segments[g.no].count // what this step has appended is of today
	c := g.bucket.Cursor()
	first, rest := seek(c, w.numbered(n))
	for ; first < n; first++ {
		rest.next()
	}
	for n < end {
		if w.left == 0 || w.looks == 0 {
			w.more = true
			break
		}
		if len(rest) == 0 {
			var key []byte
			if key, rest = c.Next(); len(key) != 4 || binary.BigEndian.Uint32(key) != n {
				return false, w.s.goneAt(placeOf(g.no, n))
			}
		}
		row, ok := rest.next()
		if !ok {
			return false, w.s.goneAt(placeOf(g.no, n))
		}
		w.looks--
		due, counts, err := w.entryAt(g, placeOf(g.no, n), row)
		if err != nil {
			return false, err
		}
		if counts && !due {
			break
		}
		moved = moved || counts
		n++
	}
	if n == g.count {
		return true, w.drop(g)
	}
	if moved || n-g.mark >= sweptEarly {
		g.mark, g.dirty, w.dirty = n, true, true
	}
	return false, nil
}

// entryAt sweeps one entry. counts says that it is a record's newest, due that
// its time has come: then it has been ended or carried.
func (w *sweeper) entryAt(g *openSegment, at place, row []byte) (due, counts bool, err error) {
	e, _, err := parse(row, &g.segment, at)
	if err != nil {
		return false, false, w.s.damagedAt(at, err)
	}
	h, err := e.hashOf(w.state.secret, w.words)
	if err != nil {
		return false, false, w.s.damagedAt(at, "its route is not known")
	}
	if !w.s.index.has(h, at) {
		return false, false, nil
	}
	key, err := e.key(w.words)
	if err != nil {
		return false, false, err
	}
	x, known := w.hold(h, e.route, &key)
	if !known {
		err = w.fill(x, &e, g, at)
	}
	if err != nil || x.at != at {
		return false, false, err
	}
	// Nothing in a segment is older than the segment.
	until := time.Unix(0, g.base).Add(w.words.classWindow(g.class))
	if r := &x.rec; r.Window > 0 && (r.State == dedup.Succeeded || r.State == dedup.Failed) {
		until = time.Unix(0, max(g.base, r.Finished.UnixNano())).Add(r.Window)
	}
	if w.now.Before(until) {
		return false, true, nil
	}
	w.left--
	ended, err := w.end(x)
	switch {
	case err != nil:
		return false, false, err
	case !ended:
		if w.s.current[g.class] == g.no {
			g.closed, g.dirty = true, true
		}
		finished := x.rec.State == dedup.Succeeded || x.rec.State == dedup.Failed
		if finished && len(w.late) < maxLate {
			w.late = append(w.late, h)
		}
		return true, true, w.write(x)
	}
	// The mark will pass the entry, so nothing needs to say that it has ended.
	w.move(x)
	if x.at = 0; x.rec.State == dedup.Absent {
		return true, true, nil
	}
	return true, true, w.write(x)
}

// end has the state table decide whether x is swept, and forgets the ended
// letters of a record that goes.
func (w *sweeper) end(x *held) (bool, error) {
	op := dedup.SweepOp(&x.rec)
	env, err := w.env(&op, x)
	if err != nil {
		return false, err
	}
	if _, changed := dedup.Step(&x.rec, &op, env); !changed {
		return false, nil
	}
	w.gone++
	w.dirty = true
	if x.rec.State == dedup.Absent {
		return true, w.forget(x.h)
	}
	return true, nil
}

// drop removes a segment that says nothing any more.
func (w *sweeper) drop(g *openSegment) error {
	if err := w.log.DeleteBucket(segmentKey(g.no)); err != nil {
		return fmt.Errorf("drop segment %d: %w", g.no, err)
	}
	if err := w.putSealed(bucketSegments, tableSegments, segmentKey(g.no), nil); err != nil {
		return err
	}
	if w.s.current[g.class] == g.no {
		delete(w.s.current, g.class)
	}
	w.freed += g.count
	g.dirty, w.dirty = false, true
	w.dropped = append(w.dropped, g.no)
	return nil
}
