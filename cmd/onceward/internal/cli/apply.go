package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/deadletter"
)

// apply does what a plan says.
func (a *app) apply() *cobra.Command {
	var f connection
	var how deadletter.ApplyConfig
	c := &cobra.Command{
		Use: "apply FILE", Short: "Do what a plan says; called again, it goes on where it stopped",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if how.Rate < 0 || how.Canary < 0 || how.MaxFailureRatio < 0 || how.MaxFailureRatio > 1 {
				return usage("--rate and --canary must not be negative, --max-failure-ratio must be 0 to 1")
			}
			file, p, err := readPlan(args[0])
			if err != nil {
				return err
			}
			defer file.Close() // it was only read
			if !how.DryRun {
				sends := p.Counts[deadletter.Reopen] + p.Counts[deadletter.Send]
				if err := a.confirm("Send %d of %d letters to consumer %q?", sends, p.Letters, p.Consumer); err != nil {
					return err
				}
			}
			if err := f.ofPlan(p); err != nil {
				return err
			}
			return a.with(c.Context(), &f, needs{letters: true, store: true, writes: !how.DryRun}, func(ctx context.Context, s *session) error {
				return a.applyPlan(ctx, s, p, how)
			})
		},
	}
	f.flags(c, true)
	a.flagYes(c)
	s := c.Flags()
	s.Float64Var(&how.Rate, "rate", 0, "at most `N` copies a second, 0 for no bound")
	s.IntVar(&how.Canary, "canary", 0, "send `N` letters first, and go on only when all of them have succeeded")
	s.DurationVar(&how.CanaryWait, "canary-wait", 5*time.Minute, "`time` that they may take")
	s.Float64Var(&how.MaxFailureRatio, "max-failure-ratio", 0, "stop when more than this `share` of the answered copies has failed again, from the twentieth on")
	s.BoolVar(&how.DryRun, "dry-run", false, "change nothing and send nothing; say what would be")
	return c
}

// readPlan opens a plan's file, which it reads from as long as it is applied.
func readPlan(name string) (*os.File, *deadletter.PlanFile, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	p, err := deadletter.ReadPlan(file)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%s: %w", name, err), file.Close())
	}
	return file, p, nil
}

// ofPlan takes from a plan what flags leave open.
func (f *connection) ofPlan(p *deadletter.PlanFile) error {
	f.consumer = cmp.Or(f.consumer, p.Consumer)
	if f.window == 0 {
		f.window = time.Duration(p.WindowSeconds) * time.Second
	}
	return f.follow(p.Reading)
}

// applied is what was done, as --json has it.
type applied struct {
	Job     string                 `json:"job"`
	DryRun  bool                   `json:"dry_run,omitzero"`
	Letters int                    `json:"letters"`
	Counts  map[deadletter.Did]int `json:"counts"`
	// Of copies that were watched, with --canary or --max-failure-ratio.
	Answered    int `json:"answered,omitzero"`
	FailedAgain int `json:"failed_again,omitzero"`
	// Why letters were not sent, the most frequent reason first.
	Why     []whyNot `json:"why,omitzero"`
	Stopped string   `json:"stopped,omitzero"` // why it ended before the plan's end
}

type whyNot struct {
	Did     deadletter.Did `json:"did"`
	Why     string         `json:"why"`
	Count   int            `json:"count"`
	Example string         `json:"example,omitzero"` // dl-id
}

func (a *app) applyPlan(ctx context.Context, s *session, p *deadletter.PlanFile, how deadletter.ApplyConfig) error {
	reasons := map[[2]string]*whyNot{}
	how.Each = func(r deadletter.Result) {
		if r.Did == deadletter.DidSend {
			return
		}
		// Reasons are few; ids in them are left out to keep it so.
		why := deadletter.Pattern(r.Why)
		w := reasons[[2]string{string(r.Did), why}]
		if w == nil {
			if len(reasons) == maxWhy {
				return
			}
			w = &whyNot{Did: r.Did, Why: r.Why, Example: r.ID}
			reasons[[2]string{string(r.Did), why}] = w
		}
		w.Count++
	}
	told := a.progress()
	how.Progress = func(r deadletter.Report) {
		told.tell("%d of %d letters: %d sent, %d answered, %d failed again", r.Letters, p.Letters, r.Counts[deadletter.DidSend], r.Answered, r.FailedAgain)
	}
	report, err := s.queue.Apply(ctx, p, how)
	out := applied{
		Job: p.Job, DryRun: how.DryRun, Letters: report.Letters, Counts: report.Counts, Answered: report.Answered, FailedAgain: report.FailedAgain,
	}
	for _, w := range reasons {
		out.Why = append(out.Why, *w)
	}
	slices.SortFunc(out.Why, func(x, y whyNot) int {
		return cmp.Or(cmp.Compare(y.Count, x.Count), cmp.Compare(x.Did, y.Did), cmp.Compare(x.Why, y.Why))
	})
	if err != nil {
		out.Stopped = err.Error()
	}
	if shown := a.showApplied(&out, p); shown != nil {
		return shown
	}
	return applyEnd(ctx, &report, err)
}

const maxWhy = 100

// applyEnd is how an application ends: what was not sent is told apart from
// what did not work.
func applyEnd(ctx context.Context, r *deadletter.Report, err error) error {
	if err != nil && ctx.Err() != nil {
		return partly("ended by a signal; apply the plan again to go on: %w", err)
	}
	if err != nil {
		return err
	}
	if r.Counts[deadletter.DidSend]+r.Counts[deadletter.DidResolve] < r.Letters {
		return &exit{code: Partly}
	}
	return nil
}

func (a *app) showApplied(out *applied, p *deadletter.PlanFile) error {
	if a.json {
		return a.object(out)
	}
	f := a.facts()
	f.add("job", out.Job)
	f.add("letters", fmt.Sprintf("%d of %d", out.Letters, p.Letters))
	for _, did := range []deadletter.Did{
		deadletter.DidSend, deadletter.DidResolve, deadletter.DidRefuse, deadletter.DidSkip, deadletter.DidChange, deadletter.DidMiss, deadletter.DidFail,
	} {
		f.add("  "+string(did), number(out.Counts[did]))
	}
	if out.Answered > 0 {
		f.add("answered", fmt.Sprintf("%d, %d of them failed again", out.Answered, out.FailedAgain))
	}
	for _, w := range out.Why {
		f.add(string(w.Did), fmt.Sprintf("%d: %s (such as %s)", w.Count, w.Why, w.Example))
	}
	if out.DryRun {
		f.add("dry run", "nothing was changed, nothing was sent")
	}
	return f.flush()
}
