package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/internal/adminapi"
)

// groups is letters by what they died of.
func (a *app) groups() *cobra.Command {
	var f connection
	var want filter
	c := &cobra.Command{
		Use: "groups", Short: "Letters by what they died of", Args: noArguments,
		Example: "  onceward dlq groups --from kafka://localhost:9092/orders.billing.dlq --store bolt:billing.db",
		RunE: func(c *cobra.Command, _ []string) error {
			filter, err := want.read(nil)
			if err != nil {
				return err
			}
			return a.with(c.Context(), &f, needs{letters: true}, func(ctx context.Context, s *session) error {
				p := a.progress()
				filter.Progress = func(read int) { p.tell("%d letters read", read) }
				groups, err := s.queue.Groups(ctx, filter)
				if err != nil {
					return err
				}
				return a.showGroups(s, groups)
			})
		},
	}
	f.flags(c, true)
	want.flags(c, 0)
	return c
}

// groupShown is a group as --json has it.
type groupShown struct {
	Count      int           `json:"count"`
	Reason     string        `json:"reason,omitzero"`
	ErrorType  string        `json:"error_type,omitzero"`
	Pattern    string        `json:"pattern,omitzero"`
	AppVersion string        `json:"app_version,omitzero"`
	Unreadable bool          `json:"unreadable,omitzero"`
	Rest       bool          `json:"rest,omitzero"` // all that are beyond the bound of groups
	First      adminapi.Time `json:"first"`
	Last       adminapi.Time `json:"last"`
	Example    string        `json:"example"`
	Error      string        `json:"error,omitzero"` // of the example
}

func (a *app) showGroups(s *session, groups []deadletter.Group) error {
	if len(groups) == 0 {
		return nothing("no letter in %s matches", s.queue.Topic)
	}
	t := a.table("COUNT", "REASON", "ERROR TYPE", "ERROR", "VERSION", "FIRST", "LAST", "EXAMPLE")
	for i := range groups {
		g := &groups[i]
		if a.json {
			out := groupShown{
				g.Count, string(g.Reason), g.ErrorType, g.Pattern, g.AppVersion, g.Unreadable, g.Rest,
				adminapi.Time(g.First), adminapi.Time(g.Last), g.Example, g.Error,
			}
			if err := a.object(out); err != nil {
				return err
			}
			continue
		}
		reason, text := string(g.Reason), g.Pattern
		if g.Unreadable {
			reason = "no letter"
		}
		if g.Rest {
			reason, text = "others", fmt.Sprintf("in more than %d groups", deadletter.MaxGroups)
		}
		err := t.row(number(g.Count), reason, short(g.ErrorType, 32), short(text, 60), short(g.AppVersion, 20), when(g.First), when(g.Last), g.Example)
		if err != nil {
			return err
		}
	}
	if a.json {
		return nil
	}
	return t.flush()
}
