package dedup

import "time"

// LetterState is where a dead letter stands.
type LetterState uint8

// The states; on disk: never renumber.
const (
	LetterNone      LetterState = iota
	LetterOpen                  // confirmed at the dead-letter topic
	LetterSent                  // a replay's copy is confirmed and not answered yet
	LetterResolved              // its copy was answered, or its operation is finished otherwise
	LetterDiscarded             // by a person; only when its record is finished
	LetterHeld                  // failed too often: a person must approve
	LetterGone                  // removed by the topic's retention
)

var letterStateNames = [...]string{"none", "open", "sent", "resolved", "discarded", "held", "gone"}

func (s LetterState) String() string {
	if int(s) < len(letterStateNames) {
		return letterStateNames[s]
	}
	return "invalid"
}

// Letter is the store's note of one dead letter, by dl-id. One whose message
// has no usable key (decode, key), or no record (too-old), has a [LetterKey].
type Letter struct {
	ID     string // dl-id: 1 to [MaxLetterID] bytes
	Key    Key
	State  LetterState
	Reason string
	// Run that the letter speaks of. Under a [LetterKey], how many copies of the
	// message have died, the first included.
	Run    uint32
	Opened uint64 // the fence that opened that run
	Source Position
	Time   time.Time // when the broker stored the message
	Noted  time.Time // by the store's clock, or before where whoever noted it knew the letter to be older
	Moved  time.Time

	// Token is random and set by a replay: the only thing that a header may
	// present. It stays when no job holds the letter any more, so that a repeat of
	// the copy is known, and gives no right then.
	Token string
	Job   string // replay job that holds it
	// Expired says that its copy is sent although the window is over, and that a
	// person has said why: no claim that presents the token is too old.
	Expired bool
	Answer  State // of a resolved letter: what its copy was answered with; Absent where no copy was
	Who     string
	Why     string
}

// heldFrom is the run with which a letter becomes held: who has seen the same
// message die three times must look before it is sent once more.
const heldFrom = 3

// LetterOp is the part of an [Op] about a letter.
type LetterOp struct {
	// Letter for NoteLetter: ID, Reason, Run, Opened, Source and Time, the Token
	// that the dead copy bore, and Noted of a letter that is older than its note.
	// For MoveLetter and SendNoted: ID, and Token, Expired, Job, Answer, Who, Why
	// as they become; for MoveLetter also Run as seen, see Letter.Seen, or 0.
	Letter Letter
	From   LetterState // MoveLetter: as seen; refused when it moved on
	To     LetterState // MoveLetter
	// Settles, of NoteLetter, says that this is the letter which the record of the
	// run that Opened names owes; it is owed no longer. Only the consumer whose
	// record it is can know: it has published that letter.
	Settles bool
	// Window, of NoteLetter under a [LetterKey], is that of the record.
	Window time.Duration
}

// StepLetter is the pure transition of a letter's note, as [Step] is of a
// record. rec is the record of the letter's key, nil or Absent when there is
// none. The record itself is advanced by Step with the same Op.
//
//   - NoteLetter makes an absent letter open, or held when its third run has
//     failed; repeated, it changes nothing. With the token of a letter that is
//     open or sent it says that the copy died too: open again, one run further,
//     and why is the job that sent it.
//   - MoveLetter follows From → To where the table allows it: open → open,
//     sent, resolved, discarded, held, gone; sent → open, resolved, held, gone;
//     held → open, sent, resolved, discarded, gone; gone → resolved. open → open
//     is a job that takes the letter, so that its token is held before the copy
//     that bears it is sent; or, without a job, a person who frees it. A letter
//     is discarded only when its record is finished or absent; what a job holds,
//     open or sent, nobody else takes, sends, resolves or discards, and the same
//     job does not take it with another token. sent → resolved by
//     whoever presents the letter's token or job is the answer to a copy, which
//     may come before the copy is noted: an open letter is resolved by it too.
//   - SendNoted makes a letter sent that is open or held, for the job that holds
//     it: where the copy has died before it was noted, none does.
//
// The letter comes first: where it is refused, the record is left alone too.
func StepLetter(l Letter, rec *Record, op *Op, now time.Time) (Letter, AnswerKind) {
	if l.State != LetterNone && l.Key != op.Key {
		return l, Refused
	}
	switch op.Kind {
	case NoteLetter:
		return noteLetter(l, op, now), Done
	case MoveLetter, SendNoted:
		return moveLetter(l, rec, op, now)
	}
	return l, Refused
}

func noteLetter(l Letter, op *Op, now time.Time) Letter {
	o := &op.Letter.Letter
	switch {
	case l.State == LetterNone:
		l = *o
		l.Key, l.Token, l.Why = op.Key, "", ""
		if o.Noted.IsZero() || o.Noted.After(now) {
			l.Noted = now
		}
	case l.Awaits(o.Token):
		l.Run = l.Seen() + 1
		l.Why = l.Job
	default:
		return l
	}
	l.State, l.Moved = LetterOpen, now
	if l.Run >= heldFrom {
		l.State = LetterHeld
	}
	l.Job, l.Expired, l.Answer, l.Who = "", false, Absent, ""
	return l
}

