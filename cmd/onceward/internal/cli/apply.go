package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/cmd/onceward/internal/via"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/deadletter"
)

// apply does what a plan says.
func (a *app) apply() *cobra.Command {
	var f connection
	var how deadletter.ApplyConfig
	var acceptExpired bool
	c := &cobra.Command{
		Use: "apply FILE", Short: "Do what a plan says; called again, it goes on where it stopped",
		Long: `Do what a plan says, and nothing else: what has changed since the plan was made
is left alone, and told. Ended at any moment and called again with the same plan
it goes on where it stopped; called twice it takes effect once.

Exit status 4 where letters were refused, skipped or left alone.`,
		Example: "  onceward dlq replay apply plan.jsonl --canary 5 --rate 50 --via http://127.0.0.1:8080",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case c.Flags().Changed("max-failure-ratio") && (how.MaxFailureRatio == 0 || how.MaxFailureRatio > 1):
				// 0 bounds nothing, and who gives it wants no failure at all.
				return usage("--max-failure-ratio must be above 0, at most 1: such as 0.01; without it nothing stops the rest")
			case acceptExpired && how.AcceptExpired == "":
				return usage("--accept-expired needs a reason: --reason TEXT")
			case !acceptExpired && how.AcceptExpired != "":
				return usage("--reason is that of --accept-expired")
			}
			if !how.DryRun && (how.Canary > 0 || how.MaxFailureRatio > 0) {
				if err := f.answers(a, "--canary and --max-failure-ratio watch what"); err != nil {
					return err
				}
			}
			file, p, err := readPlan(args[0])
			if err != nil {
				return err
			}
			defer file.Close() // it was only read
			if !how.DryRun {
				if err := a.confirmSending(file, p, acceptExpired); err != nil {
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
	s.DurationVar(&how.CanaryWait, "canary-wait", 5*time.Minute, "`time` in which at least one must be answered")
	s.Float64Var(&how.MaxFailureRatio, "max-failure-ratio", 0, "stop when more than this `share` of the answered copies has failed again or is in doubt, from the twentieth on and at the end")
	s.BoolVar(&acceptExpired, "accept-expired", false, "send letters also that the plan refuses since they are older than the window and have no record: they may have been done, and forgotten")
	s.StringVar(&how.AcceptExpired, "reason", "", "`why` expired letters are accepted; kept with each of them")
	s.BoolVar(&how.DryRun, "dry-run", false, "change nothing and send nothing; say what would be")
	return c
}

// confirmSending asks for what is sent at most: what was sent before, or has
// changed, is found out later.
func (a *app) confirmSending(file *os.File, p *deadletter.PlanFile, acceptExpired bool) error {
	sends, besides := p.Counts[deadletter.Reopen]+p.Counts[deadletter.Send], ""
	if acceptExpired {
		expired, err := expiredIn(file)
		if err != nil {
			return err
		}
		sends += expired
		besides = fmt.Sprintf(", among them %d expired, which may have been done before,", expired)
	}
	return a.confirm("Send at most %d of %d letters%s to consumer %q?", sends, p.Letters, besides, p.Consumer)
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

func (a *app) applyPlan(ctx context.Context, s *session, p *deadletter.PlanFile, how deadletter.ApplyConfig) error {
	why, refused := reasons{}, remedies{}
	how.Each = func(r deadletter.Result) {
		if r.Did == deadletter.DidRefuse && r.ID != "" { // else no letter, of which nothing can be said
			refused.add(r.Approvable, r.Expired)
		}
		if r.Did != deadletter.DidSend && r.Did != deadletter.DidBefore {
			why.add(whyNot{Did: r.Did, Why: r.Why, Example: r.ID})
		}
	}
	told := a.progress()
	how.Progress = func(r deadletter.Report) {
		told.tell("%s", soFar(&r, p.Letters, how.DryRun))
	}
	if how.DryRun && s.info != nil && string(s.info.You.Role) == consumer.AdminView.String() {
		a.say("careful: your role is %s, which sends nothing: that takes the role %s", consumer.AdminView, consumer.AdminReplay)
	}
	p.Who = s.who // who applies it is who changes, as it is through a consumer
	report, err := s.queue.Apply(ctx, p, how)
	out := applied{
		Job: p.Job, DryRun: how.DryRun, Letters: report.Letters, Counts: report.Counts, Answered: report.Answered, FailedAgain: report.FailedAgain,
		Why: why.list(),
	}
	if err != nil {
		out.Stopped = err.Error()
	}
	if shown := a.showApplied(&out, p); shown != nil {
		return shown
	}
	return a.applyEnd(ctx, s, p, &report, &refused, err)
}

// soFar is how far an application of so many letters has come.
func soFar(r *deadletter.Report, letters int, dry bool) string {
	if dry {
		return fmt.Sprintf("%d of %d letters: %d would be sent", r.Letters, letters, r.Counts[deadletter.DidSend])
	}
	return fmt.Sprintf("%d of %d letters: %d sent, %d answered, %d failed again", r.Letters, letters, r.Counts[deadletter.DidSend], r.Answered, r.FailedAgain)
}

// applyEnd is how an application ends: what was not sent is told apart from
// what did not work, and what is to be done next differs.
func (a *app) applyEnd(ctx context.Context, s *session, p *deadletter.PlanFile, r *deadletter.Report, refused *remedies, err error) error {
	var stopped *deadletter.StoppedError
	var refusedBy *via.Error
	switch {
	case errors.As(err, &refusedBy) && refusedBy.Need != "":
		return &next{err, "apply the plan with a token that has the role " + refusedBy.Need}
	case errors.Is(err, via.ErrForbidden), errors.Is(err, via.ErrToken):
		return err
	case err != nil && ctx.Err() != nil:
		if errors.Is(err, context.Canceled) {
			err = errors.New("ended by a signal")
		}
		return &next{partly("%w", err), "apply the plan again to go on"}
	case errors.As(err, &stopped):
		a.sayHindrances(ctx, s, r.FailedAgain == 0)
		if r.FailedAgain > 0 {
			what := "mend the cause, then make a new plan of what failed again, which refuses what is in doubt until somebody has looked"
			if r.Letters < p.Letters {
				what += "; this one goes on with the others when it is applied again"
			}
			return &next{err, what}
		}
		return &next{err, "let the consumer answer what was sent, then apply the plan again"}
	case errors.Is(err, deadletter.ErrRefused):
		return err
	case err != nil:
		return &next{err, applyAgain}
	}
	if r.Counts[deadletter.DidSend]+r.Counts[deadletter.DidBefore]+r.Counts[deadletter.DidResolve] == r.Letters {
		return nil
	}
	end := &exit{code: Partly}
	switch {
	case r.Counts[deadletter.DidFail] > 0:
		return &next{end, applyAgain}
	case r.Counts[deadletter.DidChange] > 0:
		return &next{end, "make a new plan: what has changed is decided anew"}
	case r.Counts[deadletter.DidSkip] > 0 && !time.Now().Before(p.Expires):
		return &next{end, "make a new plan: this one has expired"}
	case refused.String() != "":
		return &next{end, refused.String()}
	}
	return end
}

const applyAgain = "apply the plan again; what was sent is not sent again"

func (a *app) showApplied(out *applied, p *deadletter.PlanFile) error {
	if a.json {
		return a.object(out)
	}
	f := a.facts()
	f.add("job", out.Job)
	f.add("letters", fmt.Sprintf("%d of %d", out.Letters, p.Letters))
	for _, did := range []deadletter.Did{
		deadletter.DidSend, deadletter.DidBefore, deadletter.DidResolve, deadletter.DidRefuse, deadletter.DidSkip, deadletter.DidChange, deadletter.DidMiss, deadletter.DidFail,
	} {
		name := string(did)
		if out.DryRun && (did == deadletter.DidSend || did == deadletter.DidResolve) {
			name = "would be " + name
		}
		f.add("  "+name, number(out.Counts[did]))
	}
	if out.Answered > 0 {
		f.add("answered", fmt.Sprintf("%d, %d of them failed again or are in doubt", out.Answered, out.FailedAgain))
	}
	f.addReasons(out.Why)
	if out.DryRun {
		f.add("dry run", "nothing was changed, nothing was sent")
	}
	return f.flush()
}
