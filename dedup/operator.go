package dedup

import (
	"slices"
	"time"
)

func operator(r *Record, op *Op, env Env) (a Answer, changed bool) {
	o := op.Operator
	a.Kind = Done
	if sends(op) && r.Job == o.Job && r.Run == o.Seen.Run+1 {
		a.Kind = Continued // the same job goes on after a crash; another's approval no longer matches
		return a, false
	}
	refused := Answer{Kind: Refused}
	if o.Seen != r.Seen() || !o.Expires.IsZero() && o.Expires.Before(env.Now) {
		return refused, false
	}
	finished := r.State == Succeeded || r.State == Failed
	settled := settle(r, op, env)
	inDoubt := slices.ContainsFunc(settled, func(i Intent) bool { return i.Status == Dispatched })
	switch {
	case op.Kind == Unlock && r.State == InProgress:
		// The rows for a lapsed claim decide, doubt and all. No lone crash.
		r.Live, r.Alone, r.LeaseUntil = false, false, env.Now
	case op.Kind == Delete && (finished || r.State == Retryable) && env.Letters == 0 && !r.Owed && !r.touched():
		*r = Record{Key: r.Key, Fence: r.Fence}
		return a, true
	case op.Kind == Import && r.State == Absent:
		*r = Record{Key: r.Key, Fence: r.Fence, Created: env.Now}
		open(r, env)
		r.State, r.Fingerprint, r.Finished = Succeeded, o.Fingerprint, env.Now
		r.Result, r.Window, r.Archive = o.Result, o.Window, o.Archive
	case op.Kind == Reconcile && r.State == InDoubt && !inDoubt:
		r.Intents = settled
		switch o.To {
		case Success:
			r.State, r.Owed, r.Finished, r.Result, r.Digest = Succeeded, false, env.Now, o.Result, false
			r.Reason, r.Error, r.ErrorType, r.Stack = "", "", "", ""
		case Terminal:
			r.State, r.Finished, r.Reason = Failed, env.Now, ReasonTerminal
		default:
			reopen(r, o, env)
		}
	case op.Kind == Reopen && o.LetterRun == r.Run && !r.Owed && env.Letter.heldBy(o.Job) &&
		(finished || r.State == Retryable || r.State == InDoubt && !inDoubt):
		r.Intents = settled
		reopen(r, o, env)
		r.Fingerprint = o.Fingerprint
	case op.Kind == Sweep && finished && r.over(env.Now) && env.Passed && env.Letters == 0 && !r.Owed:
		if r.Archive {
			*r = Record{
				Key: r.Key, State: Tombstone, Outcome: r.State, Fingerprint: r.Fingerprint, Run: r.Run, Fence: r.Fence,
				Opened: r.Opened, Finished: r.Finished, Source: r.Source, Archive: true,
			}
		} else {
			*r = Record{Key: r.Key, Fence: r.Fence}
		}
		return a, true
	default:
		return refused, false
	}
	r.Approver, r.Why = o.Who, o.Why
	return a, true
}

// sends says that op reopens a record for a job that sends its letter.
func sends(op *Op) bool {
	return op.Operator.Job != "" && (op.Kind == Reopen || op.Kind == Reconcile && op.Operator.To == Release)
}

// reopen begins a run that is unfinished until the copy that it names is sent.
func reopen(r *Record, o *OperatorOp, env Env) {
	open(r, env)
	r.Job, r.Letter = o.Job, o.Letter
	if o.Letter == "" && o.Send != (Position{}) {
		r.Source = o.Send
	}
}

// settle returns the intents with every doubt decided as the operation says.
func settle(r *Record, op *Op, env Env) []Intent {
	intents := slices.Clone(r.Intents)
	for n := range intents {
		i := &intents[n]
		switch v := op.Operator.Decide[i.Effect]; {
		case v == Happened && i.Status == Dispatched:
			i.Status = Confirmed
		case v == DidNot && i.Status == Dispatched && !at(op.Operator.BooksReadAt, env).Before(i.Dispatched.Add(i.QuietFor)):
			i.Status = NoIntent
		case v == RunAgain:
			*i = Intent{Effect: i.Effect, EffectRun: i.EffectRun + 1}
		}
	}
	return intents
}

// over says that a finished record's window is over. A window of 0 is kept
// for ever.
func (r *Record) over(now time.Time) bool {
	return r.Window > 0 && !r.Finished.IsZero() && !r.Finished.Add(r.Window).After(now)
}
