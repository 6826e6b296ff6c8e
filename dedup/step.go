package dedup

import "time"

// Env is what a store knows beside the record when it applies an operation.
type Env struct {
	// Now by the store's clock.
	Now time.Time
	// FenceFloor: a fence given now is at least this. A store that forgets
	// deleted records keeps fences rising with it; 0 where every record is
	// kept.
	FenceFloor uint64
	// Passed says that the position (of the claim, or for Sweep of the record's
	// source) lies within the contiguous acknowledged prefix. Without a position
	// it is false for a claim, which is then never too old, and true for Sweep.
	Passed bool
	// Admitted says that the claim's replay token is one that a letter admits,
	// see [Letter.Admits].
	Admitted bool
	// Letters counts letters of the key that are open, sent or held.
	Letters int
	// Letter of [Op.About], as [StepLetter] has left it; nil where there is none.
	Letter *Letter
}

// About is the dl-id of the letter whose note [Step] asks for; empty for none.
func (op *Op) About() string {
	switch {
	case op.Key.OfLetter() && (op.Letter != nil || op.Kind == Reopen):
		return op.Key.ID
	case op.Kind == Reopen:
		return op.Operator.Letter
	}
	return ""
}

// Step applies op to r, which it changes in place, and reports the answer and
// whether r changed. It is the state table of the project in one place: every
// store calls it, or proves itself against it, and decides nothing of its own.
//
// r must be a private copy with Live set by the store's clock, and Key set;
// an absent record has State Absent and whatever Fence the store remembers.
// op must have passed [Op.Validate]. Letters have [StepLetter] besides, and
// Advance has no record.
//
// Where the answer says that r is unchanged, it is. Slices in r are replaced,
// never written into, so a shallow copy of a kept record is private enough;
// afterwards r may share op's byte slices, which a store that keeps r in memory
// copies.
//
// Step neither blocks nor keeps anything.
func Step(r *Record, op *Op, env Env) (a Answer, changed bool) {
	switch {
	case op.Kind == Claim:
		a, changed = claim(r, op, env)
	case op.Kind <= End:
		a, changed = owner(r, op, env)
	case op.Kind == NoteLetter, op.Kind == MoveLetter, op.Kind == SendNoted:
		a.Kind, changed = Done, letter(r, op, env)
	case op.Kind >= Unlock && op.Kind <= Sweep:
		a, changed = operator(r, op, env)
	default:
		a.Kind = Refused
	}
	return finish(r, op, a), changed
}

// Those of the closed list of dead-letter reasons that the table itself gives
// or looks at.
const (
	ReasonInDoubt   = "in-doubt"  // a record held by a claim
	ReasonTerminal  = "terminal"  // reconciliation, or a guard, said that it failed for good
	ReasonExhausted = "exhausted" // a guard's key whose failures are used up
)

// letter is what an operation on a letter that was not refused does to the
// record of its key.
func letter(r *Record, op *Op, env Env) (changed bool) {
	l := &op.Letter.Letter
	if op.Key.OfLetter() {
		changed = follow(r, env.Letter, op.Letter.Window, env)
	}
	switch {
	case op.Kind == NoteLetter && r.Owed && op.Letter.Settles && l.Opened == r.Opened:
		// Even if a late owner has changed the reason since: it is the same incident.
		r.Owed, changed = false, true
	case op.Kind == SendNoted && r.Job != "" && r.Job == l.Job && !r.Sent:
		r.Sent, changed = true, true
	}
	return changed
}

// finish fills in what every answer says of the record.
func finish(r *Record, op *Op, a Answer) Answer {
	a.State, a.Fence, a.Run, a.Opened = r.State, r.Fence, r.Run, r.Opened
	a.Failures, a.Crashes, a.Lone = r.Failures, r.Crashes, r.Lone
	switch a.Kind {
	case Busy, NotBefore, TooOld, Invalid:
	case Done:
		if op.Kind == End && r.State == InDoubt {
			c := r.Clone()
			a.Record = &c
		}
	case Acquired:
		if r.Failures == 0 && r.Crashes == 0 && r.Run == 1 && len(r.Intents) == 0 {
			break // nothing to tell: the common case costs no allocation
		}
		fallthrough
	default:
		if r.State != Absent {
			c := r.Clone()
			a.Record = &c
		}
	}
	return a
}

func raise(r *Record, env Env) { r.Fence = max(r.Fence+1, env.FenceFloor) }

// open begins a new run: its incident is named by the fence that opened it.
func open(r *Record, env Env) {
	raise(r, env)
	r.State, r.Run, r.Opened = Retryable, r.Run+1, r.Fence
	r.Failures, r.Crashes, r.Lone = 0, 0, 0
	r.FirstFailed, r.LastFailed = time.Time{}, time.Time{}
	r.Live, r.Alone, r.Owed, r.Sent = false, false, false, false
	r.NotBefore, r.LeaseUntil, r.Finished = time.Time{}, time.Time{}, time.Time{}
	r.Reason, r.Error, r.ErrorType, r.Stack = "", "", "", ""
	r.Job, r.Letter = "", ""
	r.Result, r.Digest = nil, false
}

// at is when somebody asked the other side; never later than now, so that a
// clock that runs ahead ends no quiet period early.
func at(t time.Time, env Env) time.Time {
	if t.IsZero() || t.After(env.Now) {
		return env.Now
	}
	return t
}
