package deadletter

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/dedup"
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

	// Text is Pattern with what is the same in all of them in the place of its
	// signs, and numbers of which there are at most three: "status 500|503".
	Text string

	Count       int
	Held        int       // of them, which wait for a person since their third run has failed
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
	groups := map[groupKey]*gathering{}
	var rest *gathering
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
		pattern, signs := blanks(text)
		k.text = pattern
		g := groups[k]
		switch {
		case g != nil:
		case len(groups) < MaxGroups:
			g = &gathering{Group: Group{Reason: k.reason, ErrorType: k.errorType, Pattern: k.text, AppVersion: k.made, Unreadable: k.unreadable}}
			groups[k] = g
		default:
			if rest == nil {
				rest = &gathering{Group: Group{Rest: true}}
			}
			g = rest
		}
		g.add(&e, text)
		if g != rest {
			g.fill(signs)
		}
	}
	all := make([]Group, 0, len(groups)+1)
	for _, g := range groups {
		g.Text = g.text()
		all = append(all, g.Group)
	}
	if rest != nil {
		all = append(all, rest.Group)
	}
	slices.SortFunc(all, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), b.Last.Compare(a.Last), cmp.Compare(a.Example, b.Example))
	})
	return all, nil
}

func (g *Group) add(e *Entry, text string) {
	g.Count++
	if e.State() == dedup.LetterHeld {
		g.Held++
	}
	if g.First.IsZero() || e.Stored.Before(g.First) {
		g.First = e.Stored
	}
	if g.Example == "" || !e.Stored.Before(g.Last) {
		g.Last, g.Example, g.Error = e.Stored, e.Letter.ID, text
	}
}

// gathering is a group while letters are added to it.
type gathering struct {
	Group

	filled []filled
}

// filled is what a sign of the pattern has stood for so far.
type filled struct {
	at     int
	values []string // nil where they are too many, or too long
}

const (
	maxValues = 3  // that a person still compares
	maxValue  = 64 // bytes
)

// fill notes what the signs stand for in one more letter.
func (g *gathering) fill(signs []blank) {
	if g.Count == 1 {
		g.filled = make([]filled, len(signs))
		for i, s := range signs {
			g.filled[i] = filled{at: s.at}
			if len(s.text) <= maxValue {
				g.filled[i].values = []string{strings.Clone(s.text)} // the rest of the text may go
			}
		}
		return
	}
	if !slices.EqualFunc(g.filled, signs, func(f filled, s blank) bool { return f.at == s.at }) {
		g.filled = nil // a text that has the sign itself
		return
	}
	for i, s := range signs {
		f := &g.filled[i]
		switch {
		case f.values == nil || slices.Contains(f.values, s.text):
		case len(f.values) == maxValues || len(s.text) > maxValue:
			f.values = nil
		default:
			f.values = append(f.values, strings.Clone(s.text))
		}
	}
}

// text is the pattern, with what its signs stand for where that is little.
func (g *gathering) text() string {
	var b strings.Builder
	rest, at := g.Pattern, 0
	for _, f := range g.filled {
		b.WriteString(rest[:f.at-at])
		rest, at = rest[f.at-at:], f.at
		sign := "#"
		if !strings.HasPrefix(rest, sign) {
			sign = "…"
		}
		rest, at = rest[len(sign):], at+len(sign)
		slices.Sort(f.values)
		if n := len(f.values); n == 1 || n > 1 && sign == "#" {
			sign = strings.Join(f.values, "|")
		}
		b.WriteString(sign)
	}
	return b.String() + rest
}
