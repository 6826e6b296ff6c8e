package deadletter

import (
	"context"
	"fmt"
	"time"
)

const (
	defaultCanaryWait = 5 * time.Minute
	// lookEvery is how often an application looks at what became of its copies.
	lookEvery = 500 * time.Millisecond
	// fewAnswers prove nothing of a ratio.
	fewAnswers = 20
	// maxWaiting bounds the copies that nobody has answered yet where their
	// failures count: what is on its way cannot be stopped.
	maxWaiting = 1000
)

// watch holds the application up until what it sent allows to go on.
func (a *application) watch(ctx context.Context) error {
	if a.c.DryRun {
		return nil
	}
	if a.c.Canary > 0 && !a.trusted && a.sent >= a.c.Canary {
		if err := a.canary(ctx); err != nil {
			return err
		}
	}
	if a.c.MaxFailureRatio <= 0 {
		a.waiting = a.waiting[:0]
		return nil
	}
	for {
		if err := a.answered(ctx); err != nil {
			return err
		}
		if a.report.Answered >= fewAnswers && float64(a.report.FailedAgain) > a.c.MaxFailureRatio*float64(a.report.Answered) {
			return &StoppedError{Why: fmt.Sprintf("%d of %d answered copies failed again", a.report.FailedAgain, a.report.Answered)}
		}
		if len(a.waiting) < maxWaiting {
			return nil
		}
		if err := sleep(ctx, lookEvery); err != nil {
			return err
		}
	}
}

// canary waits for the first copies.
func (a *application) canary(ctx context.Context) error {
	wait := a.c.CanaryWait
	if wait <= 0 {
		wait = defaultCanaryWait
	}
	until := time.Now().Add(wait)
	for {
		if err := a.answered(ctx); err != nil {
			return err
		}
		switch {
		case a.report.FailedAgain > 0:
			return &StoppedError{Why: fmt.Sprintf("%d of the first %d failed again", a.report.FailedAgain, a.report.Answered)}
		case len(a.waiting) == 0:
			a.trusted = true
			return nil
		case !time.Now().Before(until):
			return &StoppedError{Why: fmt.Sprintf("%d of the first %d have no outcome after %v: does the consumer run?", len(a.waiting), a.sent, wait)}
		}
		if err := sleep(ctx, lookEvery); err != nil {
			return err
		}
	}
}

// settle is the end of an application: one that sent fewer than its canary waits
// for those.
func (a *application) settle(ctx context.Context) error {
	if a.c.Canary > 0 && !a.trusted && !a.c.DryRun && a.sent > 0 {
		return a.canary(ctx)
	}
	return nil
}

// answered takes those out of waiting that have an outcome.
func (a *application) answered(ctx context.Context) error {
	left := a.waiting[:0]
	for rest := a.waiting; len(rest) > 0; {
		n := min(len(rest), chunk)
		ended, err := a.q.ended(ctx, a.f.Job, rest[:n])
		if err != nil {
			return err
		}
		for i := range ended {
			switch ended[i].Outcome {
			case Waiting:
				left = append(left, rest[i])
				continue
			case FailedAgain, Held, InDoubt:
				a.report.FailedAgain++
			}
			a.report.Answered++
		}
		rest = rest[n:]
	}
	a.waiting = left
	return nil
}
