package dedup

import (
	"fmt"
	"slices"
	"time"

	"github.com/onceward/onceward/internal/cut"
)

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

// Those of the closed list of dead-letter reasons that the table itself gives
// or looks at.
const (
	ReasonInDoubt   = "in-doubt"  // a record held by a claim
	ReasonTerminal  = "terminal"  // reconciliation, or a guard, said that it failed for good
	ReasonExhausted = "exhausted" // a guard's key whose failures are used up
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

// at is when somebody asked the other side; never later than now, so that a
// clock that runs ahead ends no quiet period early.
func at(t time.Time, env Env) time.Time {
	if t.IsZero() || t.After(env.Now) {
		return env.Now
	}
	return t
}

// fenced keeps what a superseded owner had to say as evidence. The outcome it
// would have written may have happened twice.
func fenced(r *Record, op *Op, env Env) (Answer, bool) {
	a := Answer{Kind: Fenced}
	if r.State == Absent || repeated(r, op) {
		return a, false
	}
	switch {
	case op.Kind == End && op.Outcome != Release, op.Kind == Confirm, op.Kind == Refuse:
		return a, testify(r, op, env)
	}
	return a, false
}

// repeated says that op is the last write of this very claim once more, its
// answer lost.
func repeated(r *Record, op *Op) bool {
	if r.Fence != op.Fence {
		return false
	}
	if op.Kind == End {
		return r.Token == op.Token
	}
	status := intentOf(r, op).Status
	return op.Kind == Confirm && status == Confirmed || op.Kind == Refuse && status == NoIntent
}

// testify adds what op says to the evidence, once.
func testify(r *Record, op *Op, env Env) (changed bool) {
	e := Evidence{At: env.Now, Kind: op.Kind, Fence: op.Fence, Outcome: op.Outcome, Note: note(op)}
	for _, known := range r.Evidence {
		known.At = e.At
		if known == e {
			return false
		}
	}
	r.Evidence = append(slices.Clone(r.Evidence[max(0, len(r.Evidence)-maxEvidence+1):]), e)
	return true
}

const (
	maxEvidence = 4
	maxNote     = 256
)

// note is what a late owner had to say, in a few words.
func note(op *Op) string {
	switch {
	case op.Effect != nil && op.Effect.External != "":
		return cut.Text(op.Effect.Name+": "+op.Effect.External, maxNote)
	case op.Effect != nil:
		return cut.Text(op.Effect.Name, maxNote)
	case op.Error != "":
		return cut.Text(op.Error, maxNote)
	}
	return cut.Text(string(op.Result[:min(len(op.Result), maxNote+1)]), maxNote)
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

// over says that a finished record's window is over. A window of 0 is kept
// for ever.
func (r *Record) over(now time.Time) bool {
	return r.Window > 0 && !r.Finished.IsZero() && !r.Finished.Add(r.Window).After(now)
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
