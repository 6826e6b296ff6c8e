package dedup

import (
	"fmt"
	"slices"
)

func owner(r *Record, op *Op, env Env) (a Answer, changed bool) {
	if r.State != Absent && op.Fence > r.Fence {
		return Answer{Kind: Invalid, Err: fmt.Errorf("%w: %s of %v: fence %d was never given, the record has %d", ErrInvalidOp, op.Kind, r.Key, op.Fence, r.Fence)}, false
	}
	if op.Fence != r.Fence || r.State != InProgress && r.State != InDoubt {
		return fenced(r, op, env)
	}
	late := r.State == InDoubt // the late owner with an equal fence may only bring evidence
	a.Kind = Done
	if op.Kind == End {
		if late && r.Token == op.Token && op.Outcome == Doubt {
			return Answer{Kind: Fenced}, false // the same write, repeated
		}
		end(r, op, env, late)
		return a, true
	}
	return ownerStep(r, op, env, late)
}

// ownerStep is what an owner does before the end: it keeps its lease, says that
// it runs alone, or tells of an effect.
func ownerStep(r *Record, op *Op, env Env, late bool) (a Answer, changed bool) {
	a.Kind = Done
	if op.Effect != nil {
		r.Intents = slices.Clone(r.Intents)
	}
	was := intentOf(r, op)
	switch {
	case op.Kind == Confirm && was.Status != NoIntent:
		i := r.intent(op.Effect.Name)
		i.Status, i.External, i.Outcome = Confirmed, op.Effect.External, op.Effect.Outcome
	case op.Kind == Refuse && was.Status == Dispatched:
		r.intent(op.Effect.Name).Status = NoIntent
	case late:
		return fenced(r, op, env)
	case op.Kind == Dispatch && was.Status == NoIntent && full(r, op.Effect.Name):
		return Answer{Kind: Invalid, Err: fmt.Errorf("%w: dispatch: %v has %d effects, at most %d", ErrInvalidOp, r.Key, len(r.Intents), MaxIntents)}, false
	case op.Kind == Renew && r.Live:
		r.LeaseUntil = env.Now.Add(op.Lease)
	case op.Kind == Alone && r.Live:
		r.Alone = true
	case op.Kind == Dispatch && was.Status == NoIntent:
		*r.intent(op.Effect.Name) = Intent{
			Effect: op.Effect.Name, Status: Dispatched, Blind: op.Effect.Blind, EffectRun: was.EffectRun,
			Dispatched: env.Now, QuietFor: op.Effect.QuietFor,
		}
	case op.Kind == VerifyNot && was.Status == Dispatched && !was.Blind && !at(op.Effect.AskedAt, env).Before(was.Dispatched.Add(was.QuietFor)):
		r.intent(op.Effect.Name).Status = NoIntent
	default:
		return fenced(r, op, env)
	}
	return a, true
}

// intentOf is what r knows of the effect that op is about.
func intentOf(r *Record, op *Op) Intent {
	if op.Effect != nil {
		for _, i := range r.Intents {
			if i.Effect == op.Effect.Name {
				return i
			}
		}
	}
	return Intent{}
}

// full says that the record has no room for an intent of one more effect.
func full(r *Record, effect string) bool {
	return len(r.Intents) >= MaxIntents && !slices.ContainsFunc(r.Intents, func(i Intent) bool { return i.Effect == effect })
}

func end(r *Record, op *Op, env Env, late bool) {
	// The lease is not consulted: late but unfenced is true.
	r.Live, r.Alone = false, false
	owes := r.Owed || !late && !op.Policy.NoLetters
	o := op.Outcome
	if o == Failure || o == Skip || o == Exhausted && !bounded(r, op.Policy) {
		r.Failures++
		r.LastFailed = env.Now
		if r.FirstFailed.IsZero() {
			r.FirstFailed = env.Now
		}
	}
	r.Window, r.Archive = op.Policy.Window, op.Policy.Archive
	final := o == Success || o == Terminal || o == Exhausted
	switch {
	case o == Skip && !r.touched() && r.Run == 1 && !late:
		*r = Record{Key: r.Key, Fence: r.Fence}
		return
	case r.Blind(), o == Doubt, final && r.Doubt(), late && r.Doubt():
		r.State, r.Owed = InDoubt, owes
		if late {
			testify(r, op, env) // it decides nothing, and whoever decides should know
		} else {
			failure(r, op)
		}
		r.Reason = ReasonInDoubt
	case o == Success:
		r.State, r.Owed, r.Finished = Succeeded, false, env.Now
		r.Result, r.Digest = op.Result, op.Digest
		r.Reason, r.Error, r.ErrorType, r.Stack = "", "", "", ""
	case final:
		r.State, r.Owed, r.Finished = Failed, owes, env.Now
		failure(r, op)
	case late:
		open(r, env)
	default: // Skip after an effect is a failure of the handler
		r.State, r.NotBefore = Retryable, env.Now.Add(op.Wait)
		if o != Release {
			failure(r, op)
		}
	}
}

func failure(r *Record, op *Op) {
	r.Reason, r.Error, r.ErrorType, r.Stack = op.Reason, op.Error, op.ErrorType, op.Stack
}
