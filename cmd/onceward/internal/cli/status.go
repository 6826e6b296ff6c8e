package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/internal/adminapi"
)

// status is what became of the letters of a plan.
func (a *app) status() *cobra.Command {
	var f connection
	each := false
	wait := time.Duration(0)
	c := &cobra.Command{
		Use: "status FILE", Short: "What became of the letters of a plan, from the records",
		Long: `What became of the letters of a plan, from the records: not whether they were sent,
but what their operations came to.

  succeeded     its copy, or a repeat of its message, was handled
  resolved      nothing was left to be done, so it was not sent
  waiting       its copy is to be handled, or runs, or is tried again
  failed again  and has a new letter, unless its message cannot be read or has no
                id: then the same letter is open again
  held          failed for the third time: a person must look, see dlq open
  in doubt      its handler cannot tell whether it happened
  not sent      the plan was not applied so far, or something had changed before, or
                no copy could be sent: apply it again
  refused       a person must look first: dlq show says why
  skipped       not now, another job's, or not for this handler
  gone          its message was not in the topic any more
  unknown       its record is forgotten, or tells of what another plan has done since

Exit status 4 unless all have succeeded or are resolved.`,
		Example: "  onceward dlq replay status plan.jsonl --each",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if wait > 0 {
				if err := f.answers(a, "--wait is for what"); err != nil {
					return err
				}
			}
			file, p, err := readPlan(args[0])
			if err != nil {
				return err
			}
			defer file.Close() // it was only read
			if err := f.ofPlan(p); err != nil {
				return err
			}
			return a.with(c.Context(), &f, needs{store: true}, func(ctx context.Context, s *session) error {
				s.queue.Topic = p.Topic
				waiting, err := s.settled(ctx, p, wait, a.progress())
				if err != nil {
					return err
				}
				if waiting > 0 {
					a.say("%s not answered after %v", counted(waiting, "copy"), wait)
					a.sayHindrances(ctx, s, true)
				}
				return a.showStatus(ctx, s, p, each)
			})
		},
	}
	f.flags(c, false)
	c.Flags().BoolVar(&each, "each", false, "every letter, one a line")
	c.Flags().DurationVar(&wait, "wait", 0, "wait until no copy waits any more, at most this `time`; needs --via")
	return c
}

// settled waits until no copy of the plan waits, at most for a time, and says
// how many do then.
func (s *session) settled(ctx context.Context, p *deadletter.PlanFile, most time.Duration, told *progress) (waiting int, err error) {
	const poll = time.Second // an outcome takes longer than that to be of interest
	for end := time.Now().Add(most); time.Now().Before(end); {
		waiting = 0
		for e, err := range s.queue.Outcome(ctx, p) {
			if err != nil {
				return 0, err
			}
			if e.Outcome == deadletter.Waiting {
				waiting++
			}
		}
		if waiting == 0 {
			return 0, nil
		}
		told.tell("%s", counted(waiting, "copy")+" not answered yet")
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(poll):
		}
	}
	return waiting, nil
}

// endedShown is one letter, one a line with --each --json.
type endedShown struct {
	ID      string        `json:"id,omitzero"`
	Scope   adminapi.Text `json:"scope,omitzero"`
	Key     adminapi.Text `json:"key,omitzero"`
	Outcome string        `json:"outcome"`
	State   string        `json:"state,omitzero"` // of its key's record now
	Error   adminapi.Text `json:"error,omitzero"` // that the record tells
}

// statusShown is the sum of a plan.
type statusShown struct {
	Job     string                     `json:"job"`
	Letters int                        `json:"letters"`
	Counts  map[deadletter.Outcome]int `json:"counts"`
}

var outcomes = []deadletter.Outcome{
	deadletter.Succeeded, deadletter.Resolved, deadletter.Waiting, deadletter.FailedAgain, deadletter.Held, deadletter.InDoubt,
	deadletter.NotSent, deadletter.Refused, deadletter.Skipped, deadletter.Gone, deadletter.Unknown,
}

func (a *app) showStatus(ctx context.Context, s *session, p *deadletter.PlanFile, each bool) error {
	out := statusShown{Job: p.Job, Letters: p.Letters, Counts: map[deadletter.Outcome]int{}}
	done := 0 // of those that were not sent
	t := a.table("OUTCOME", "KEY", "RECORD", "ERROR", "ID")
	for e, err := range s.queue.Outcome(ctx, p) {
		if err != nil {
			return err
		}
		out.Counts[e.Outcome]++
		if e.Outcome == deadletter.NotSent && e.ID != "" && e.Record.State == dedup.Succeeded { // what is to run again had succeeded before
			done++
		}
		switch {
		case a.json && each:
			shown := endedShown{ID: e.ID, Scope: adminapi.Text(e.Key.Scope), Key: adminapi.Text(e.Key.ID), Outcome: string(e.Outcome), Error: adminapi.Text(e.Record.Error)}
			if e.Key.ID != "" {
				shown.State = e.Record.State.String()
			}
			if err := a.object(shown); err != nil {
				return err
			}
		case !a.json && each:
			if err := t.row(string(e.Outcome), short(keyText(e.Key), 48), e.Record.State.String(), short(e.Record.Error, 60), e.ID); err != nil {
				return err
			}
		}
	}
	if a.json && !each {
		if err := a.object(out); err != nil {
			return err
		}
	}
	if !a.json {
		if err := a.statusTable(&out, t); err != nil {
			return err
		}
	}
	if done > 0 {
		a.say("%d of those that this plan has not sent have succeeded all the same: another plan or a repeat was faster", done)
	}
	if out.Counts[deadletter.Succeeded]+out.Counts[deadletter.Resolved] < out.Letters {
		return &exit{code: Partly}
	}
	return nil
}

func (a *app) statusTable(out *statusShown, t *table) error {
	if t.rows > 0 {
		if err := t.flush(); err != nil {
			return err
		}
		fmt.Fprintln(a.out)
	}
	f := a.facts()
	f.add("job", out.Job)
	f.add("letters", number(out.Letters))
	for _, o := range outcomes {
		f.add("  "+string(o), number(out.Counts[o]))
	}
	return f.flush()
}
