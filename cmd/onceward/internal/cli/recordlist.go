package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/dedup"
)

// recordFilter is what the flags say of which records are meant.
type recordFilter struct {
	states       []string
	scope        string
	since, until string
	limit        int
}

var recordStates = []dedup.State{dedup.InProgress, dedup.Retryable, dedup.InDoubt, dedup.Succeeded, dedup.Failed, dedup.Tombstone}

func (f *recordFilter) flags(c *cobra.Command, limit int) {
	s := c.Flags()
	s.StringSliceVar(&f.states, "state", nil, "only records in this `STATE`; may be repeated:\n"+strings.Join(words(recordStates), ", "))
	s.StringVar(&f.scope, "scope", "", "only records of this `SCOPE`")
	s.StringVar(&f.since, "since", "", "only what was begun, or tried again, at this `TIME` or later: as in RFC 3339, a date, or an age such as 90m or 7d")
	s.StringVar(&f.until, "until", "", "only what was begun, or tried again, before this `TIME`")
	s.IntVar(&f.limit, "limit", limit, "at most `N` records, 0 for all")
	complete(c, "state", words(recordStates)...)
}

// read makes a function that says whether a record is meant.
func (f *recordFilter) read() (func(r *dedup.Record) bool, error) {
	for i, s := range f.states {
		s = strings.ReplaceAll(s, "-", "_") // as in the reason in-doubt
		f.states[i] = s
		if !slices.Contains(words(recordStates), s) {
			return nil, usage("--state must be one of %s", strings.Join(words(recordStates), ", "))
		}
	}
	since, err := moment(f.since)
	if err != nil {
		return nil, usage("--since %w", err)
	}
	until, err := moment(f.until)
	if err != nil {
		return nil, usage("--until %w", err)
	}
	return func(r *dedup.Record) bool {
		at := latest(r.Claimed, r.Created)
		return !dedup.ReservedScope(r.Key.Scope) && (f.scope == "" || f.scope == r.Key.Scope) &&
			(len(f.states) == 0 || slices.Contains(f.states, r.State.String())) &&
			!at.Before(since) && (until.IsZero() || at.Before(until))
	}, nil
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (a *app) recordList() *cobra.Command {
	t := (*table)(nil)
	return a.records("list", "Records, one a line, in no order", "  onceward record list --state in_doubt", defaultLimit, func(r *dedup.Record) error {
		if a.json {
			return a.object(recordShown(r))
		}
		if t == nil {
			t = a.table("CLAIMED", "STATE", "RUN", "FAILURES", "SCOPE", "KEY", "ERROR").least(20, 11, 3, 8, 12, 12)
		}
		state := r.State.String()
		if r.State == dedup.InProgress && !r.Live {
			state = "lapsed"
		}
		return t.row(when(r.Claimed), state, number(int(r.Run)), number(int(r.Failures)), short(r.Key.Scope, 24), short(r.Key.ID, 40), short(r.Error, 60))
	}, func() error {
		if t == nil {
			return nil
		}
		return t.flush()
	})
}

func (a *app) recordExport() *cobra.Command {
	return a.records("export", "Records as JSON Lines", "  onceward record export --scope order.create > records.jsonl", 0, func(r *dedup.Record) error { return a.object(recordShown(r)) }, func() error { return nil })
}

// records is a command that goes through records; end writes what each has held
// back.
func (a *app) records(use, about, example string, limit int, each func(*dedup.Record) error, end func() error) *cobra.Command {
	var f connection
	var want recordFilter
	c := &cobra.Command{
		Use: use, Short: about, Example: example, Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			meant, err := want.read()
			if err != nil {
				return err
			}
			return a.with(c.Context(), &f, needs{store: true}, func(ctx context.Context, s *session) error {
				p := a.progress()
				read, found, more := 0, 0, false
				for r, err := range s.scan(ctx, want.scope, want.states) {
					if err != nil {
						return err
					}
					read++
					p.tell("%d records read, %d found", read, found)
					if !meant(&r) {
						continue
					}
					if want.limit > 0 && found == want.limit {
						more = true
						break
					}
					found++
					if err := each(&r); err != nil {
						return err
					}
				}
				if found == 0 {
					return s.doubt(ctx, nothing("no record of consumer %q matches", s.queue.Consumer))
				}
				if err := end(); err != nil {
					return err
				}
				if more {
					a.say("there are more: --limit 0 lists all, --state and others choose")
				}
				return nil
			})
		},
	}
	f.flags(c, false)
	want.flags(c, limit)
	return c
}
