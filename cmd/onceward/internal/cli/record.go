package cli

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/dedup"
)

// record is the commands about what the store knows of operations.
func (a *app) record() *cobra.Command {
	c := group("record", "See what is known of operations, and change it",
		a.recordGet(), a.recordList(), a.recordExport(), a.recordRerun(), a.recordUnlock(), a.recordDelete(), a.recordImport())
	c.Long = `See what is known of operations, and change it. An operation is what a message asks
for, named by a scope and a business id. Its record is in one of these states:

  in_progress  it runs; lapsed: its process has died, and the next delivery runs it
  retryable    it has failed, or was cut short, and is tried again
  in_doubt     nobody knows whether its effect happened: a person must decide
  succeeded    repeats of its message are answered, and do not run
  failed       for good; it has a dead letter
  tombstone    succeeded or failed, and archived: it answers repeats for ever`
	return c
}

func (a *app) recordGet() *cobra.Command {
	var f connection
	scope := ""
	c := &cobra.Command{
		Use: "get KEY", Short: "A business id, in all scopes, with its history", Args: cobra.ExactArgs(1),
		Example: "  onceward record get order-4711 --scope order.create",
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
	if dedup.ReservedScope(scope) && scope != dedup.LetterScope {
		return nil, usage("scopes that begin with \"onceward.\" are not those of operations; see pause and resume")
	}
	if scope != "" {
		records, err := dedup.Lookup(ctx, s.queue.Store, []dedup.Key{{Consumer: s.queue.Consumer, Scope: scope, ID: id}})
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
	if len(found) == 0 && scope == dedup.LetterScope && len(id) < wholeID {
		return nil, nothing("consumer %q has no record of the letter %q: here its whole ID of %d characters is needed, as onceward dlq show has it", s.queue.Consumer, id, wholeID)
	}
	if len(found) == 0 {
		in := ""
		if scope != "" {
			in = fmt.Sprintf(" in scope %q", scope)
		}
		return nil, s.doubt(ctx, nothing("consumer %q has no record of %q%s%s", s.queue.Consumer, id, in, s.idIn(id)))
	}
	slices.SortFunc(found, func(a, b dedup.Record) int { return strings.Compare(a.Key.Scope, b.Key.Scope) })
	return found, nil
}

// idIn says which business id somebody meant who gave the key as logs and records
// show it, with consumer and scope before it. There may be an id that looks so:
// it is said where that has not been found.
func (s *session) idIn(key string) string {
	rest, ours := strings.CutPrefix(key, s.queue.Consumer+"/")
	if scope, id, both := strings.Cut(rest, "/"); ours && both && id != "" {
		return fmt.Sprintf("; if that is a whole key, its business id is %q, in scope %q", id, scope)
	}
	return ""
}

// scan goes through records, and has a running consumer leave out those of
// other scopes and states; who calls it looks for itself besides.
func (s *session) scan(ctx context.Context, scope string, states []string) iter.Seq2[dedup.Record, error] {
	if s.via == nil {
		return s.queue.Store.Scan(ctx, s.queue.Consumer)
	}
	var wanted []dedup.State
	for _, r := range recordStates {
		if slices.Contains(states, r.String()) {
			wanted = append(wanted, r)
		}
	}
	return s.via.Records(ctx, scope, wanted...)
}

// one is the record of a key, for a change of it.
func (s *session) one(ctx context.Context, id, scope string) (*dedup.Record, error) {
	if scope == dedup.LetterScope {
		return nil, usage("the record of a letter follows the letter: see dlq open, discard and replay")
	}
	found, err := s.named(ctx, id, scope)
	if err != nil {
		return nil, err
	}
	if len(found) > 1 {
		var scopes []string
		for i := range found {
			scopes = append(scopes, found[i].Key.Scope)
		}
		return nil, usage("%q has records in several scopes, %s: give one with --scope", id, strings.Join(scopes, ", "))
	}
	return &found[0], nil
}
