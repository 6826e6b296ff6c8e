package dedup

import "time"

// Kind is one row, or group of rows, of the state table.
type Kind uint8

// The kinds. Their numbers are in the evidence on disk: never renumber.
const (
	// Claim makes one delivery the owner of its key.
	Claim Kind = iota + 1
	// By the owner; Fence is the one that its claim was given.
	Renew     // lease begins again
	Alone     // nothing else runs in the process and nothing will until this claim ends
	Dispatch  // an effect's intent, before its call
	Confirm   // the call, or Verify, said: happened
	Refuse    // the call said: did not happen
	VerifyNot // Verify, asked after the quiet period, said: did not happen
	End       // with Outcome
	// By whoever published a letter.
	NoteLetter // the letter is confirmed: it is open, and no longer owed
	MoveLetter // operator, replay or retention: its next state
	// By a runner, of a source.
	Advance // every offset below Position.Offset is settled
	// By an operator or a replay; each names the record as seen.
	Unlock
	Delete
	Import
	Reconcile
	Reopen
	// SendNoted: the copy that Reopen named is confirmed.
	SendNoted
	// By the store's own sweeper.
	Sweep
)

var kindNames = [...]string{
	"none", "claim", "renew", "alone", "dispatch", "confirm", "refuse", "verify_not", "end", "note_letter",
	"move_letter", "advance", "unlock", "delete", "import", "reconcile", "reopen", "send_noted", "sweep",
}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "invalid"
}

// Outcome is how a claim ended.
type Outcome uint8

// The outcomes; in evidence on disk: never renumber.
const (
	Success   Outcome = iota + 1
	Terminal          // never again
	Exhausted         // the last failure, or the burial of a key whose failures or lone crashes are used up
	Failure           // counted, may run again
	Release           // uncounted: shutdown, lost partition, lost lease, probe
	Doubt             // the handler said so, or Verify could not tell
	Skip              // not mine: leaves no record
)

var outcomeNames = [...]string{"none", "success", "terminal", "exhausted", "failure", "release", "doubt", "skip"}

func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return "invalid"
}

// Policy is what a route decides for its keys, shared by all its claims.
type Policy struct {
	// Failures is the bound of counted failures, at least 1.
	Failures uint32
	// Lone is the bound of crashes while alone, at least 1.
	Lone uint32
	// Window is how long a finished record is kept.
	Window time.Duration
	// Archive keeps a tombstone when the window is over.
	Archive bool
	// NoLetters says that nobody writes letters for these keys, so that none is
	// ever owed: a guard answers its caller instead.
	NoLetters bool
}

// Op is one operation on one key (or, for Advance, on one position). The
// fields used by each kind are said beside them; others must be zero. Texts
// have at most [MaxError] bytes, stacks [MaxStack], results and outcomes of
// effects [MaxResult]: see [Op.Validate].
type Op struct {
	Kind  Kind
	Key   Key    // of Advance the consumer alone
	Fence uint64 // owner kinds

	// Claim.
	Token       Token // also End: tells a repeat of the same write apart
	Fingerprint Fingerprint
	Policy      *Policy       // also End
	Lease       time.Duration // also Renew; 1 s to 24 h
	Position    Position      // also Advance
	Stored      time.Time     // when the broker stored the message; zero: now
	// Copy says that the message was sent once more, to a retry topic or as the
	// copy of a letter. Without a record it is too old when it is older than the
	// window, wherever it lies: its record has been swept.
	Copy        bool
	ReplayToken string // overrides too old where a letter of this key admits it

	// End.
	Outcome   Outcome
	Wait      time.Duration // Failure, Release: not before
	Result    []byte
	Digest    bool
	Reason    string
	Error     string
	ErrorType string
	Stack     string
	// Enlisted is written in the same commit by stores that can; see [Enlist].
	Enlisted []any

	Effect   *EffectOp   // Dispatch, Confirm, Refuse, VerifyNot
	Letter   *LetterOp   // NoteLetter, MoveLetter, SendNoted
	Operator *OperatorOp // Unlock to Sweep
}

