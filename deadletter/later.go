package deadletter

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/onceward/onceward/dedup"
)

// Later is an operation that ran after the message of a letter.
type Later struct {
	Scope string    `json:"scope"`
	ID    string    `json:"id"`
	State string    `json:"state"`
	At    time.Time `json:"at"` // of the last that its record tells of it
}

// maxLater is how many of them a plan names.
const maxLater = 100

// sending are the keys that a plan sends a letter for.
type sending struct {
	since  map[[16]byte]int64 // when the message failed first, in nanoseconds
	scopes map[string]struct{}
}

func keyHash(scope, id string) [16]byte { return short(scope + "\x00" + id) }

// add says whether the plan may send the letter: one for each key.
func (s *sending) add(e *Entry) bool {
	k := e.Letter.Key
	if k.ID == "" {
		return true
	}
	h := keyHash(k.Scope, k.ID)
	if _, twice := s.since[h]; twice {
		return false
	}
	s.scopes[k.Scope] = struct{}{}
	s.since[h] = e.since()
	return true
}

// since is when the letter's message failed first, as far as is known.
func (e *Entry) since() int64 {
	if !e.Letter.FirstFailed.IsZero() {
		return e.Letter.FirstFailed.UnixNano()
	}
	return e.Stored.UnixNano()
}

// passed says whether r is another operation on an id that is sent, and ran
// after the message that is sent now.
func (s *sending) passed(r *dedup.Record) bool {
	if r.State == dedup.Absent || r.Claimed.IsZero() {
		return false
	}
	last := lastOf(r).UnixNano()
	for scope := range s.scopes {
		if scope == r.Key.Scope {
			continue
		}
		if since, ok := s.since[keyHash(scope, r.Key.ID)]; ok && last > since {
			return true
		}
	}
	return false
}

// lastOf is when an operation ran last, as far as its record tells. When it was
// claimed is not enough: that of the message behind may be made before the one
// in front has failed.
func lastOf(r *dedup.Record) time.Time {
	return slices.MaxFunc([]time.Time{r.Claimed, r.LastFailed, r.Finished}, time.Time.Compare)
}

// later finds operations that ran after those that would be sent now.
func (q *Queue) later(ctx context.Context, p *Plan, s *sending) error {
	if len(s.since) == 0 {
		return nil
	}
	for r, err := range q.Store.Scan(ctx, q.Consumer) {
		if err != nil {
			return err
		}
		if !s.passed(&r) {
			continue
		}
		if p.LaterCount++; p.LaterCount <= maxLater {
			p.Later = append(p.Later, laterOf(&r))
		}
	}
	return nil
}

// Later finds operations on the entry's id, in other scopes, that ran after its
// message: sending it now puts it behind them. It goes through all records of
// the consumer. What has another id, but the same ordering key, is not found.
//
// Errors: those of the store.
func (q *Queue) Later(ctx context.Context, e *Entry) ([]Later, error) {
	s := sending{since: map[[16]byte]int64{}, scopes: map[string]struct{}{}}
	s.add(e)
	var p Plan
	err := q.later(ctx, &p, &s)
	return p.Later, err
}

func laterOf(r *dedup.Record) Later {
	return Later{
		Scope: r.Key.Scope, ID: r.Key.ID, State: cmp.Or(r.Ended(), r.State).String(), At: lastOf(r),
	}
}
