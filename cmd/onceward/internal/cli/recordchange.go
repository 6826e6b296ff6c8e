package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/internal/adminapi"
)

func (a *app) recordUnlock() *cobra.Command {
	return a.change("unlock", "Take a running operation from its owner; the next delivery runs it again",
		"Its owner may still be at work then: what it does happens twice", "its pod is gone", dedup.Unlock)
}

func (a *app) recordDelete() *cobra.Command {
	return a.change("delete", "Forget a finished operation; a repeat of its message runs again then",
		"A repeat of its message runs again then", "a test order", dedup.Delete)
}

// changed is a change of one record, as --json has it.
type changed struct {
	Scope adminapi.Text `json:"scope"`
	Key   adminapi.Text `json:"key"`
	Did   string        `json:"did"`
	Done  bool          `json:"done"`
	State string        `json:"state"` // of the record now
	Run   uint32        `json:"run"`
}

// change is a command that changes one record, as it was seen.
func (a *app) change(use, about, warning, reason string, kind dedup.Kind) *cobra.Command {
	var f connection
	scope, why := "", ""
	c := &cobra.Command{
		Use: use + " KEY --reason TEXT", Short: about, Args: cobra.ExactArgs(1),
		Example: "  onceward record " + use + " order-4711 --reason '" + reason + "'",
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkReason(why); err != nil {
				return err
			}
			return a.with(c.Context(), &f, needs{store: true, writes: true}, func(ctx context.Context, s *session) error {
				r, err := s.one(ctx, args[0], scope)
				if err != nil {
					return err
				}
				if err := a.confirm("%v is %s, run %d. %s. %s it?", r.Key, recordState(r), r.Run, warning, use); err != nil {
					return err
				}
				return a.changeOne(ctx, s, r, use, kind, why)
			})
		},
	}
	f.flags(c, false)
	a.flagYes(c)
	c.Flags().StringVar(&scope, "scope", "", "`SCOPE` of the key, where it has records in several")
	c.Flags().StringVar(&why, "reason", "", "`why`; kept with the record")
	return c
}

func (a *app) changeOne(ctx context.Context, s *session, r *dedup.Record, use string, kind dedup.Kind, why string) error {
	answers, err := dedup.Apply(ctx, s.queue.Store, []dedup.Op{{Kind: kind, Key: r.Key, Operator: &dedup.OperatorOp{
		Seen: r.Seen(), Who: s.who, Why: why,
	}}})
	if err != nil {
		return err
	}
	answer := answers[0]
	if answer.Err != nil {
		return answer.Err
	}
	done := answer.Kind == dedup.Done
	if a.json {
		out := changed{adminapi.Text(r.Key.Scope), adminapi.Text(r.Key.ID), use, done, answer.State.String(), answer.Run}
		if err := a.object(out); err != nil {
			return err
		}
	}
	switch {
	case done && kind == dedup.Unlock:
		a.say("%v: taken from its owner; the next delivery runs it", r.Key)
		return nil
	case done:
		a.say("%v: forgotten; a repeat of its message runs again", r.Key)
		return nil
	case answer.State != r.State || answer.Fence != r.Fence:
		return partly("%v has moved on meanwhile: it was %s, it is %s; nothing was changed", r.Key, r.State, answer.State)
	}
	return partly("%v: %s is refused: %s", r.Key, use, refusal(kind, r))
}

// refusal is why the store refuses a change of a record that has not moved on.
func refusal(kind dedup.Kind, r *dedup.Record) string {
	switch {
	case kind == dedup.Unlock:
		return "it is " + r.State.String() + ", and only a running operation can be taken from its owner"
	case r.State == dedup.Tombstone:
		return "it is archived, which is for good"
	case r.State == dedup.InProgress || r.State == dedup.InDoubt:
		return "it is " + r.State.String() + ", and only what is finished can be forgotten"
	case r.Owed:
		return "its letter is not confirmed yet"
	case len(r.Intents) > 0:
		return "it has effects outside, which would be forgotten with it"
	}
	return "a letter of it is open, sent or held: resolve or discard that first"
}