// EffectOp names an effect and what is known of it.
type EffectOp struct {
	Name     string
	Blind    bool          // Dispatch
	QuietFor time.Duration // Dispatch
	AskedAt  time.Time     // VerifyNot: when Verify was asked, by the store's clock; zero: now
	External string        // Confirm
	Outcome  []byte        // Confirm
}

// Verdict decides one doubt.
type Verdict uint8

// The verdicts.
const (
	Keep     Verdict = iota
	Happened         // by the other side's books
	DidNot           // by books read after the quiet period
	RunAgain         // effect run + 1: approved, whatever happened before
)

// Seen is a record as whoever decided saw it. The write is refused when the
// record has moved on.
type Seen struct {
	State State
	Run   uint32
	Fence uint64
}

// OperatorOp is a person's, a replay's or the sweeper's decision.
type OperatorOp struct {
	Seen        Seen
	Expires     time.Time // an approval after this time is refused; zero: never
	Who, Why    string
	Decide      map[string]Verdict // Reconcile, Reopen: by effect name
	BooksReadAt time.Time          // DidNot: when the books were read, by the store's clock; zero: now
	To          Outcome            // Reconcile: Success, Terminal, Release
	Fingerprint Fingerprint        // Import, Reopen
	Result      []byte             // Import, Reconcile
	Window      time.Duration      // Import
	Archive     bool               // Import
	Job         string             // Reopen
	Letter      string             // Reopen: dl-id of the letter it sends
	LetterRun   uint32             // Reopen: the run that the letter speaks of
	Send        Position           // Reopen: source position it sends where there is no letter
}

// Answer is what the store says to an [Op].
type Answer struct {
	Kind AnswerKind
	// State, Fence and Run of the record after the operation. An End that
	// leaves another State than its outcome asks for, such as InDoubt for a
	// success with an effect in doubt, is told by State.
	State State
	Fence uint64
	Run   uint32
	// Failures and Crashes counted so far in this run.
	Failures, Crashes, Lone uint32
	// Opened is the fence that opened the run; it names the incident.
	Opened uint64
	// OtherRule says that fingerprints were made by different rules and not
	// compared.
	OtherRule bool
	// Wait is the remaining lease (Busy) or the time left (NotBefore).
	Wait time.Duration
	// Record after the operation, a copy: set for every answer to a claim
	// but Acquired of a record without a history, Busy, NotBefore and TooOld;
	// set for Fenced and Refused when there is one, and for an End that left
	// it InDoubt; nil for any other Done.
	Record *Record
	// Err is this item's own fault; the record is unchanged and Kind is
	// Invalid.
	Err error
}

// AnswerKind is the closed list of answers.
type AnswerKind uint8

// The answers. A claim is answered by the first that holds.
const (
	Invalid AnswerKind = iota // see Err
	Done
	Acquired           // run it, and end the claim
	AcquiredInDoubt    // find out first whether its effects happened
	AcquiredToBury     // failures or lone crashes are used up: end it as Exhausted
	Busy               // another claim holds it, for Wait unless that renews
	NotBefore          // it waits to run again, for Wait
	DuplicateSucceeded // it is done: answer with Record
	DuplicateFailed    // it has failed for good, as Record says
	HeldInDoubt        // nobody knows whether it happened, and a person must decide
	Conflict           // the key is that of other content
	TooOld             // older than the window, and its record may be gone
	Fenced             // superseded, or the claim has ended: nothing changed
	Refused            // a guard does not hold: nothing changed
	Continued          // this very job has reopened it before
)

var answerNames = [...]string{
	"invalid", "done", "acquired", "acquired_in_doubt", "acquired_to_bury", "busy", "not_before", "duplicate_succeeded",
	"duplicate_failed", "held_in_doubt", "conflict", "too_old", "fenced", "refused", "continued",
}

func (k AnswerKind) String() string {
	if int(k) < len(answerNames) {
		return answerNames[k]
	}
	return "invalid"
}

// Acquired says that the claimant owns the key now.
func (k AnswerKind) Acquired() bool {
	return k == Acquired || k == AcquiredInDoubt || k == AcquiredToBury
}
