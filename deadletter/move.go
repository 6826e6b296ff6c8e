package deadletter

import (
	"context"
	"fmt"

	"github.com/onceward/onceward/dedup"
)

// Move gives a letter another state, for a person: open (of one that is held,
// or that a job has taken and will not send), resolved or discarded, with who
// and why.
//
// Errors: [ErrNotFound]; [ErrRefused] where its state does not allow it, such as
// discarding a letter whose operation is not finished; those of the store.
func (q *Queue) Move(ctx context.Context, id string, to dedup.LetterState, who, why string) error {
	notes, _, err := q.know(ctx, []string{id}, nil)
	if err != nil {
		return err
	}
	n := &notes[0]
	if n.State == dedup.LetterNone || n.Key.Consumer != q.Consumer {
		return fmt.Errorf("%w: the store has no note of letter %q of consumer %q", ErrNotFound, id, q.Consumer)
	}
	done, err := q.move(ctx, n, to, dedup.Letter{ID: id, Who: who, Why: why})
	switch {
	case err != nil || done:
	case n.State == to:
		err = fmt.Errorf("%w: letter %q is %s%s already", ErrRefused, id, to, takenBy(n))
	default:
		err = fmt.Errorf("%w: letter %q is %s%s and cannot become %s%s", ErrRefused, id, n.State, takenBy(n), to, q.unfinished(ctx, n, to))
	}
	return err
}

// unfinished says that a letter is not discarded because of its operation.
func (q *Queue) unfinished(ctx context.Context, n *dedup.Letter, to dedup.LetterState) string {
	if to != dedup.LetterDiscarded || n.Job != "" || n.State != dedup.LetterOpen && n.State != dedup.LetterHeld {
		return ""
	}
	_, records, err := q.know(ctx, nil, []dedup.Key{n.Key})
	if err != nil || records[0].State == dedup.Absent || records[0].Ended() != dedup.Absent {
		return "" // what it is stays true without it
	}
	return ": its operation is " + records[0].State.String() + ", and must be finished first"
}

func takenBy(n *dedup.Letter) string {
	if n.Job == "" || n.State != dedup.LetterOpen && n.State != dedup.LetterSent {
		return ""
	}
	return ", taken by job " + n.Job + ","
}

// move is one step of a letter as it was seen.
func (q *Queue) move(ctx context.Context, n *dedup.Letter, to dedup.LetterState, l dedup.Letter) (done bool, err error) {
	answers, err := dedup.Apply(ctx, q.Store, []dedup.Op{moving(n, to, l)})
	if err != nil {
		return false, err
	}
	return answers[0].Kind == dedup.Done, answers[0].Err
}

// moving is the operation that moves a letter. It names the run that was seen: a
// letter that has died once more since is not the one that somebody decided on.
func moving(n *dedup.Letter, to dedup.LetterState, l dedup.Letter) dedup.Op {
	l.Run = n.Seen()
	return dedup.Op{Kind: dedup.MoveLetter, Key: n.Key, Letter: &dedup.LetterOp{Letter: l, From: n.State, To: to}}
}
