package deadletter

import (
	"context"

	"github.com/onceward/onceward/dedup"
)

// Note makes the store's note of an entry that it has none of: a letter that
// others have written, one that is forgotten, or a message that is no letter.
// The note is open then, and in e. A note that is there stays as it is.
//
// Errors: those of the store.
func (q *Queue) Note(ctx context.Context, e *Entry) error {
	if e.Note.State != dedup.LetterNone {
		return nil
	}
	r, err := q.Record(ctx, e)
	if err != nil {
		return err
	}
	w := &work{it: &item{ID: e.Letter.ID}, e: *e, r: r}
	if err := q.noteAll(ctx, []*work{w}); err != nil {
		return err
	}
	e.Note = w.e.Note
	return nil
}
