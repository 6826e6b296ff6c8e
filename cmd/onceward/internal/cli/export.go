package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/internal/adminapi"
)

// letterExported is a letter as export has it, one a line.
type letterExported struct {
	Letter  letterShown   `json:"letter"`
	Stack   adminapi.Text `json:"stack,omitzero"`
	Message messageShown  `json:"message"`
}

// export writes letters with their messages, byte for byte.
func (a *app) export() *cobra.Command {
	var f connection
	var want filter
	c := &cobra.Command{
		Use: "export [ID…]", Short: "Letters with their messages, as JSON Lines",
		Long:    "Letters with their messages, as JSON Lines.\n\n" + prefixHelp,
		Example: "  onceward dlq export --state all > letters.jsonl",
		RunE: func(c *cobra.Command, ids []string) error {
			filter, err := want.read(ids)
			if err != nil {
				return err
			}
			return a.with(c.Context(), &f, needs{letters: true}, func(ctx context.Context, s *session) error {
				if filter.IDs, err = s.whole(ctx, ids); err != nil {
					return err
				}
				defer a.count(&filter)()
				p := a.progress()
				found, asked := 0, newNamed(filter.IDs)
				filter.Progress = func(read int) { p.tell("%d letters read, %d written", read, found) }
				for e, err := range s.queue.Letters(ctx, filter) {
					if err != nil {
						return err
					}
					found++
					asked.see(e.Letter.ID)
					if err := a.object(letterExported{s.shown(&e), adminapi.Text(e.Letter.Stack), messageOf(&e.Letter)}); err != nil {
						return err
					}
				}
				if filter.Limit > 0 && found == filter.Limit {
					return nil // those that are missing may be behind
				}
				missing := a.sayMissing(asked)
				if found == 0 {
					return a.noLetter(ctx, s, &filter, nothing("no letter in %s matches", s.queue.Topic))
				}
				return missing
			})
		},
	}
	f.flags(c, true)
	want.flags(c, 0)
	return c
}
