package deadletter

import (
	"context"
	"fmt"

	"github.com/onceward/onceward/dedup"
)

// Note makes the store's note of an entry that it has none of: a letter that
// others have written, one that is forgotten, or a message that is no letter.
// The note is open then, and in e. A note that is there stays as it is.
//
// Errors: [ErrRefused] where the consumer itself is to note a letter of the key,
// which is not confirmed so far; those of the store.
func (q *Queue) Note(ctx context.Context, e *Entry) error {
	if e.Note.State != dedup.LetterNone {
		return nil
	}
	r, err := q.Record(ctx, e)
	if err != nil {
		return err
	}
	if r.Owed {
		// A note would say that the letter is there, which may be another one's.
		return fmt.Errorf("%w: the letter of %v is not noted yet: the next delivery does it", ErrRefused, r.Key)
	}
	w := &work{it: &item{ID: e.Letter.ID}, e: *e, r: r}
	if err := q.noteAll(ctx, []*work{w}); err != nil {
		return err
	}
	e.Note = w.e.Note
	return nil
}

// noteAll makes notes of letters that the store has none of: those that others
// have written, and those that it has forgotten.
func (q *Queue) noteAll(ctx context.Context, works []*work) error {
	var ops []dedup.Op
	var noted []*work
	var ids []string
	for _, w := range works {
		if w.it.ID == "" || w.e.Note.State != dedup.LetterNone {
			continue
		}
		l := &w.e.Letter
		note := dedup.Letter{
			ID: l.ID, Reason: string(l.Reason), Run: max(l.Run, 1), Opened: w.r.Opened, Time: l.Source.Time,
			Noted: w.e.Stored, // it may have been dealt with since, and forgotten
		}
		if s := &l.Source; s.Identity != "" { // else it is no place: nobody's prefix would ever pass it
			note.Source = dedup.Position{Source: s.Identity, Partition: s.Partition, Offset: s.Offset}
		}
		noted, ids = append(noted, w), append(ids, l.ID)
		ops = append(ops, dedup.Op{Kind: dedup.NoteLetter, Key: w.e.noteKey(q.Consumer), Letter: &dedup.LetterOp{Letter: note, Window: q.window()}})
	}
	if len(ops) == 0 {
		return nil
	}
	if _, err := dedup.Apply(ctx, q.Store, ops); err != nil {
		return err
	}
	var keys []dedup.Key
	for _, w := range noted {
		keys = append(keys, w.e.recordKey(q.Consumer))
	}
	notes, records, err := q.know(ctx, ids, keys)
	for i := range records {
		noted[i].e.Note = notes[i]
		if noted[i].r = records[i]; records[i].Key.OfLetter() {
			noted[i].reopen = true // its record has begun with the note
		}
	}
	return err
}

// noting makes the note of a letter that is not at hand any more, only in a plan.
func (a *application) noting(w *work) dedup.Op {
	it := w.it
	e := Entry{Letter: Letter{ID: it.ID, Key: it.key(a.q.Consumer), Reason: it.Reason}}
	note := dedup.Letter{ID: it.ID, Reason: string(it.Reason), Run: it.Letter.Run, Opened: w.r.Opened}
	return dedup.Op{Kind: dedup.NoteLetter, Key: e.noteKey(a.q.Consumer), Letter: &dedup.LetterOp{Letter: note, Window: a.q.window()}}
}