func moveLetter(l Letter, rec *Record, op *Op, now time.Time) (Letter, AnswerKind) {
	o, from, to := &op.Letter.Letter, op.Letter.From, op.Letter.To
	if op.Kind == SendNoted {
		from, to = l.State, LetterSent
		if l.State == LetterSent && l.Job == o.Job {
			return l, Done
		}
		if l.Job != o.Job {
			return l, Refused
		}
	}
	answer := from == LetterSent && to == LetterResolved && (l.Awaits(o.Token) || o.Job != "" && o.Job == l.Job)
	if answer && l.State == LetterOpen {
		from = LetterOpen
	}
	switch {
	case l.State != from || from > LetterGone || to > LetterGone || !letterMoves[from][to]:
		return l, Refused
	case op.Kind == MoveLetter && o.Run != 0 && o.Run != l.Seen():
		return l, Refused // it was sent, and has died again, and is open as before
	case to == LetterDiscarded && rec != nil && rec.State != Absent && rec.Ended() == Absent:
		return l, Refused
	case !answer && l.heldByOther(o.Job) && (to == LetterResolved || to == LetterDiscarded || to == LetterSent || from == to && o.Job != ""):
		return l, Refused
	case from == LetterOpen && to == LetterOpen && o.Token != "" && o.Job != "" && l.Job == o.Job && l.Token != o.Token:
		return l, Refused // the copy that is on its way bears the first
	}
	if to == LetterSent || to == LetterOpen {
		if o.Token != "" || o.Job != "" && l.Job != o.Job {
			l.Token = o.Token
		}
		if op.Kind == MoveLetter {
			l.Expired = o.Expired
		}
		l.Job = o.Job
	}
	l.State, l.Moved, l.Answer = to, now, o.Answer
	if !answer || o.Who != "" {
		l.Who, l.Why = o.Who, o.Why // else the answer leaves who sent the copy, and why
	}
	return l, Done
}

// Seen is the run that whoever moves the letter has seen: 1 where the note does
// not say.
func (l *Letter) Seen() uint32 { return max(l.Run, 1) }

// Awaits says that token is that of a copy which is not answered yet, of a
// letter that a job holds, open or sent.
func (l *Letter) Awaits(token string) bool {
	return token != "" && token == l.Token && l.Job != "" && (l.State == LetterOpen || l.State == LetterSent)
}

// heldBy says that job may open a record for a copy of this letter. Letters of
// which the store has no note are nobody's.
func (l *Letter) heldBy(job string) bool {
	return l == nil || l.State == LetterNone || l.State == LetterOpen && l.Job == job
}

func (l *Letter) heldByOther(job string) bool {
	return (l.State == LetterOpen || l.State == LetterSent) && l.Job != "" && l.Job != job
}

// Admits says that a claim of key that bears token is not too old because of
// this letter: its copy is not answered yet and was sent although it had expired,
// and it is of this key or, where it was written without a usable one, of this
// consumer.
func (l *Letter) Admits(token string, key Key) bool {
	return l.Expired && l.Awaits(token) && (l.Key == key || l.Key.OfLetter() && l.Key.Consumer == key.Consumer)
}

// follow makes r, the record under a [LetterKey], say what has become of l, the
// only letter of the key, and reports whether it had to. Its runs are opened by
// replays, as those of any record, and end with their copy; where nobody holds
// the letter, none is open.
func follow(r *Record, l *Letter, window time.Duration, env Env) (changed bool) {
	if r.State == Absent {
		key, fence := r.Key, r.Fence
		*r = Record{Key: key, Fence: fence, Created: env.Now, Source: l.Source, Window: window}
		open(r, env)
		changed = true
	}
	state, reason := Failed, l.Reason
	switch {
	case l.State == LetterResolved && l.Answer == Succeeded:
		state, reason = Succeeded, ""
	case l.Job != "" && (l.State == LetterOpen || l.State == LetterSent):
		return changed // the job opens the record, and the copy is on its way
	}
	if r.State == state {
		return changed
	}
	r.State, r.Reason, r.Finished = state, reason, env.Now
	return true
}

// Unfinished letters, those open, sent or held, keep their record from being
// swept or deleted.
func (s LetterState) Unfinished() bool {
	return s == LetterOpen || s == LetterSent || s == LetterHeld
}

var letterMoves = [...][LetterGone + 1]bool{
	LetterNone:      {},
	LetterOpen:      {LetterOpen: true, LetterSent: true, LetterResolved: true, LetterDiscarded: true, LetterHeld: true, LetterGone: true},
	LetterSent:      {LetterOpen: true, LetterResolved: true, LetterHeld: true, LetterGone: true},
	LetterResolved:  {},
	LetterDiscarded: {},
	LetterHeld:      {LetterOpen: true, LetterSent: true, LetterResolved: true, LetterDiscarded: true, LetterGone: true},
	LetterGone:      {LetterResolved: true},
}
