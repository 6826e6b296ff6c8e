package dedup

import "time"

// claim: the order of what is asked is part of the contract.
func claim(r *Record, op *Op, env Env) (a Answer, changed bool) {
	a.OtherRule = r.State != Absent && r.Fingerprint.Rule != op.Fingerprint.Rule
	if r.State == Absent {
		if (env.Passed || op.Copy) && !env.Admitted && tooOld(op, env) {
			a.Kind = TooOld
			return a, false
		}
		*r = Record{Key: r.Key, Fence: r.Fence, Fingerprint: op.Fingerprint, Created: env.Now}
		open(r, env)
		own(r, op, env)
		a.Kind = Acquired
		return a, true
	}
	if a.Kind, a.Wait = standing(r, op, env); a.Kind != Invalid {
		return a, false
	}
	switch {
	case r.Blind():
		// Nobody can ask whether it happened. The fence stays: the late owner
		// may still tell.
		hold(r, op.Policy)
		a.Kind = HeldInDoubt
		return a, true
	case r.State == InProgress && r.Doubt() && bounded(r, op.Policy):
		// The claim that was to bury it crashed, and the doubt is still there.
		hold(r, op.Policy)
		a.Kind = HeldInDoubt
		return a, true
	case r.State == InProgress:
		r.Crashes++
		if r.Alone {
			r.Lone++
		}
	}
	raise(r, env)
	own(r, op, env)
	a.Kind = acquiredAs(r, op)
	return a, true
}

// standing is the answer that a record gives to a claim as it stands; Invalid
// when the claim may take it over.
func standing(r *Record, op *Op, env Env) (k AnswerKind, wait time.Duration) {
	switch {
	case r.Fingerprint.Differs(op.Fingerprint):
		return Conflict, 0
	case r.Ended() == Succeeded:
		return DuplicateSucceeded, 0
	case r.Ended() == Failed:
		return DuplicateFailed, 0
	case r.State == InDoubt:
		return HeldInDoubt, 0
	case r.State == InProgress && r.Live && r.Token == op.Token:
		// The answer to this very claim was lost on its way: give it again.
		return acquiredAs(r, op), 0
	case r.State == InProgress && r.Live:
		return Busy, max(r.LeaseUntil.Sub(env.Now), 0)
	case r.State == Retryable && env.Now.Before(r.NotBefore):
		return NotBefore, r.NotBefore.Sub(env.Now)
	}
	return Invalid, 0
}

// acquiredAs says what an owner is to do, by what the record knows after the
// takeover was counted.
func acquiredAs(r *Record, op *Op) AnswerKind {
	switch {
	case bounded(r, op.Policy):
		return AcquiredToBury
	case r.Doubt():
		return AcquiredInDoubt
	}
	return Acquired
}

func bounded(r *Record, p *Policy) bool { return r.Lone >= p.Lone || r.Failures >= p.Failures }

func tooOld(op *Op, env Env) bool {
	return !op.Stored.IsZero() && op.Policy.Window > 0 && op.Stored.Add(op.Policy.Window).Before(env.Now)
}

func own(r *Record, op *Op, env Env) {
	r.State, r.Live, r.Alone = InProgress, true, false
	r.Token, r.Claimed, r.LeaseUntil = op.Token, env.Now, env.Now.Add(op.Lease)
	r.NotBefore = time.Time{}
	r.Window, r.Archive = op.Policy.Window, op.Policy.Archive
	if op.Position != (Position{}) {
		r.Source = op.Position
	}
}

func hold(r *Record, p *Policy) {
	r.State, r.Owed, r.Live, r.Alone = InDoubt, !p.NoLetters, false, false
	r.Reason = ReasonInDoubt
}
