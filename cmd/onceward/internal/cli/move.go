package cli

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
)

func (a *app) resolve() *cobra.Command {
	return a.move("resolve", "Say that a letter is dealt with, for good", `The record of its operation stays as it is: what is in doubt stays in doubt, and
no command ends that. Where it is to run again, approve its letter in a plan
instead; where it has happened, the example "decide" of package deadletter is the
program that says so to the record as well.

`, dedup.LetterResolved)
}

func (a *app) discard() *cobra.Command {
	return meaning(a.move("discard", "Give a letter up, for good; its operation must be finished", `An operation is finished when it has succeeded or failed, or is forgotten; one that
runs, waits for another try or is in doubt is not.

`, dedup.LetterDiscarded), "delete", "rm", "purge", "drop")
}

func (a *app) reopen() *cobra.Command {
	return a.move("open", "Free a letter that is held, or that a job has taken and will not send", "A plan sends it then as any other.\n", dedup.LetterOpen)
}

// moved is what became of one letter.
type moved struct {
	ID    string `json:"id"`
	State string `json:"state"` // that it was to have
	Done  bool   `json:"done"`
	// Already says that it was so before, by the same words.
	Already bool   `json:"already,omitzero"`
	Error   string `json:"error,omitzero"` // why not
}

// move gives letters another state. What cannot be undone is asked for.
func (a *app) move(use, about, more string, to dedup.LetterState) *cobra.Command {
	var f connection
	why := ""
	ask := to != dedup.LetterOpen
	long := about + ".\n\n" + more
	if ask {
		long += `It cannot be undone: a letter that is resolved or discarded is never sent by a
plan, and no command opens it again. Called twice with the same words it takes
effect once.
`
	}
	long += "\n" + prefixHelp
	c := &cobra.Command{
		Use: use + " ID… --reason TEXT", Short: about, Long: long,
		Example: "  onceward dlq " + use + " 3f2a9c41 --reason '" + map[dedup.LetterState]string{
			dedup.LetterResolved: "booked by hand", dedup.LetterDiscarded: "test data", dedup.LetterOpen: "looked at, the cause is mended",
		}[to] + "'",
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, ids []string) error {
			if err := checkReason(why); err != nil {
				return err
			}
			if err := longEnough(ids); err != nil {
				return err
			}
			if ask {
				if err := a.confirm("%s %s? It cannot be undone.", strings.ToUpper(use[:1])+use[1:], counted(len(ids), "letter")); err != nil {
					return err
				}
			}
			return a.with(c.Context(), &f, needs{letters: true, store: true, writes: true}, func(ctx context.Context, s *session) error {
				ids, err := s.whole(ctx, ids)
				if err != nil {
					return err
				}
				return a.moveAll(ctx, s, ids, to, why)
			})
		},
	}
	f.flags(c, true)
	if ask {
		a.flagYes(c)
	}
	c.Flags().StringVar(&why, "reason", "", "`why`; kept with the letter")
	return c
}

func (a *app) flagYes(c *cobra.Command) {
	c.Flags().BoolVarP(&a.yes, "yes", "y", false, "do not ask")
}

func (a *app) moveAll(ctx context.Context, s *session, ids []string, to dedup.LetterState, why string) error {
	done, missing := 0, 0
	for _, id := range ids {
		already, err := s.moveOne(ctx, id, to, why)
		m := moved{ID: id, State: to.String(), Done: err == nil, Already: already}
		switch {
		case err == nil:
			done++
		case errors.Is(err, deadletter.ErrNotFound):
			missing++
			m.Error = err.Error()
		case errors.Is(err, deadletter.ErrRefused):
			m.Error = err.Error()
		case done > 0:
			return partly("%w; %d of %s %s; called again with the same words, it goes on", err, done, counted(len(ids), "letter"), are(done, len(ids), to))
		default:
			return err
		}
		switch {
		case a.json:
			if err := a.object(m); err != nil {
				return err
			}
		case m.Error != "":
			a.say("%s", m.Error)
		case already:
			a.say("letter %q was %s before, by the same words", id, to)
		}
	}
	if !a.json {
		a.say("%d of %s %s", done, counted(len(ids), "letter"), are(done, len(ids), to))
	}
	if to == dedup.LetterResolved && done > 0 {
		if err := a.sayDoubtful(ctx, s, ids); err != nil {
			return err
		}
	}
	switch {
	case done == len(ids):
		return nil
	case missing == len(ids):
		return &exit{code: Nothing}
	}
	return &exit{code: Partly}
}

// sayDoubtful tells of resolved letters whose records nothing was said to: they
// are in doubt.
func (a *app) sayDoubtful(ctx context.Context, s *session, ids []string) error {
	var keys []dedup.Key
	for part := range slices.Chunk(ids, dedup.MaxBatch) {
		notes, err := dedup.Letters(ctx, s.queue.Store, part)
		if err != nil {
			return err
		}
		for _, n := range notes {
			if n.State == dedup.LetterResolved && n.Reason == dedup.ReasonInDoubt {
				keys = append(keys, n.Key)
			}
		}
	}
	for part := range slices.Chunk(keys, dedup.MaxBatch) {
		records, err := dedup.Lookup(ctx, s.queue.Store, part)
		if err != nil {
			return err
		}
		for _, r := range records {
			if r.State == dedup.InDoubt {
				a.say("%s stays in doubt: onceward dlq resolve --help says what ends that", r.Key)
			}
		}
	}
	return nil
}

// are is what done of so many letters are now.
func are(done, of int, state dedup.LetterState) string {
	if done == 1 || of == 1 {
		return "is " + state.String()
	}
	return "are " + state.String()
}

// moveOne moves a letter; already says that the same was said of it before. One
// that the store has no note of, since others have written it or it is no letter
// at all, is looked for in the topic and noted.
func (s *session) moveOne(ctx context.Context, id string, to dedup.LetterState, why string) (already bool, err error) {
	err = s.queue.Move(ctx, id, to, s.who, why)
	if errors.Is(err, deadletter.ErrNotFound) {
		var e deadletter.Entry
		if e, err = s.queue.Find(ctx, id); err == nil {
			err = s.queue.Note(ctx, &e)
		}
		if err != nil {
			return false, err
		}
		err = s.queue.Move(ctx, id, to, s.who, why)
	}
	if !errors.Is(err, deadletter.ErrRefused) {
		return false, err
	}
	notes, failed := dedup.Letters(ctx, s.queue.Store, []string{id})
	if failed == nil && notes[0].State == to && notes[0].Why == why {
		return true, nil
	}
	return false, errors.Join(err, failed)
}
