package cli

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/cmd/onceward/internal/via"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/internal/adminapi"
)

// record is the commands about what the store knows of operations.
func (a *app) record() *cobra.Command {
	return group("record", "See what is known of operations, and change it",
		a.recordGet(), a.recordList(), a.recordExport(), a.recordRerun(), a.recordUnlock(), a.recordDelete(), a.recordImport())
}

// recordSeen is an operation as record get has it.
type recordSeen struct {
	Record *adminapi.Record `json:"record"`
	// Letters of its key that the store has notes of.
	Letters []*adminapi.Letter `json:"letters,omitzero"`
}

func (a *app) recordGet() *cobra.Command {
	var f connection
	scope := ""
	c := &cobra.Command{
		Use: "get KEY", Short: "A business id, in all scopes, with its history", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.with(c.Context(), &f, needs{store: true}, func(ctx context.Context, s *session) error {
				records, err := s.named(ctx, args[0], scope)
				if err != nil {
					return err
				}
				letters := map[dedup.Key][]dedup.Letter{}
				for l, err := range s.queue.Store.ScanLetters(ctx, s.queue.Consumer) {
					if err != nil {
						return err
					}
					if l.Key.ID == args[0] {
						letters[l.Key] = append(letters[l.Key], l)
					}
				}
				for i := range records {
					if err := a.showRecord(&records[i], letters[records[i].Key]); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	f.flags(c, false)
	c.Flags().StringVar(&scope, "scope", "", "only in this `SCOPE`; it saves going through all records")
	return c
}

// named are the records of a business id: of one scope, or of all.
func (s *session) named(ctx context.Context, id, scope string) ([]dedup.Record, error) {
	var found []dedup.Record
	if dedup.ReservedScope(scope) {
		return nil, usage("scopes that begin with \"onceward.\" are not those of operations; see pause and resume")
	}
	if scope != "" {
		records, err := s.queue.Store.Lookup(ctx, []dedup.Key{{Consumer: s.queue.Consumer, Scope: scope, ID: id}})
		if err != nil {
			return nil, err
		}
		found = slices.DeleteFunc(records, func(r dedup.Record) bool { return r.State == dedup.Absent })
	} else {
		for r, err := range s.scan(ctx, "", nil) {
			if err != nil {
				return nil, err
			}
			if r.Key.ID == id && !dedup.ReservedScope(r.Key.Scope) {
				found = append(found, r)
			}
		}
	}
	if len(found) == 0 {
		return nil, nothing("consumer %q has no record of %q", s.queue.Consumer, id)
	}
	slices.SortFunc(found, func(a, b dedup.Record) int { return strings.Compare(a.Key.Scope, b.Key.Scope) })
	return found, nil
}

// scan goes through records, and has a running consumer leave out those of
// other scopes and states; who calls it looks for itself besides.
func (s *session) scan(ctx context.Context, scope string, states []string) iter.Seq2[dedup.Record, error] {
	if s.via == nil {
		return s.queue.Store.Scan(ctx, s.queue.Consumer)
	}
	f := via.Filter{Scope: scope}
	for _, r := range recordStates {
		if slices.Contains(states, r.String()) {
			f.States = append(f.States, r)
		}
	}
	return s.via.Records(ctx, f)
}

// one is the record of a key, for a change of it.
func (s *session) one(ctx context.Context, id, scope string) (*dedup.Record, error) {
	found, err := s.named(ctx, id, scope)
	if err != nil {
		return nil, err
	}
	if len(found) > 1 {
		var scopes []string
		for i := range found {
			scopes = append(scopes, found[i].Key.Scope)
		}
		return nil, usage("%q has records in several scopes: --scope %s", id, strings.Join(scopes, ", "))
	}
	return &found[0], nil
}

func (a *app) showRecord(r *dedup.Record, letters []dedup.Letter) error {
	slices.SortFunc(letters, func(a, b dedup.Letter) int { return a.Noted.Compare(b.Noted) })
	if a.json {
		out := recordSeen{Record: recordShown(r)}
		for i := range letters {
			l := letters[i]
			l.Token = ""
			out.Letters = append(out.Letters, adminapi.OfLetter(&l))
		}
		return a.object(out)
	}
	fmt.Fprintln(a.out, "record")
	if err := a.recordFacts(r); err != nil {
		return err
	}
	if len(letters) == 0 {
		return nil
	}
	fmt.Fprintln(a.out, "\nletters")
	t := a.table("NOTED", "STATE", "REASON", "RUN", "WHO", "WHY", "ID")
	for _, l := range letters {
		if err := t.row(when(l.Noted), l.State.String(), l.Reason, number(int(l.Run)), l.Who, short(l.Why, 60), l.ID); err != nil {
			return err
		}
	}
	return t.flush()
}

// recordFacts is a record for people.
func (a *app) recordFacts(r *dedup.Record) error {
	f := a.facts()
	f.add("  key", r.Key.String())
	f.add("  state", recordState(r))
	f.add("  run", number(int(r.Run)))
	f.add("  failures", number(int(r.Failures)))
	f.add("  crashes", number(int(r.Crashes)))
	f.add("  reason", r.Reason)
	f.add("  error", r.Error)
	f.add("  error type", r.ErrorType)
	f.add("  first failed", when(r.FirstFailed))
	f.add("  last failed", when(r.LastFailed))
	f.add("  created", when(r.Created))
	f.add("  claimed", when(r.Claimed))
	f.add("  finished", when(r.Finished))
	if r.State == dedup.Retryable {
		f.add("  not before", when(r.NotBefore))
	}
	if r.Source != (dedup.Position{}) {
		f.add("  source", fmt.Sprintf("%s/%d, offset %d", r.Source.Source, r.Source.Partition, r.Source.Offset))
	}
	if r.Window > 0 {
		f.add("  window", r.Window.String())
	}
	if r.Digest {
		f.add("  result", fmt.Sprintf("larger than what is kept, SHA-256 %x", r.Result))
	} else if r.Result != nil {
		f.add("  result", bytesText(r.Result))
	}
	for _, i := range r.Intents {
		f.add("  effect "+i.Effect, intentText(&i))
	}
	if r.Job != "" {
		text := "job " + r.Job
		if r.Letter != "" {
			text += ", letter " + r.Letter
		}
		f.add("  opened by", fmt.Sprintf("%s, by %s: %s", text, r.Approver, r.Why))
	} else if r.Approver != "" {
		f.add("  changed by", r.Approver+": "+r.Why)
	}
	for _, e := range r.Evidence {
		f.add("  late write", fmt.Sprintf("%s, %s %s by a superseded owner: %s (it may have run twice)", when(e.At), e.Kind, e.Outcome, e.Note))
	}
	return f.flush()
}

func recordState(r *dedup.Record) string {
	text := r.State.String()
	switch {
	case r.State == dedup.InProgress && r.Live:
		text += ", running until " + when(r.LeaseUntil) + " at least"
	case r.State == dedup.InProgress:
		text += ", its owner is gone: the next delivery takes it over"
	case r.State == dedup.Tombstone:
		text += ", as " + r.Outcome.String()
	}
	if r.Owed {
		text += ", its letter is not confirmed yet"
	}
	return text
}

func intentText(i *dedup.Intent) string {
	switch i.Status {
	case dedup.Confirmed:
		return "confirmed: " + i.External
	case dedup.Dispatched:
		return "in doubt since " + when(i.Dispatched)
	}
	return "did not happen"
}

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
	s.StringSliceVar(&f.states, "state", nil, "only records in this `STATE`; may be repeated")
	s.StringVar(&f.scope, "scope", "", "only records of this `SCOPE`")
	s.StringVar(&f.since, "since", "", "only what was claimed at this `TIME` or later: as in RFC 3339, a date, or an age such as 90m or 7d")
	s.StringVar(&f.until, "until", "", "only what was claimed before this `TIME`")
	s.IntVar(&f.limit, "limit", limit, "at most `N` records, 0 for all")
	complete(c, "state", words(recordStates)...)
}

// read makes a function that says whether a record is meant.
func (f *recordFilter) read() (func(r *dedup.Record) bool, error) {
	for _, s := range f.states {
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
	c := a.records("list", "Records, one a line, in no order", defaultLimit, func(r *dedup.Record) error {
		if a.json {
			return a.object(recordShown(r))
		}
		if t == nil {
			t = a.table("CLAIMED", "STATE", "RUN", "FAILURES", "SCOPE", "KEY", "ERROR")
		}
		state := r.State.String()
		if r.State == dedup.InProgress && !r.Live {
			state = "lapsed"
		}
		return t.row(when(r.Claimed), state, number(int(r.Run)), number(int(r.Failures)), short(r.Key.Scope, 24), short(r.Key.ID, 40), short(r.Error, 60))
	})
	list := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		err := list(c, args)
		if t != nil && err == nil {
			err = t.flush()
		}
		return err
	}
	return c
}

func (a *app) recordExport() *cobra.Command {
	return a.records("export", "Records as JSON Lines", 0, func(r *dedup.Record) error { return a.object(recordShown(r)) })
}

// records is a command that goes through records.
func (a *app) records(use, about string, limit int, each func(*dedup.Record) error) *cobra.Command {
	var f connection
	var want recordFilter
	c := &cobra.Command{
		Use: use, Short: about, Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			meant, err := want.read()
			if err != nil {
				return err
			}
			return a.with(c.Context(), &f, needs{store: true}, func(ctx context.Context, s *session) error {
				p := a.progress()
				read, found := 0, 0
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
						a.say("there are more: --limit 0 lists all, --state and others choose")
						break
					}
					found++
					if err := each(&r); err != nil {
						return err
					}
				}
				if found == 0 {
					return nothing("no record of consumer %q matches", s.queue.Consumer)
				}
				return nil
			})
		},
	}
	f.flags(c, false)
	want.flags(c, limit)
	return c
}
