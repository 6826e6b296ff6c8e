package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/deadletter"
)

// dlq is the commands about dead letters.
func (a *app) dlq() *cobra.Command {
	c := group("dlq", "See dead letters, and work them off",
		a.groups(), a.list(), a.show(), a.export(), a.resolve(), a.discard(), a.reopen(),
		meaning(group("replay", "Send letters back: plan, apply, status", a.plan(), a.apply(), a.status()), "retry", "redrive", "resend", "requeue"))
	c.Long = `See dead letters, and work them off. A letter is a message that was given up, for
one of these reasons:

  terminal     its handler has refused it for good
  exhausted    its failures are used up
  crash-loop   it kills the process that runs it
  decode, key  it cannot be read; it has no usable business id, or no route
  conflict     its business id was used before, with other content
  too-old      it came again when its record had expired
  in-doubt     nobody knows whether its effect happened

and in one of these states:

  open         nobody has dealt with it
  sent         a plan has sent a copy of it, which is not answered yet
  held         it has failed for the third time: a person must look before it is sent
  resolved     its copy was answered, or nothing was left to be done
  discarded    a person has given it up
  gone         its topic's retention has removed it
  none         forgotten: the window is over, and nobody can tell what became of it`
	return c
}

// list is letters, one a line.
func (a *app) list() *cobra.Command {
	var f connection
	var want filter
	c := &cobra.Command{
		Use: "list [ID…]", Short: "Letters, one a line", Long: "Letters, one a line, as they lie in their topic: the oldest first, on Kafka\npartition after partition.\n\n" + prefixHelp,
		Example: "  onceward dlq list --reason terminal --since 2h",
		RunE: func(c *cobra.Command, ids []string) error {
			filter, err := want.read(ids)
			if err != nil {
				return err
			}
			return a.with(c.Context(), &f, needs{letters: true}, func(ctx context.Context, s *session) error {
				if filter.IDs, err = s.whole(ctx, ids); err != nil {
					return err
				}
				return a.showLetters(ctx, s, filter)
			})
		},
	}
	f.flags(c, true)
	want.flags(c, defaultLimit)
	return meaning(c, "ls", "get")
}

// defaultLimit is a page that a person still reads.
const defaultLimit = 100

func (a *app) showLetters(ctx context.Context, s *session, f deadletter.Filter) error {
	limit, asked := f.Limit, newNamed(f.IDs)
	if limit > 0 {
		f.Limit++ // whether there are more
	}
	defer a.count(&f)()
	p := a.progress()
	found, more := 0, false
	f.Progress = func(read int) { p.tell("%d letters read, %d found", read, found) }
	t := a.table("STORED", "STATE", "REASON", "SCOPE", "KEY", "ID", "ERROR").least(20, 9, 10, 12, 12, 32)
	for e, err := range s.queue.Letters(ctx, f) {
		if err != nil {
			return err
		}
		if limit > 0 && found == limit {
			more, asked = true, nil
			break
		}
		found++
		asked.see(e.Letter.ID)
		if a.json {
			if err := a.object(s.shown(&e)); err != nil {
				return err
			}
			continue
		}
		text := e.Letter.Error
		if e.Err != nil {
			text = e.Err.Error()
		}
		err := t.row(when(e.Stored), stateWord(e.State(), &e.Note), string(e.Letter.Reason), short(e.Letter.Key.Scope, 24), short(e.Letter.Key.ID, 36), e.Letter.ID, short(text, 60))
		if err != nil {
			return err
		}
	}
	if found == 0 {
		_ = a.sayMissing(asked) // nothing at all is more than in part
		return a.noLetter(ctx, s, &f, nothing("no letter in %s matches", s.queue.Topic))
	}
	if !a.json {
		if err := t.flush(); err != nil {
			return err
		}
	}
	if more {
		a.say("there are more: --limit 0 lists all, --since and others choose")
	}
	return a.sayMissing(asked)
}
