package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
)

func (a *app) resolve() *cobra.Command {
	return a.move("resolve", "Say that a letter is dealt with", dedup.LetterResolved, false)
}

func (a *app) discard() *cobra.Command {
	return a.move("discard", "Say that a letter is not worth it; its operation must be finished", dedup.LetterDiscarded, true)
}

func (a *app) reopen() *cobra.Command {
	return a.move("open", "Free a letter that is held, or that a job has taken and will not send", dedup.LetterOpen, false)
}

// moved is what became of one letter.
type moved struct {
	ID    string `json:"id"`
	State string `json:"state"` // that it was to have
	Done  bool   `json:"done"`
	Error string `json:"error,omitzero"` // why not
}

// move gives letters another state.
func (a *app) move(use, about string, to dedup.LetterState, ask bool) *cobra.Command {
	var f connection
	why := ""
	c := &cobra.Command{
		Use: use + " ID… --reason TEXT", Short: about, Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, ids []string) error {
			if why == "" || len(why) > dedup.MaxError {
				return usage("--reason must say why, in at most %d bytes", dedup.MaxError)
			}
			if ask {
				if err := a.confirm("%s %d letters?", use, len(ids)); err != nil {
					return err
				}
			}
			return a.with(c.Context(), &f, needs{letters: true, store: true, writes: true}, func(ctx context.Context, s *session) error {
				return a.moveAll(ctx, s, ids, to, why)
			})
		},
	}
	f.flags(c, true)
	a.flagYes(c)
	c.Flags().StringVar(&why, "reason", "", "`why`; kept with the letter")
	return c
}

func (a *app) flagYes(c *cobra.Command) {
	c.Flags().BoolVarP(&a.yes, "yes", "y", false, "do not ask")
}

func (a *app) moveAll(ctx context.Context, s *session, ids []string, to dedup.LetterState, why string) error {
	done, missing := 0, 0
	for _, id := range ids {
		err := s.moveOne(ctx, id, to, why)
		m := moved{ID: id, State: to.String(), Done: err == nil}
		switch {
		case err == nil:
			done++
		case errors.Is(err, deadletter.ErrNotFound):
			missing++
			m.Error = err.Error()
		case errors.Is(err, deadletter.ErrRefused):
			m.Error = err.Error()
		default:
			return err
		}
		if a.json {
			if err := a.object(m); err != nil {
				return err
			}
		} else if m.Error != "" {
			a.say("%s", m.Error)
		}
	}
	if !a.json {
		a.say("%d of %d letters are %s", done, len(ids), to)
	}
	switch {
	case done == len(ids):
		return nil
	case missing == len(ids):
		return &exit{code: Nothing}
	}
	return &exit{code: Partly}
}

// moveOne moves a letter. One that the store has no note of, since others have
// written it or it is no letter at all, is looked for in the topic and noted.
func (s *session) moveOne(ctx context.Context, id string, to dedup.LetterState, why string) error {
	err := s.queue.Move(ctx, id, to, s.who, why)
	if !errors.Is(err, deadletter.ErrNotFound) {
		return err
	}
	e, err := s.queue.Find(ctx, id)
	if err != nil {
		return err
	}
	if err := s.queue.Note(ctx, &e); err != nil {
		return err
	}
	return s.queue.Move(ctx, id, to, s.who, why)
}
