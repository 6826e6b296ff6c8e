package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
)

// noLetter is the error that none was found. Where the store has notes of some,
// it is told why that may be.
func (a *app) noLetter(ctx context.Context, s *session, f *deadletter.Filter, none error) error {
	if meant := s.idIn(f.Key); meant != "" {
		return fmt.Errorf("%w%s", none, meant)
	}
	if s.blind || len(f.IDs)+len(f.Reasons) > 0 || f.Key != "" || f.Error != nil || !f.Since.IsZero() || !f.Until.IsZero() {
		return none
	}
	n := 0
	for l, err := range s.queue.Store.ScanLetters(ctx, s.queue.Consumer) {
		if err != nil {
			return err
		}
		if f.WantsState(l.State) {
			n++
		}
	}
	if n > 0 {
		a.say("the store has %s noted, whose messages lie in another topic of the consumer or have left this one; "+
			"of those that have left, a plan of all letters says so from an hour after they were last moved", counted(n, "letter"))
	}
	if n > 0 {
		return none
	}
	return s.doubt(ctx, none)
}

// doubt adds to an error that nothing was found whether the file knows of the
// consumer at all: if not, a name is misspelt, or it is the file of another.
func (s *session) doubt(ctx context.Context, none error) error {
	if s.file == nil {
		return none
	}
	for _, err := range s.queue.Store.ScanLetters(ctx, s.queue.Consumer) {
		return cmp.Or(err, none)
	}
	for _, err := range s.queue.Store.Scan(ctx, s.queue.Consumer) {
		return cmp.Or(err, none)
	}
	return fmt.Errorf("%w; %s has no record and no letter of a consumer %q: are name and file right?", none, s.file.Info().Kind, s.queue.Consumer)
}

// notFound adds to an error that a letter was not found what the store knows of it.
func (s *session) notFound(ctx context.Context, id string, err error) error {
	if s.blind || !errors.Is(err, deadletter.ErrNotFound) {
		return err
	}
	notes, failed := dedup.Letters(ctx, s.queue.Store, []string{id})
	if failed != nil || notes[0].State == dedup.LetterNone || notes[0].Key.Consumer != s.queue.Consumer {
		return err
	}
	return fmt.Errorf("%w; the store has it as %s: its message lies in another topic, or has left this one", err, notes[0].State)
}
