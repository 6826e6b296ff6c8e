package deadletter

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/dedup"
)

// Place is where a letter lies in its dead-letter topic.
type Place struct {
	Partition int32 `json:"partition"`
	Offset    int64 `json:"offset"`
}

// Entry is a letter as it lies in the topic, and what the store knows of it.
type Entry struct {
	Letter Letter
	At     Place
	Stored time.Time // when the dead-letter topic stored it
	// Note of the store. Its State is LetterNone where there is none: the letter
	// is not noted yet, was written by somebody else, or has been forgotten
	// together with the record of its operation.
	Note dedup.Letter
	// Forgotten says that there is no note and the window is over: nobody can
	// tell any more whether the letter was dealt with.
	Forgotten bool
	// Err says why the message is no readable letter. Letter has only the
	// message then, and an ID by its place.
	Err error
}

// State is where the letter stands: that of its note, or open for one that is
// not noted. LetterNone is a letter that is forgotten.
func (e *Entry) State() dedup.LetterState {
	if e.Note.State == dedup.LetterNone && !e.Forgotten {
		return dedup.LetterOpen
	}
	return e.Note.State
}

// noteKey is the key of the letter's note: a message that is too old has none
// by its own key, whose record is forgotten.
func (e *Entry) noteKey(consumer string) dedup.Key {
	if e.Letter.Reason == ReasonTooOld {
		return dedup.LetterKey(consumer, e.Letter.ID)
	}
	return e.recordKey(consumer)
}

// recordKey is the key of the record by which is decided.
func (e *Entry) recordKey(consumer string) dedup.Key {
	if e.Letter.Key.ID == "" {
		return dedup.LetterKey(consumer, e.Letter.ID)
	}
	return e.Letter.Key
}

// chunk is how many messages are read before the store is asked about them, or
// about so many bytes of them.
const (
	chunk      = 256
	chunkBytes = 16 << 20
)

// Letters yields the letters that f means, in the order of the topic, each
// incident once. It reads no further than the caller goes, and what it keeps
// is some 40 bytes for each letter.
//
// Errors, yielded once, last: a [*ForeignError] where the first letter is of
// another consumer; those of the broker's Browse; those of the store. A message
// that is no letter is none, see [Entry.Err].
func (q *Queue) Letters(ctx context.Context, f Filter) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for entries, err := range q.chunks(ctx, f, map[[16]byte]struct{}{}) {
			for _, e := range entries {
				if !yield(e, nil) {
					return
				}
			}
			if err != nil {
				yield(Entry{}, err)
				return
			}
		}
	}
}

