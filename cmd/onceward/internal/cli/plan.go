package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/deadletter"
)

// planning is what the flags say of a plan.
type planning struct {
	file, to, why string
	expiresIn     time.Duration
	acceptExpired bool
	approve       []string
}

func (p *planning) flags(c *cobra.Command) {
	s := c.Flags()
	s.StringVarP(&p.file, "output", "o", "", "`FILE` to write the plan to; - is stdout")
	s.StringVar(&p.why, "why", "", "`why` these letters are sent; kept with each of them")
	s.StringVar(&p.to, "to", string(deadletter.ToRetry), "`where` copies go: retry, which only this consumer reads, or source")
	s.DurationVar(&p.expiresIn, "expires-in", 24*time.Hour, "`time` during which the plan may be applied")
	complete(c, "to", string(deadletter.ToRetry), string(deadletter.ToSource))
}

func (p *planning) read() error {
	switch {
	case p.file == "":
		return usage("where to write the plan? -o FILE")
	case !deadletter.Target(p.to).Valid():
		return usage("--to must be retry or source")
	case p.expiresIn < time.Minute || p.expiresIn > 30*24*time.Hour:
		return usage("--expires-in must be 1m to 720h, not %v", p.expiresIn)
	case p.acceptExpired && p.why == "":
		return usage("--accept-expired needs a reason: --why TEXT")
	case longEnough(p.approve) != nil:
		return longEnough(p.approve)
	case len(p.approve) > 0 && p.why == "":
		return usage("--approve needs a reason: --why TEXT")
	}
	return nil
}

// plan decides what to do about each letter, and writes it down.
func (a *app) plan() *cobra.Command {
	var f connection
	var want filter
	var p planning
	c := &cobra.Command{
		Use: "plan [ID…] -o FILE", Short: "Decide about each letter, and freeze it in a file; nothing is changed",
		Long:    "Decide about each letter, and freeze it in a file; nothing is changed.\n\n" + prefixHelp,
		Example: "  onceward dlq replay plan --error 'connection refused' -o plan.jsonl",
		RunE: func(c *cobra.Command, ids []string) error {
			filter, err := want.read(ids)
			if err == nil {
				err = p.read()
			}
			if err != nil {
				return err
			}
			return a.with(c.Context(), &f, needs{letters: true, store: true}, func(ctx context.Context, s *session) error {
				if filter.IDs, err = s.whole(ctx, ids); err != nil {
					return err
				}
				if p.approve, err = s.whole(ctx, p.approve); err != nil {
					return err
				}
				asked := newNamed(filter.IDs, p.approve)
				if !want.given(c) { // who names letters means these
					filter.IDs = slices.Concat(filter.IDs, p.approve)
				}
				defer a.count(&filter)()
				told := a.progress()
				filter.Progress = func(read int) { told.tell("%d letters read", read) }
				sel := deadletter.Selection{
					Filter: filter, To: deadletter.Target(p.to), Who: s.who, Why: p.why, ExpiresIn: p.expiresIn, Approved: p.approve,
					Reading: f.rule(s),
				}
				if p.acceptExpired {
					sel.AcceptExpired = p.why
				}
				err := a.writePlanOf(p.file, asked, func(w io.Writer) (deadletter.Plan, error) { return s.queue.Plan(ctx, sel, w) })
				if code(err) == Nothing {
					return a.noLetter(ctx, s, &filter, err)
				}
				return err
			})
		},
	}
	f.flags(c, true)
	want.flags(c, 0)
	p.flags(c)
	c.Flags().Lookup("why").Usage += " (--reason chooses letters)"
	c.Flags().BoolVar(&p.acceptExpired, "accept-expired", false, "send letters also that are older than the window and have no record: they may have been done, and forgotten")
	c.Flags().StringSliceVar(&p.approve, "approve", nil, "send the letter with this `ID`, which you have looked at, though it is held or in doubt, or its content has changed; may be repeated\n(with no flag that says which letters, the plan is of these alone)")
	return c
}

var errEmptyPlan = errors.New("no letter")

// writePlan writes a plan to a file that is there only when it is whole, and
// says what it comes to.
func (a *app) writePlan(file string, write func(io.Writer) (deadletter.Plan, error)) error {
	return a.writePlanOf(file, nil, write)
}

