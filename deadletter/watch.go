package deadletter

import (
	"context"
	"fmt"
	"time"
)

const (
	defaultCanaryWait = 5 * time.Minute
	// lastWait is how long the end of an application waits for an answer.
	lastWait = 30 * time.Second
	// lookEvery is how often an application looks at what became of its copies.
	lookEvery = 500 * time.Millisecond
	// fewAnswers prove nothing of a ratio.
	fewAnswers = 20
	// maxWaiting bounds the copies that nobody has answered yet where their
	// failures count: what is on its way cannot be stopped.
	maxWaiting = 1000
)

// mayWait is how many copies may be on their way: enough for a first judgement,
// and then as many as have proved themselves allow.
func (a *application) mayWait() int {
	return min(max(2*fewAnswers, 2*a.report.Answered), maxWaiting)
}

// watch holds the application up until what it sent allows to go on.
func (a *application) watch(ctx context.Context) error {
	if a.c.DryRun {
		return nil
	}
	if a.c.Canary > 0 && !a.trusted && a.report.Counts[DidSend] >= a.c.Canary {
		if err := a.canary(ctx); err != nil {
			return err
		}
	}
	if a.c.MaxFailureRatio <= 0 {
		return nil
	}
	return a.until(ctx, a.canaryWait(), func() (bool, error) {
		return len(a.waiting) < a.mayWait(), a.judge(fewAnswers)
	}, a.silent)
}

// canary waits for the first copies.
func (a *application) canary(ctx context.Context) error {
	return a.until(ctx, a.canaryWait(), func() (bool, error) {
		if a.report.FailedAgain > 0 {
			return false, &StoppedError{Why: fmt.Sprintf("%d of the first %d failed again or are in doubt", a.report.FailedAgain, a.report.Counts[DidSend])}
		}
		a.trusted = len(a.waiting) == 0
		return a.trusted, nil
	}, a.silent)
}

func (a *application) canaryWait() time.Duration {
	if a.c.CanaryWait > 0 {
		return a.c.CanaryWait
	}
	return defaultCanaryWait
}

// settle is the end of an application: one that sent fewer than its canary waits
// for those, and one that counts failures for the last of them.
func (a *application) settle(ctx context.Context) error {
	if a.c.DryRun {
		return nil
	}
	if a.c.Canary > 0 && !a.trusted && a.report.Counts[DidSend] > 0 {
		return a.canary(ctx)
	}
	if a.c.MaxFailureRatio <= 0 {
		return nil
	}
	return a.until(ctx, lastWait, func() (bool, error) {
		return len(a.waiting) == 0, a.judge(1)
	}, func(time.Duration) error { return nil }) // status tells of them
}

// judge stops an application of whose answered copies too many have failed.
func (a *application) judge(from int) error {
	if a.report.Answered >= from && float64(a.report.FailedAgain) > a.c.MaxFailureRatio*float64(a.report.Answered) {
		return &StoppedError{Why: fmt.Sprintf("%d of %d answered copies failed again or are in doubt", a.report.FailedAgain, a.report.Answered)}
	}
	return nil
}

// silent is the end of an application that nobody answers.
func (a *application) silent(after time.Duration) error {
	return &StoppedError{Why: fmt.Sprintf("%d of %d copies have no outcome, and nothing was answered for %v: does the consumer run?", len(a.waiting), a.report.Counts[DidSend], after)}
}

// until looks at what became of the copies until done, or until nothing was
// answered for so long.
func (a *application) until(ctx context.Context, patience time.Duration, done func() (bool, error), silent func(time.Duration) error) error {
	heard, answered := time.Now(), a.report.Answered
	for {
		if err := a.answered(ctx); err != nil {
			return err
		}
		if a.report.Answered > answered {
			heard, answered = time.Now(), a.report.Answered
			if a.c.Progress != nil {
				a.c.Progress(a.report)
			}
		}
		if ok, err := done(); ok || err != nil {
			return err
		}
		if time.Since(heard) >= patience {
			return silent(patience)
		}
		if err := sleep(ctx, lookEvery); err != nil {
			return err
		}
	}
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
