package deadletter

import (
	"regexp"
	"slices"
	"time"

	"github.com/onceward/onceward/dedup"
)

// Filter says which letters are meant: those of which all of it is true. What
// is left out does not choose, so that the zero value is all that nobody has
// dealt with: open, sent and held.
type Filter struct {
	IDs     []string // dl-id
	Reasons []Reason
	Key     string         // business id
	Error   *regexp.Regexp // of the error text
	Since   time.Time      // stored at or after
	Until   time.Time      // stored before
	// States that a letter may be in; empty: those of letters that nobody has
	// dealt with.
	States []dedup.LetterState
	// Limit is how many letters are meant at most; 0: all.
	Limit int
	// Progress, where set, is told every so often how many messages were read.
	Progress func(read int)
	// LeftOut, where set, is told of each letter that is meant but for its state.
	LeftOut func(dedup.LetterState)
}

// matches says whether the letter is meant, as far as its note does not decide.
func (f *Filter) matches(e *Entry) bool {
	switch {
	case len(f.IDs) > 0 && !slices.Contains(f.IDs, e.Letter.ID),
		len(f.Reasons) > 0 && !slices.Contains(f.Reasons, e.Letter.Reason),
		f.Key != "" && f.Key != e.Letter.Key.ID,
		f.Error != nil && !f.Error.MatchString(e.Letter.Error),
		!f.Until.IsZero() && !e.Stored.Before(f.Until):
		return false
	}
	return true
}

// WantsState says that a letter in this state is meant, as far as its state
// decides.
func (f *Filter) WantsState(s dedup.LetterState) bool {
	if len(f.States) > 0 {
		return slices.Contains(f.States, s)
	}
	return s.Unfinished()
}

// all says that every letter is meant that nobody has dealt with.
func (f *Filter) all() bool {
	return len(f.IDs)+len(f.Reasons)+len(f.States) == 0 && f.Key == "" && f.Error == nil && f.Since.IsZero() && f.Until.IsZero() && f.Limit <= 0
}
