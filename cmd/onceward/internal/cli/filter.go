package cli

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
)

// filter is what the flags say of which letters are meant.
type filter struct {
	reasons, states []string
	key, errors     string
	since, until    string
	limit           int
}

var letterStates = []dedup.LetterState{
	dedup.LetterOpen, dedup.LetterSent, dedup.LetterHeld, dedup.LetterResolved, dedup.LetterDiscarded, dedup.LetterGone, dedup.LetterNone,
}

func (f *filter) flags(c *cobra.Command, limit int) {
	s := pflag.NewFlagSet("", pflag.ContinueOnError)
	s.StringSliceVar(&f.reasons, "reason", nil, "only letters with this `REASON`; may be repeated:\n"+strings.Join(words(deadletter.Reasons()), ", "))
	s.StringSliceVar(&f.states, "state", nil, "only letters in this `STATE`; may be repeated (default: open, sent and held, and none where an ID is given):\n"+strings.Join(words(letterStates), ", ")+", all")
	s.StringVar(&f.key, "key", "", "only letters of this business `ID`")
	s.StringVar(&f.errors, "error", "", "only letters whose error text matches this regular `EXPRESSION`")
	s.StringVar(&f.since, "since", "", "only letters of this `TIME` or later: as in RFC 3339, a date, or an age such as 90m or 7d")
	s.StringVar(&f.until, "until", "", "only letters before this `TIME`")
	s.IntVar(&f.limit, "limit", limit, "at most `N` letters, 0 for all")
	addGroup(c, groupLetters, s)
	complete(c, "reason", words(deadletter.Reasons())...)
	complete(c, "state", append(words(letterStates), "all")...)
}

// given says whether a flag says which letters are meant.
func (f *filter) given(c *cobra.Command) bool {
	return slices.ContainsFunc([]string{"reason", "state", "key", "error", "since", "until", "limit"}, c.Flags().Changed)
}

func (f *filter) read(ids []string) (deadletter.Filter, error) {
	out := deadletter.Filter{IDs: ids, Key: f.key, Limit: f.limit}
	if err := longEnough(ids); err != nil {
		return out, err
	}
	for _, text := range f.reasons {
		r := deadletter.Reason(text)
		if !r.Valid() {
			return out, usage("--reason must be one of %s", strings.Join(words(deadletter.Reasons()), ", "))
		}
		out.Reasons = append(out.Reasons, r)
	}
	for _, text := range f.states {
		at := slices.Index(words(letterStates), text)
		switch {
		case text == "all":
			out.States = append(out.States, letterStates...)
		case at < 0:
			return out, usage("--state must be all or one of %s", strings.Join(words(letterStates), ", "))
		default:
			out.States = append(out.States, letterStates[at])
		}
	}
	var err error
	if f.errors != "" {
		if out.Error, err = regexp.Compile(f.errors); err != nil {
			return out, usage("--error: %w", err)
		}
	}
	if out.Since, err = moment(f.since); err != nil {
		return out, usage("--since %w", err)
	}
	if out.Until, err = moment(f.until); err != nil {
		return out, usage("--until %w", err)
	}
	if !out.Since.IsZero() && !out.Until.IsZero() && !out.Since.Before(out.Until) {
		return out, usage("--since %s is not before --until %s: that means no letter", when(out.Since), when(out.Until))
	}
	return out, nil
}

// count sets what f means without --state, and has it count what it leaves out
// since it is forgotten. Who names a letter means it also then. The function that
// is returned tells of the others.
func (a *app) count(f *deadletter.Filter) (tell func()) {
	n := 0
	switch {
	case len(f.States) > 0:
	case len(f.IDs) > 0:
		f.States = []dedup.LetterState{dedup.LetterOpen, dedup.LetterSent, dedup.LetterHeld, dedup.LetterNone}
	default:
		f.LeftOut = func(s dedup.LetterState) {
			if s == dedup.LetterNone {
				n++
			}
		}
	}
	return func() {
		if n > 0 {
			a.say("left out: %s of which nobody can tell what became, since the window is over (--state none)", counted(n, "letter"))
		}
	}
}

// words are the names of values, as flags and JSON have them.
func words[T any](values []T) []string {
	names := make([]string, len(values))
	for i, v := range values {
		switch v := any(v).(type) {
		case interface{ String() string }:
			names[i] = v.String()
		case deadletter.Reason:
			names[i] = string(v)
		case deadletter.Envelope:
			names[i] = string(v)
		}
	}
	return names
}

// complete offers values of a flag to the shell.
func complete(c *cobra.Command, flag string, values ...string) {
	if err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag is defined a line before
	}
}

// moment reads a time: RFC 3339, a date (UTC), or how long ago.
func moment(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateTime, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), nil
		}
	}
	ago, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok && err != nil {
		var n float64
		if n, err = strconv.ParseFloat(days, 64); err == nil && n < 36_500 {
			ago = time.Duration(n * 24 * float64(time.Hour))
		}
	}
	if err != nil || ago < 0 || ago == 0 && text != "0" && text != "0s" {
		return time.Time{}, errors.New("must be a time as 2026-03-01T10:00:00Z, a date, or an age such as 90m or 7d")
	}
	return time.Now().Add(-ago).UTC(), nil
}
