package cli

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
)

// recordRerun plans that what succeeded wrongly runs again.
func (a *app) recordRerun() *cobra.Command {
	var f connection
	var p planning
	var r deadletter.Rerun
	between := ""
	c := &cobra.Command{
		Use:   "rerun --scope SCOPE KEY | --completed-between FROM UNTIL -o FILE",
		Short: "Plan that operations which succeeded, but wrongly, run again; dlq replay apply does it",
		Long: `Plan that operations which succeeded, but wrongly, run again. The plan opens their
records for a further run and sends their messages once more, read from the topic
or stream where they were first published. Their handler runs whole: what it calls
outside is called again, with another OutputID. Nothing is changed before "onceward
dlq replay apply", which takes the role approve where there are roles.

It is about one business id, or about all that was completed in some time. Plan,
apply and status count each operation as a letter.`,
		Example: "  onceward record rerun --scope order.create --completed-between 2026-03-01T10:00:00Z 2026-03-01T11:30:00Z --why 'wrong tax' -o rerun.jsonl",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := which(&r, between, args); err != nil {
				return err
			}
			if p.why == "" {
				return usage("--why must say why they run again")
			}
			if err := p.read(); err != nil {
				return err
			}
			return a.with(c.Context(), &f, needs{letters: true, store: true}, func(ctx context.Context, s *session) error {
				r.To, r.Who, r.Why, r.ExpiresIn = deadletter.Target(p.to), s.who, p.why, p.expiresIn
				err := a.writePlan(p.file, func(w io.Writer) (deadletter.Plan, error) { return s.queue.PlanRerun(ctx, r, w) })
				if code(err) == Nothing && r.ID != "" {
					return s.notRerun(ctx, r.ID, r.Scope)
				}
				return err
			})
		},
	}
	f.flags(c, false)
	p.flags(c)
	s := c.Flags()
	s.Lookup("why").Usage = "`why` they run again; kept with each of them"
	s.StringVar(&r.Scope, "scope", "", "`SCOPE` of the operations")
	s.StringVar(&between, "completed-between", "", "when they were completed, at or after the first `TIME` and before the second")
	s.IntVar(&r.Limit, "limit", 0, "at most `N` operations, 0 for all")
	return c
}

// notRerun is why one operation does not run again.
func (s *session) notRerun(ctx context.Context, id, scope string) error {
	found, err := s.named(ctx, id, scope)
	if err != nil {
		return err
	}
	state := found[0].State
	if state == dedup.Failed || state == dedup.Retryable {
		return nothing("%v is %s, and only what has succeeded runs again so: onceward dlq replay plan --key %s sends its letter", found[0].Key, state, shellWord(id))
	}
	return nothing("%v is %s, and only what has succeeded runs again so: there is no plan", found[0].Key, state)
}

// which reads what is to run again: an id, or a time with its end as the next
// argument or behind two dots.
func which(r *deadletter.Rerun, between string, args []string) error {
	if r.Scope == "" {
		return usage("which operations? --scope SCOPE")
	}
	if between == "" {
		if len(args) == 0 {
			return usage("which operations? a KEY, or --completed-between FROM UNTIL")
		}
		r.ID = args[0]
		return nil
	}
	from, until, both := strings.Cut(between, "..")
	if both == (len(args) == 1) {
		return usage("--completed-between takes two times: FROM UNTIL")
	}
	if !both {
		until = args[0]
	}
	var err error
	if r.From, err = moment(from); err != nil {
		return usage("--completed-between %w", err)
	}
	if r.Until, err = moment(until); err != nil {
		return usage("--completed-between %w", err)
	}
	if r.From.IsZero() || !r.From.Before(r.Until) {
		return usage("--completed-between takes the earlier time first")
	}
	return nil
}
