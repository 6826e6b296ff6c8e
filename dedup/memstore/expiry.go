package memstore

import (
	"context"
	"time"

	"github.com/onceward/onceward/dedup"
)

// expiry knows which finished records are due next, so that a sweep looks at
// those alone. An entry whose record has moved on since is dropped when met.
type expiry struct {
	// began is what due times are counted from, by the monotonic clock.
	began time.Time
	due   heap
	// behind holds, by lane, what is over and lies beyond the acknowledged
	// prefix, ordered by offset.
	behind map[lane]*heap
}

func newExpiry() expiry { return expiry{began: time.Now(), behind: make(map[lane]*heap)} }

// entry is a record as of the moment when it finished.
type entry struct {
	order int64 // nanoseconds since began, or offset
	fence uint64
	r     *dedup.Record
}

// due says that time alone stands between r and its end.
func due(r *dedup.Record) bool {
	return (r.State == dedup.Succeeded || r.State == dedup.Failed) && r.Window > 0
}

func (e *expiry) add(r *dedup.Record) {
	e.due.push(entry{order: int64(r.Finished.Add(r.Window).Sub(e.began)), fence: r.Fence, r: r})
}

// passed makes due what lay behind the prefix of l and does no longer.
func (e *expiry) passed(l lane, prefix int64) {
	h := e.behind[l]
	if h == nil {
		return
	}
	for len(*h) > 0 && (*h)[0].order < prefix {
		if p := h.pop(); due(p.r) && p.r.Fence == p.fence {
			e.add(p.r)
		}
	}
	if len(*h) == 0 {
		delete(e.behind, l)
	}
}

// Sweep is [dedup.Store.Sweep]. It looks at no more than limit records.
func (s *Store) Sweep(ctx context.Context, limit int) (dedup.Swept, error) {
	if err := s.lock(ctx); err != nil {
		return dedup.Swept{}, err
	}
	defer s.mu.Unlock()
	var swept dedup.Swept
	now := time.Now()
	for range limit {
		if !s.expiry.over(now) {
			break
		}
		p := s.expiry.due.pop()
		r := p.r
		if s.records[r.Key] != r || r.Fence != p.fence || !due(r) {
			continue
		}
		op := dedup.SweepOp(r)
		env := s.env(&op, r, now)
		if _, changed := dedup.Step(r, &op, env); changed {
			swept.Records++
			s.keep(r, &op, false)
			if r.State == dedup.Absent {
				s.forget(op.Key)
			}
			continue
		}
		if !env.Passed {
			l := laneOf(r.Key.Consumer, r.Source)
			if s.expiry.behind[l] == nil {
				s.expiry.behind[l] = new(heap)
			}
			s.expiry.behind[l].push(entry{order: r.Source.Offset, fence: r.Fence, r: r})
		}
		// Otherwise a letter keeps it, and the end of that letter brings it back.
	}
	swept.More = s.expiry.over(now)
	return swept, nil
}

func (e *expiry) over(now time.Time) bool {
	return len(e.due) > 0 && e.due[0].order <= int64(now.Sub(e.began))
}

// heap has the least order first. It is written out because container/heap
// allocates for each element.
type heap []entry

func (h *heap) push(e entry) {
	*h = append(*h, e)
	s := *h
	for i := len(s) - 1; i > 0; {
		parent := (i - 1) / 2
		if s[parent].order <= s[i].order {
			break
		}
		s[parent], s[i] = s[i], s[parent]
		i = parent
	}
}

func (h *heap) pop() entry {
	s := *h
	top, last := s[0], len(s)-1
	s[0], s[last] = s[last], entry{}
	s = s[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			break
		}
		if child+1 < last && s[child+1].order < s[child].order {
			child++
		}
		if s[i].order <= s[child].order {
			break
		}
		s[i], s[child] = s[child], s[i]
		i = child
	}
	*h = s
	return top
}