// chunks yields the letters that f means in slices, which are reused. It adds
// those that it has come upon to seen, by their ids.
func (q *Queue) chunks(ctx context.Context, f Filter, seen map[[16]byte]struct{}) iter.Seq2[[]Entry, error] {
	return func(yield func([]Entry, error) bool) {
		entries := make([]Entry, 0, chunk)
		read, found, bytes := 0, 0, 0
		flush := func() (bool, error) {
			if f.Progress != nil {
				f.Progress(read)
			}
			kept, err := q.noted(ctx, entries, &f, seen)
			clear(entries[len(kept):])
			entries, bytes = entries[:0], 0
			if err != nil {
				return false, err
			}
			if f.Limit > 0 {
				kept = kept[:min(len(kept), f.Limit-found)]
			}
			found += len(kept)
			return (len(kept) == 0 || yield(kept, nil)) && (f.Limit <= 0 || found < f.Limit), nil
		}
		for d, err := range q.Broker.Browse(ctx, q.Topic, brokers.From{Since: f.Since}) {
			var e Entry
			if err == nil {
				read++
				e = q.entry(d)
				if foreign := new(ForeignError); read == 1 && errors.As(e.Err, &foreign) {
					err = foreign
				}
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !f.matches(&e) {
				continue
			}
			entries, bytes = append(entries, e), bytes+len(e.Letter.Value)
			if len(entries) == chunk || bytes >= chunkBytes || f.Limit > 0 && len(entries) >= f.Limit {
				more, err := flush()
				if err != nil {
					yield(nil, err)
				}
				if err != nil || !more {
					return
				}
			}
		}
		if _, err := flush(); err != nil {
			yield(nil, err)
		}
	}
}

// entry reads one message of the topic. A letter of another consumer is none of
// this queue's: whoever can publish can forge one, and it must not keep anybody
// from the others.
func (q *Queue) entry(d *brokers.Delivery) Entry {
	e := Entry{At: Place{Partition: d.Lane.Partition, Offset: d.Offset}, Stored: d.Time}
	l, err := q.read(d)
	if err == nil && l.Consumer != "" && l.Consumer != q.Consumer {
		err = &ForeignError{Topic: q.Topic, Consumer: q.Consumer, Found: l.Consumer}
	}
	if err != nil {
		e.Err = err
		l = Letter{
			ID:       IDAt(q.Consumer, d.Lane.Source, d.Lane.Partition, d.Offset, ReasonDecode),
			Consumer: q.Consumer, BrokerKey: d.Key, Value: d.Value, Headers: original(d.Headers),
		}
	}
	e.Letter = l
	return e
}

// noted asks the store about entries and keeps those that f means and that were
// not seen before.
func (q *Queue) noted(ctx context.Context, entries []Entry, f *Filter, seen map[[16]byte]struct{}) ([]Entry, error) {
	if len(entries) == 0 {
		return entries, nil
	}
	ids := make([]string, len(entries))
	for i := range entries {
		ids[i] = entries[i].Letter.ID
	}
	notes, _, err := q.know(ctx, ids, nil)
	if err != nil {
		return entries[:0], err
	}
	now, kept := time.Now(), entries[:0]
	for i, e := range entries {
		e.Note = notes[i]
		if e.Letter.Key.ID == "" && max(e.Letter.Run, 1) < e.Note.Run {
			continue // its copy has died too, and wrote it anew
		}
		h := short(e.Letter.ID)
		if _, twice := seen[h]; twice {
			continue // written again by a process that had not noted it
		}
		seen[h] = struct{}{}
		e.Forgotten = e.Note.State == dedup.LetterNone && e.old(now, q.window())
		if state := e.State(); f.WantsState(state) {
			kept = append(kept, e)
		} else if f.LeftOut != nil {
			f.LeftOut(state)
		}
	}
	return kept, nil
}

// old says that the letter's operation may have been done and forgotten since
// its message first died, which is when it was noted: one whose copy has died too
// lies there anew.
func (e *Entry) old(now time.Time, window time.Duration) bool {
	since := e.Stored
	if n := e.Note.Noted; !n.IsZero() && n.Before(since) {
		since = n
	}
	return since.Add(window).Before(now)
}

// Find returns the letter with this dl-id, whatever became of it.
//
// Errors: [ErrNotFound]; those of [Queue.Letters].
func (q *Queue) Find(ctx context.Context, id string) (Entry, error) {
	all := []dedup.LetterState{
		dedup.LetterNone, dedup.LetterOpen, dedup.LetterSent, dedup.LetterResolved, dedup.LetterDiscarded, dedup.LetterHeld, dedup.LetterGone,
	}
	for e, err := range q.Letters(ctx, Filter{IDs: []string{id}, States: all, Limit: 1}) {
		return e, err
	}
	return Entry{}, fmt.Errorf("%w: letter %q in %s", ErrNotFound, id, q.Topic)
}

// short is an id in 16 bytes: those that it stands for, or a digest.
func short(id string) (b [16]byte) {
	if n, err := hex.Decode(b[:], []byte(id[:min(len(id), 32)])); err == nil && n == 16 && len(id) == 32 {
		return b
	}
	sum := sha256.Sum256([]byte(id))
	return [16]byte(sum[:16])
}
