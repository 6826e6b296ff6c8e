package deadletter

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// Group is letters that died of the same: of one reason, with one type of
// error, one [Pattern] of its text, in one version of the program.
type Group struct {
	Reason     Reason
	ErrorType  string
	Pattern    string // of the error's text
	AppVersion string
	// Unreadable says that these messages are no readable letters; Pattern is
	// of what is wrong with them.
	Unreadable bool
	// Rest is the one group of all that found no place among the first
	// [MaxGroups].
	Rest bool

	Count       int
	First, Last time.Time // when the dead-letter topic stored them
	// Example is the dl-id of the newest of them, and Error what it says.
	Example string
	Error   string
}

// MaxGroups is how many groups are told apart. Where there are more, texts
// differ in a way that [Pattern] does not see, and a list of them helps nobody.
const MaxGroups = 10_000

type groupKey struct {
	reason                Reason
	errorType, text, made string
	unreadable            bool
}

// Groups sorts the letters that f means by what they died of, the largest group
// first. It reads through the topic once, and keeps some 40 bytes for each
// letter besides the groups.
//
// Errors: those of [Queue.Letters].
func (q *Queue) Groups(ctx context.Context, f Filter) ([]Group, error) {
	groups := map[groupKey]*Group{}
	var rest *Group
	for e, err := range q.Letters(ctx, f) {
		if err != nil {
			return nil, err
		}
		l := &e.Letter
		text := l.Error
		k := groupKey{reason: l.Reason, errorType: l.ErrorType, made: l.AppVersion}
		if e.Err != nil {
			text, k.unreadable = line(e.Err.Error(), MaxError), true
		}
		k.text = Pattern(text)
		g := groups[k]
		switch {
		case g != nil:
		case len(groups) < MaxGroups:
			g = &Group{Reason: k.reason, ErrorType: k.errorType, Pattern: k.text, AppVersion: k.made, Unreadable: k.unreadable}
			groups[k] = g
		default:
			if rest == nil {
				rest = &Group{Rest: true}
			}
			g = rest
		}
		g.add(&e, text)
	}
	all := make([]Group, 0, len(groups)+1)
	for _, g := range groups {
		all = append(all, *g)
	}
	if rest != nil {
		all = append(all, *rest)
	}
	slices.SortFunc(all, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), b.Last.Compare(a.Last), cmp.Compare(a.Example, b.Example))
	})
	return all, nil
}

func (g *Group) add(e *Entry, text string) {
	g.Count++
	if g.First.IsZero() || e.Stored.Before(g.First) {
		g.First = e.Stored
	}
	if g.Example == "" || !e.Stored.Before(g.Last) {
		g.Last, g.Example, g.Error = e.Stored, e.Letter.ID, text
	}
}
