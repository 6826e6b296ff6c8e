package deadletter

import (
	"context"
	"iter"

	"github.com/onceward/onceward/dedup"
)

// Outcome is what became of a letter of a plan: not that it was sent, but what
// its operation came to.
type Outcome string

// The outcomes.
const (
	Succeeded   Outcome = "succeeded"
	FailedAgain Outcome = "failed again" // and has a new letter
	Held        Outcome = "held"         // failed for the third time: a person must look
	InDoubt     Outcome = "in doubt"
	Waiting     Outcome = "waiting"  // sent, and to be tried (again) or running
	Resolved    Outcome = "resolved" // without being sent
	NotSent     Outcome = "not sent" // the plan was not applied so far, or it changed before, or no copy is confirmed
	Refused     Outcome = "refused"
	Skipped     Outcome = "skipped" // by the plan, or by its handler
	Gone        Outcome = "gone"    // its message was not in the topic any more
	Unknown     Outcome = "unknown" // its record is forgotten, or tells of what another plan has done since
)

// LetterOutcome is what has become of one letter of a plan by now.
type LetterOutcome struct {
	ID      string
	Key     dedup.Key // zero without one
	Outcome Outcome
	// Record of its key as it is now; absent without one.
	Record dedup.Record
}

// Outcome yields what became of each letter of a plan, in its order, from the
// store's records and notes. It changes nothing.
//
// It blocks for some questions to the store.
//
// Errors, yielded once, last: [ErrRefused] for a plan of another consumer, topic
// or store; those of the store.
func (q *Queue) Outcome(ctx context.Context, f *PlanFile) iter.Seq2[LetterOutcome, error] {
	return func(yield func(LetterOutcome, error) bool) {
		if err := q.fits(&f.Plan); err != nil {
			yield(LetterOutcome{}, err)
			return
		}
		batch := make([]*item, 0, chunk)
		flush := func() bool {
			ended, err := q.ended(ctx, f.Job, batch)
			batch = batch[:0]
			if err != nil {
				yield(LetterOutcome{}, err)
				return false
			}
			for _, e := range ended {
				if !yield(e, nil) {
					return false
				}
			}
			return true
		}
		for it, err := range f.items() {
			if err != nil {
				yield(LetterOutcome{}, err)
				return
			}
			if batch = append(batch, it); len(batch) == chunk && !flush() {
				return
			}
		}
		flush()
	}
}

// ended asks the store what became of some items.
func (q *Queue) ended(ctx context.Context, job string, items []*item) ([]LetterOutcome, error) {
	var ids []string
	var keys []dedup.Key
	for _, it := range items {
		if it.ID != "" {
			ids = append(ids, it.ID)
		}
		if it.Key != "" {
			keys = append(keys, it.key(q.Consumer))
		}
	}
	notes, records, err := q.know(ctx, ids, keys)
	if err != nil {
		return nil, err
	}
	ended := make([]LetterOutcome, len(items))
	var failed []int // whose last run may have a letter that is held
	ids = ids[:0]
	for i, it := range items {
		e := &ended[i]
		e.ID, e.Key = it.ID, it.key(q.Consumer)
		var n dedup.Letter
		if it.ID != "" {
			n, notes = notes[0], notes[1:]
		}
		if it.Key != "" {
			e.Record, records = records[0], records[1:]
		}
		e.Outcome = outcomeOf(it, &n, &e.Record, job)
		if e.Outcome == FailedAgain && e.Record.State == dedup.Failed {
			failed, ids = append(failed, i), append(ids, ID(e.Key, e.Record.Opened))
		}
	}
	notes, _, err = q.know(ctx, ids, nil)
	if err != nil {
		return nil, err
	}
	for n, i := range failed {
		if notes[n].State == dedup.LetterHeld {
			ended[i].Outcome = Held
		}
	}
	return ended, nil
}

// outcomeOf says what became of one item, by the note of its letter and the
// record of its key.
func outcomeOf(it *item, n *dedup.Letter, r *dedup.Record, job string) Outcome {
	switch it.Decision.Action {
	case Refuse:
		if it.Decision.Expired && (n.Job == job || it.diedAgain(n, job)) {
			break // accepted when the plan was applied
		}
		return Refused
	case Skip:
		return Skipped
	case Miss:
		if n.State == dedup.LetterGone {
			return Gone
		}
		return NotSent
	case Resolve:
		if n.State == dedup.LetterResolved || n.State == dedup.LetterNone && it.Letter.State != n.State.String() {
			return Resolved // or was, and is forgotten
		}
		return NotSent
	}
	if it.ID == "" {
		return outcomeOfRerun(it, r, job)
	}
	switch {
	case n.State == dedup.LetterGone:
		return Gone
	case n.State == dedup.LetterNone && it.Letter.State != n.State.String():
		return Unknown
	case it.diedAgain(n, job) && n.State == dedup.LetterHeld:
		return Held
	case it.diedAgain(n, job):
		return FailedAgain
	case n.Job != job:
		return NotSent
	case n.State == dedup.LetterResolved && n.Answer != dedup.Absent:
		return outcomeOfState(n.Answer)
	case n.State == dedup.LetterResolved:
		return Skipped
	case it.Key != "" && !it.Record.is(r) && r.Ended() != dedup.Absent:
		return outcomeOfState(r.Ended()) // the note follows with the delivery's end
	case it.Key != "" && !it.Record.is(r) && r.State == dedup.InDoubt:
		return InDoubt
	case n.State == dedup.LetterOpen:
		return NotSent // taken, and no copy is confirmed: nothing comes before the plan is applied again
	}
	return Waiting
}

// outcomeOfRerun is for a message that is no letter.
func outcomeOfRerun(it *item, r *dedup.Record, job string) Outcome {
	switch {
	case r.State == dedup.Absent, r.Job != job && r.Run > it.Record.Run+1: // one of the runs may have been this job's
		return Unknown
	case it.Record.is(r) || r.Job != job:
		return NotSent
	case r.State == dedup.InDoubt || r.Ended() != dedup.Absent:
		return outcomeOfState(r.State)
	case !r.Sent:
		return NotSent // opened, and no copy is confirmed
	}
	return Waiting
}

func outcomeOfState(s dedup.State) Outcome {
	switch s {
	case dedup.Succeeded:
		return Succeeded
	case dedup.InDoubt:
		return InDoubt
	case dedup.Failed:
		return FailedAgain
	}
	return Waiting
}
