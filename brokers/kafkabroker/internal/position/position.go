// Package position keeps what of one partition is settled, and how far it is
// settled without a gap.
//
// # Guarantees
//
// [Track.Next] never passes a delivery that was not settled, whatever the
// order of settling, and however many offsets are missing in the log.
//
// Memory is that of the unsettled: a span of up to 256 deliveries costs about
// 130 bytes (2 KiB where the log has holes) until all of it are settled, and
// nothing afterwards, even when something before it is open for hours.
//
// # Concurrency
//
// None: the caller locks.
package position

import (
	"math/bits"
	"slices"
)

// MaxSpan is how many deliveries a span holds at most.
const MaxSpan = 256

// Span is a run of deliveries that were read together.
type Span struct {
	Owner any // whatever the caller wants to find from a span

	track      *Track
	prev, next *Span
	first      int64
	offsets    []int64 // nil when they follow each other from first
	n          int
	open       int // not settled
	done       [MaxSpan / 64]uint64
}

// Track is one partition's account. The zero Track is empty, at offset 0.
type Track struct {
	head, tail *Span
	end        int64 // the offset after all that was added
}

// Reset forgets everything and begins at offset.
func (t *Track) Reset(offset int64) { *t = Track{end: offset} }

// Add appends deliveries with ascending offsets, 1 to MaxSpan of them.
func (t *Track) Add(n int, offset func(int) int64, owner any) *Span {
	s := &Span{Owner: owner, track: t, n: n, open: n, first: offset(0), prev: t.tail}
	if offset(n-1)-s.first != int64(n-1) {
		s.offsets = make([]int64, n)
		for i := range n {
			s.offsets[i] = offset(i)
		}
	}
	if t.tail != nil {
		t.tail.next = s
	} else {
		t.head = s
	}
	t.tail = s
	t.end = max(t.end, offset(n-1)+1)
	return s
}

// Pass says that there is nothing more to come below offset.
func (t *Track) Pass(offset int64) { t.end = max(t.end, offset) }

// Next is the lowest offset that is not settled: where a reader begins that
// must miss nothing.
func (t *Track) Next() int64 {
	if t.head == nil {
		return t.end
	}
	for w, word := range t.head.done {
		if word != ^uint64(0) {
			return t.head.offset(w*64 + bits.TrailingZeros64(^word))
		}
	}
	return t.end
}

func (s *Span) offset(i int) int64 {
	if s.offsets == nil {
		return s.first + int64(i)
	}
	return s.offsets[i]
}

// index finds a delivery, or -1.
func (s *Span) index(offset int64) int {
	if offset < s.first {
		return -1
	}
	if s.offsets == nil {
		if offset-s.first >= int64(s.n) {
			return -1
		}
		return int(offset - s.first)
	}
	i, ok := slices.BinarySearch(s.offsets, offset)
	if !ok {
		return -1
	}
	return i
}

// Settle marks the delivery with that offset. It reports false when it was
// settled before or is not of this span.
func (s *Span) Settle(offset int64) bool {
	i := s.index(offset)
	if i < 0 || s.done[i/64]&(1<<(i%64)) != 0 {
		return false
	}
	s.done[i/64] |= 1 << (i % 64)
	s.open--
	if s.open == 0 {
		s.unlink()
	}
	return true
}

// Settled says whether the delivery with that offset is.
func (s *Span) Settled(offset int64) bool {
	i := s.index(offset)
	return i < 0 || s.done[i/64]&(1<<(i%64)) != 0
}

func (s *Span) unlink() {
	if s.prev != nil {
		s.prev.next = s.next
	} else {
		s.track.head = s.next
	}
	if s.next != nil {
		s.next.prev = s.prev
	} else {
		s.track.tail = s.prev
	}
	s.prev, s.next = nil, nil
}
