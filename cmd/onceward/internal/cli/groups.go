package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/cmd/onceward/internal/plain"
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
				defer a.count(&filter)()
				p := a.progress()
				filter.Progress = func(read int) { p.tell("%d letters read", read) }
				groups, err := s.queue.Groups(ctx, filter)
				if err != nil {
					return err
				}
				if len(groups) == 0 {
					return a.noLetter(ctx, s, &filter, nothing("no letter in %s matches", s.queue.Topic))
				}
				return a.showGroups(groups)
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
	Held       int           `json:"held,omitzero"`
	Reason     string        `json:"reason,omitzero"`
	ErrorType  string        `json:"error_type,omitzero"`
	Pattern    string        `json:"pattern,omitzero"`
	Text       string        `json:"text,omitzero"` // the pattern, with numbers that are few
	AppVersion string        `json:"app_version,omitzero"`
	Unreadable bool          `json:"unreadable,omitzero"`
	Rest       bool          `json:"rest,omitzero"` // all that are beyond the bound of groups
	First      adminapi.Time `json:"first"`
	Last       adminapi.Time `json:"last"`
	Example    string        `json:"example"`
	Error      string        `json:"error,omitzero"` // of the example
}

func (a *app) showGroups(groups []deadletter.Group) error {
	if !a.json {
		return a.groupTable(groups)
	}
	for i := range groups {
		g := &groups[i]
		out := groupShown{
			g.Count, g.Held, string(g.Reason), g.ErrorType, g.Pattern, g.Text, g.AppVersion, g.Unreadable, g.Rest,
			adminapi.Time(g.First), adminapi.Time(g.Last), g.Example, g.Error,
		}
		if err := a.object(out); err != nil {
			return err
		}
	}
	return nil
}

const (
	groupsWidth = 120 // of a terminal in which nothing is wrapped
	// leastError is what is left of an error even where the rest is wide.
	leastError = 30
	// exampleID is how much of an id names it as surely as all of it.
	exampleID = 12
)

// groupColumns says which columns have something to say.
type groupColumns struct{ held, typed, version bool }

// groupTable leaves out columns that say nothing, and gives the error what the
// others leave of a terminal's width. Where that is too little the type goes, of
// which an error's text mostly tells.
func (a *app) groupTable(groups []deadletter.Group) error {
	c := groupColumns{
		held:    slices.ContainsFunc(groups, func(g deadletter.Group) bool { return g.Held > 0 }),
		typed:   slices.ContainsFunc(groups, func(g deadletter.Group) bool { return g.ErrorType != "" }),
		version: slices.ContainsFunc(groups, func(g deadletter.Group) bool { return !g.Rest && g.AppVersion != groups[0].AppVersion }),
	}
	rows, at, left := c.rows(groups)
	if c.typed && left < leastError {
		c.typed = false
		rows, at, left = c.rows(groups)
	}
	t := a.table(rows[0]...)
	for _, cells := range rows[1:] {
		cells[at] = short(plain.Line(cells[at]), max(left, leastError))
		if err := t.row(cells...); err != nil {
			return err
		}
	}
	return t.flush()
}

// rows are the cells, heads first, which column the error is in, and how wide it
// may be.
func (c groupColumns) rows(groups []deadletter.Group) (rows [][]string, at, left int) {
	rows = append(rows, c.row("COUNT", "HELD", "REASON", "TYPE", "ERROR", "VERSION", "FIRST (UTC)", "LAST (UTC)", "EXAMPLE"))
	now := time.Now()
	for i := range groups {
		g := &groups[i]
		reason, text := string(g.Reason), g.Text
		if g.Unreadable {
			reason = "no letter"
		}
		if g.Rest {
			reason, text = "others", fmt.Sprintf("in more than %d groups", deadletter.MaxGroups)
		}
		rows = append(rows, c.row(strconv.Itoa(g.Count), number(g.Held), reason, shortType(g.ErrorType), text, short(g.AppVersion, 12),
			brief(g.First, now), brief(g.Last, now), g.Example[:min(len(g.Example), exampleID)]))
	}
	at, left = slices.Index(rows[0], "ERROR"), groupsWidth
	for i := range rows[0] {
		wide := 0
		for _, cells := range rows {
			wide = max(wide, utf8.RuneCountInString(cells[i]))
		}
		if i != at {
			left -= wide + len("  ")
		}
	}
	return rows, at, left
}

// row is the cells of a row without those of columns that are left out.
func (c groupColumns) row(count, held, reason, typed, text, version, first, last, example string) []string {
	cells := []string{count}
	if c.held {
		cells = append(cells, held)
	}
	cells = append(cells, reason)
	if c.typed {
		cells = append(cells, typed)
	}
	cells = append(cells, text)
	if c.version {
		cells = append(cells, version)
	}
	return append(cells, first, last, example)
}

// shortType is the name of an error's type without where it is declared, as far
// as that is long: billing.RefusedError, CardRefusedException.
func shortType(name string) string {
	name, _, _ = strings.Cut(strings.TrimLeft(name, "*"), "[")
	name = name[strings.LastIndexByte(name, '/')+1:]
	if strings.Count(name, ".") > 1 {
		name = name[strings.LastIndexByte(name, '.')+1:]
	}
	return short(name, 24)
}

// brief is a time without its year, where that is this one, and its seconds.
func brief(t, now time.Time) string {
	switch t = t.UTC(); {
	case t.IsZero():
		return ""
	case t.Year() == now.UTC().Year():
		return t.Format("01-02 15:04")
	}
	return t.Format(time.DateOnly)
}
