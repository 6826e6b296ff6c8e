package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/dedup"
)

// recordImport marks operations as done that were done elsewhere.
func (a *app) recordImport() *cobra.Command {
	var f connection
	var in importing
	c := &cobra.Command{
		Use:   "import [FILE | -] --reason TEXT",
		Short: "Mark operations as done that were done before this consumer: for cutting over",
		Long: `Mark operations as done that were done elsewhere, so that a repeat of their
messages is a duplicate here.

A file, or stdin as -, has a JSON object a line: {"scope":…,"id":…,"at":…}. The
scope may be left out with --scope. The time when it was done, at, is optional, and
shortens how long it is remembered. Lines of "record export" are taken, too, also
those of another consumer; of them, what has not succeeded is left out.

From Redis come the ids of keys that match a pattern such as done:order:*, namely
what stands for the star.

What has a record already is left as it is, so that it can be called again. Exit
status 4 where such a record says that its operation has not succeeded.`,
		Example: `  onceward record import done.jsonl --scope order.create --reason 'cut over'
  onceward record import --redis redis://127.0.0.1:6379/0 --pattern 'done:order:*' --scope order.create --reason 'cut over'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := in.check(args); err != nil {
				return err
			}
			if err := a.confirm("Mark operations as done? Their messages will not be handled."); err != nil {
				return err
			}
			return a.with(c.Context(), &f, needs{store: true, writes: true}, func(ctx context.Context, s *session) error {
				done, err := in.open(ctx, a, args)
				if err != nil {
					return err
				}
				return a.importAll(ctx, s, &in, done)
			})
		},
	}
	f.flags(c, false)
	a.flagYes(c)
	s := c.Flags()
	f.flagCreate(s, ", before the consumer's first start")
	s.StringVar(&in.scope, "scope", "", "`SCOPE` of what does not say its own")
	s.StringVar(&in.why, "reason", "", "`why`; kept with each record")
	s.DurationVar(&in.window, "window", 0, "`time` that they are remembered, from when they were done (default: what the consumer says, or 336h)")
	s.StringVar(&in.redis, "redis", "", "`URL` of a Redis server instead of a file: redis://[USER:PASSWORD@]HOST:PORT/DB (default $ONCEWARD_REDIS)")
	s.StringVar(&in.pattern, "pattern", "", "`PATTERN` of the keys in Redis, with one *, which stands for the id")
	return c
}

// importing is what the flags say of an import.
type importing struct {
	scope, why, redis, pattern string
	window                     time.Duration
}

func (in *importing) check(args []string) error {
	if err := checkReason(in.why); err != nil {
		return err
	}
	fromRedis := in.pattern != "" || in.redis != ""
	switch {
	case fromRedis == (len(args) == 1):
		return usage("give a FILE, or --redis and --pattern")
	case fromRedis && (strings.Count(in.pattern, "*") != 1 || strings.ContainsAny(in.pattern, `?[\`)):
		return usage("--pattern must have one *, which stands for the id, and no other wildcard")
	case fromRedis && in.scope == "":
		return usage("ids from Redis need a --scope")
	}
	return nil
}

// imported is what an import came to, as --json has it.
type imported struct {
	Read     int    `json:"read"`
	Imported int    `json:"imported"`
	Known    int    `json:"known"`                   // that have a record already
	Undone   int    `json:"known_not_done,omitzero"` // of those, by which they have not succeeded
	Expired  int    `json:"expired"`                 // done longer ago than the window
	NotDone  int    `json:"not_done,omitzero"`       // by their exported records
	Stopped  string `json:"stopped,omitzero"`
}

const importBatch = 500 // a commit is paid once for all of them

func (a *app) importAll(ctx context.Context, s *session, in *importing, all iter.Seq2[doneBefore, error]) error {
	window := in.window
	if window == 0 {
		window = s.window()
	}
	var out imported
	var batch []dedup.Op
	told := a.progress()
	flush := func() error {
		err := s.importBatch(ctx, batch, &out)
		batch = batch[:0]
		told.tell("%d read, %d imported", out.Read, out.Imported)
		return err
	}
	now, novel := time.Now(), a.novel(s)
	run := func() error {
		for d, err := range all {
			if err != nil {
				return errors.Join(flush(), err)
			}
			out.Read++
			if d.Scope == "" {
				d.Scope = in.scope
			}
			if d.notDone {
				out.NotDone++
				continue
			}
			key := dedup.Key{Consumer: s.queue.Consumer, Scope: d.Scope, ID: d.ID}
			if err := importable(key); err != nil {
				return errors.Join(flush(), faulty{fmt.Errorf("%s %w", d.place(out.Read), err)})
			}
			novel(d.Scope)
			left := remembered(window, now, d.At)
			if left <= 0 {
				out.Expired++
				continue
			}
			batch = append(batch, dedup.Op{Kind: dedup.Import, Key: key, Operator: &dedup.OperatorOp{Who: s.who, Why: in.why, Window: left}})
			if len(batch) == importBatch {
				if err := flush(); err != nil {
					return err
				}
			}
		}
		return flush()
	}
	err := run()
	if err != nil {
		out.Stopped = err.Error()
	}
	if a.json {
		if err := a.object(out); err != nil {
			return err
		}
	} else {
		notDone := ""
		if out.NotDone > 0 {
			notDone = fmt.Sprintf(", %d not done by their records", out.NotDone)
		}
		a.say("%d read: %d imported, %d had a record already, %d done longer ago than is remembered%s", out.Read, out.Imported, out.Known, out.Expired, notDone)
	}
	_, stops := errors.AsType[faulty](err)
	switch {
	case stops && out.Imported > 0:
		return partly("%w; what is before it is imported, and is left as it is when it is called again", err)
	case err != nil && out.Imported > 0:
		return partly("%w; called again, it goes on", err)
	case err != nil:
		return err
	case out.Read == 0:
		return nothing("there was no operation to import")
	case out.Undone > 0:
		return partly("%d of those that had a record have not succeeded by it, and may run yet: onceward record list --state failed,retryable,in_doubt,in_progress shows such, onceward dlq resolve ends their letters", out.Undone)
	}
	return nil
}

// novel tells of scopes that a running consumer has no route of, each once and ten
// at most: what is imported there answers no message, and each runs again.
func (a *app) novel(s *session) func(scope string) {
	if s.info == nil {
		return func(string) {}
	}
	seen := s.routeScopes()
	most := len(seen) + 10
	return func(scope string) {
		if len(seen) < most && !slices.Contains(seen, scope) {
			seen = append(seen, scope)
			a.say("careful: consumer %s has no scope %q; what is imported there answers none of its messages", s.queue.Consumer, scope)
		}
	}
}

// importable says why a key is no operation's.
func importable(k dedup.Key) error {
	switch {
	case k.Scope == "":
		return errors.New("has no scope: give --scope")
	case k.ID == "":
		return errors.New("has no id: " + wantedLine)
	case dedup.ReservedScope(k.Scope):
		return fmt.Errorf("has the scope %q, and those that begin with \"onceward.\" are not those of operations", k.Scope)
	}
	if err := k.Validate(); err != nil {
		return fmt.Errorf("has a key that cannot be one: %w", err)
	}
	return nil
}

// remembered is how long an operation is remembered from now on. In whole days:
// the store keeps what expires together together.
func remembered(window time.Duration, now, at time.Time) time.Duration {
	const day = 24 * time.Hour
	if at.IsZero() || !at.Before(now) {
		return window
	}
	left := window - now.Sub(at)
	if left <= 0 {
		return 0
	}
	return min((left + day - 1).Truncate(day), window)
}

// importBatch imports some operations. One that was known and forgotten has a
// fence left, which the store tells: it is tried again with that.
func (s *session) importBatch(ctx context.Context, ops []dedup.Op, out *imported) error {
	for try := 0; len(ops) > 0; try++ {
		answers, err := dedup.Apply(ctx, s.queue.Store, ops)
		if err != nil {
			return err
		}
		var again []dedup.Op
		for i, answer := range answers {
			switch {
			case answer.Err != nil:
				return fmt.Errorf("%v: %w", ops[i].Key, answer.Err)
			case answer.Kind == dedup.Done:
				out.Imported++
			case answer.State == dedup.Absent && try == 0:
				op := ops[i]
				operator := *op.Operator
				operator.Seen = dedup.Seen{Fence: answer.Fence, Run: answer.Run}
				op.Operator = &operator
				again = append(again, op)
			default:
				out.Known++
				if answer.State != dedup.Succeeded && answer.State != dedup.Tombstone {
					out.Undone++
				}
			}
		}
		ops = again
	}
	return nil
}