// writePlanOf also says which of the letters that were asked for it does not have.
func (a *app) writePlanOf(file string, asked named, write func(io.Writer) (deadletter.Plan, error)) error {
	out := planShown{File: file}
	lines := planLines{named: asked, why: reasons{}}
	plan := func(w io.Writer) (err error) {
		lines.w = w
		if out.Plan, err = write(&lines); err == nil && out.Plan.Letters == 0 {
			err = errEmptyPlan
		}
		return err
	}
	var err error
	if file == "-" {
		err = plan(a.Stdout)
	} else {
		err = whole(file, plan)
	}
	switch {
	case errors.Is(err, errEmptyPlan):
		_ = a.sayMissing(asked) // nothing at all is more than in part
		if file == "-" {        // what was not kept back there is an empty plan
			return nothing("nothing matches: the plan has no letter")
		}
		return nothing("nothing matches, so no plan was written")
	case err != nil:
		return err
	}
	if file != "-" {
		out.Why, out.NotFound = lines.why.list(), asked.missing()
		if err := a.showPlan(&out, &lines.refused); err != nil {
			return err
		}
	}
	return a.sayMissing(asked)
}

// whole writes a new file under another name first, and never over one.
func whole(file string, write func(io.Writer) error) (err error) {
	if _, err := os.Lstat(file); err == nil {
		return usage("%s is there already: a plan is not written over another", file)
	}
	t, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-*")
	if err != nil {
		return err
	}
	err = write(t)
	if err == nil {
		err = t.Sync()
	}
	err = errors.Join(err, t.Close())
	if err != nil {
		return errors.Join(err, os.Remove(t.Name()))
	}
	return os.Rename(t.Name(), file)
}

// planShown is a plan as --json has it: its head, and where it is.
type planShown struct {
	File     string          `json:"file"`
	Plan     deadletter.Plan `json:"plan"`
	Why      []whyNot        `json:"why,omitzero"`       // letters will not be sent
	NotFound []string        `json:"not_found,omitzero"` // dl-ids that were asked for
}

func (a *app) showPlan(out *planShown, refused *remedies) error {
	if a.json {
		return a.object(out)
	}
	p := &out.Plan
	f := a.facts()
	f.add("plan", out.File)
	f.add("job", p.Job)
	f.add("consumer", p.Consumer)
	f.add("letters", number(p.Letters))
	for _, action := range []deadletter.Action{deadletter.Reopen, deadletter.Send, deadletter.Resolve, deadletter.Miss, deadletter.Skip, deadletter.Refuse} {
		f.add("  "+string(action), number(p.Counts[action])+actionText(action, p.Counts[action]))
	}
	f.addReasons(out.Why)
	f.add("copies go to", string(p.To))
	f.add("expires", when(p.Expires))
	if err := f.flush(); err != nil {
		return err
	}
	if p.LaterCount > 0 {
		a.say("%s of the same ids ran already, and letters would come behind:", counted(p.LaterCount, "later operation"))
		for _, l := range p.Later[:min(len(p.Later), 10)] {
			a.say("  %s %s, %s, %s", l.Scope, l.ID, l.State, when(l.At))
		}
		if more := p.LaterCount - 10; more > 0 {
			a.say("  and %d more", more)
		}
	}
	if text := refused.String(); text != "" {
		a.say("%s", text)
	}
	if p.Counts[deadletter.Refuse]+p.Counts[deadletter.Skip] == p.Letters {
		a.say("nothing is changed, and applied as it is this plan changes nothing")
		return nil
	}
	a.say("nothing is changed yet; next: onceward dlq replay apply %s", shellWord(out.File))
	return nil
}

func actionText(action deadletter.Action, n int) string {
	if n == 0 {
		return ""
	}
	return map[deadletter.Action]string{
		deadletter.Reopen:  "  open the record for a further run, and send",
		deadletter.Send:    "  send",
		deadletter.Resolve: "  nothing to do: the operation is finished otherwise",
		deadletter.Skip:    "  not now, or somebody else's",
		deadletter.Miss:    "  not in the topic any more: retention has removed it",
		deadletter.Refuse:  "  a person must look first",
	}[action]
}

// shellWord is a name as a shell reads it.
func shellWord(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=@") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
