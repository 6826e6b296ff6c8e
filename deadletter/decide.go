package deadletter

import (
	"time"

	"github.com/onceward/onceward/dedup"
)

// Action is what a plan does about a letter.
type Action string

// The actions.
const (
	Reopen  Action = "reopen"  // open the record for a further run, and send
	Send    Action = "send"    // send; the record allows it, or there is none
	Resolve Action = "resolve" // nothing is left to be done: say so of the letter
	Miss    Action = "miss"    // its message is not in the topic any more: say so of the letter
	Skip    Action = "skip"    // not now, or somebody else's
	Refuse  Action = "refuse"  // a person must look first
)

// sends says that a copy of the letter is published.
func (a Action) sends() bool { return a == Reopen || a == Send }

// known says that this release has the action. What another one means by its own
// must not be taken for anything else.
func (a Action) known() bool {
	switch a {
	case Reopen, Send, Resolve, Miss, Skip, Refuse:
		return true
	}
	return false
}

// Decision is what a plan does about a letter, and why.
type Decision struct {
	Action Action `json:"action"`
	Why    string `json:"why"`
	// Approvable says that a person's approval turns this refusal into a send.
	Approvable bool `json:"approvable,omitzero"`
	// Expired says that accepting expired letters, with a reason, does.
	Expired bool `json:"expired,omitzero"`
}

// Terms are what a decision takes into account besides letter and record.
type Terms struct {
	Now    time.Time
	Window time.Duration
	// AcceptExpired sends what is older than the window and has no record.
	AcceptExpired bool
	// Approved says that a person has looked at this very letter.
	Approved bool
}

// Decide is the one place that says what a replay does about a letter, by its
// note and by the record of its key, absent where there is none. It is pure.
func Decide(e *Entry, r *dedup.Record, t Terms) Decision {
	if e.Err != nil {
		return Decision{Action: Refuse, Why: "no readable letter: " + e.Err.Error()}
	}
	if d, decided := byNote(e, r, t); decided {
		return d
	}
	d := byRecord(e, r, t)
	if d.Action == Refuse && d.Approvable && t.Approved {
		return Decision{Action: approved(r), Why: "approved, though " + d.Why}
	}
	return d
}

const (
	whyExpired   = "older than the window: it may have been done, and forgotten"
	whyForgotten = "forgotten together with its record: it may have been dealt with"
)

// expiry says why the letter's operation, of which there is no record, may have
// been done and forgotten; empty where it cannot. A letter that says too-old is
// young, and its message is not. And a note is forgotten together with its
// record, which may have ended long before the letter of a conflict was written;
// those of others, without a run, never had one.
func (e *Entry) expiry(now time.Time, window time.Duration) string {
	l := &e.Letter
	switch {
	case l.Reason == ReasonTooOld, e.old(now, window):
		return whyExpired
	case e.Note.State == dedup.LetterNone && l.Key.ID != "" && l.Run > 0:
		return whyForgotten
	}
	return ""
}

func approved(r *dedup.Record) Action {
	if r.State == dedup.Failed || r.State == dedup.Retryable || r.State == dedup.InDoubt {
		return Reopen
	}
	return Send
}

// byNote decides what the letter's own state decides.
func byNote(e *Entry, r *dedup.Record, t Terms) (Decision, bool) {
	n := &e.Note
	switch {
	case n.State == dedup.LetterResolved, n.State == dedup.LetterDiscarded, n.State == dedup.LetterGone:
		return Decision{Action: Skip, Why: "letter is " + n.State.String()}, true
	case n.State == dedup.LetterSent, n.State == dedup.LetterOpen && n.Job != "":
		return Decision{Action: Skip, Why: "taken by job " + n.Job}, true
	case n.State == dedup.LetterHeld && !t.Approved:
		return Decision{Action: Refuse, Why: "held: its third run has failed", Approvable: true}, true
	case r.Owed:
		return Decision{Action: Skip, Why: "not noted yet: the next delivery does it"}, true
	}
	return Decision{}, false
}

// byRecord decides what is left to the record of the letter's key.
func byRecord(e *Entry, r *dedup.Record, t Terms) Decision {
	l := &e.Letter
	keyless := l.Key.ID == ""
	if keyless || r.State == dedup.Absent {
		// The record of a letter without a key knows nothing of the operation, which
		// may have been done under its key.
		if why := e.expiry(t.Now, t.Window); why != "" && !t.AcceptExpired {
			return Decision{Action: Refuse, Why: why, Expired: true}
		}
	}
	// What nobody has noted names its run by the letter.
	present := keyless || e.Note.State != dedup.LetterNone && e.Note.Opened == r.Opened ||
		e.Note.State == dedup.LetterNone && l.Run == r.Run
	other := l.Fingerprint.Differs(r.Fingerprint)
	switch r.State {
	case dedup.Absent:
		return Decision{Action: Send, Why: "no record"}
	case dedup.InProgress:
		if r.Live {
			return Decision{Action: Skip, Why: "its operation is running"}
		}
		return Decision{Action: Send, Why: "its operation was running when the process died"}
	case dedup.InDoubt:
		if r.Doubt() {
			return Decision{Action: Refuse, Why: "in doubt: reconcile its effects first"}
		}
		return Decision{Action: Refuse, Why: "in doubt: find out whether it happened", Approvable: true}
	case dedup.Tombstone:
		if r.Outcome == dedup.Succeeded && !other {
			return Decision{Action: Resolve, Why: "succeeded, and archived"}
		}
		return Decision{Action: Refuse, Why: "archived as " + r.Outcome.String() + ", which is for good"}
	case dedup.Succeeded:
		if other {
			return Decision{Action: Refuse, Why: "its id has succeeded with other content"}
		}
		return Decision{Action: Resolve, Why: "succeeded meanwhile"}
	case dedup.Failed, dedup.Retryable:
		switch {
		case other:
			return Decision{Action: Refuse, Why: "its id " + stands(r) + ", with other content", Approvable: true}
		case present:
			return Decision{Action: Reopen, Why: "its operation " + stands(r)}
		case r.State == dedup.Failed:
			return Decision{Action: Resolve, Why: "superseded: a later run has a letter of its own"}
		}
		return Decision{Action: Send, Why: "waits in a later run"}
	}
	return Decision{Action: Refuse, Why: "its record is in the unknown state " + r.State.String()}
}

// stands is where an operation stands that has failed or waits, for people.
func stands(r *dedup.Record) string {
	if r.State == dedup.Failed {
		return "has failed"
	}
	return "waits to run again"
}
