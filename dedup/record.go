package dedup

import (
	"slices"
	"time"
)

// State is what a record says of its operation. "Lapsed" is no state: it is
// computed from the lease by the store's clock.
type State uint8

// The states. Their numbers are on disk and on the wire: never renumber.
const (
	Absent     State = iota
	InProgress       // claimed; lapsed when its lease is over
	Retryable        // released, may run again
	InDoubt          // held: an effect may have happened
	Succeeded
	Failed    // for good
	Tombstone // archived: answers as the outcome it keeps
)

var stateNames = [...]string{"absent", "in_progress", "retryable", "in_doubt", "succeeded", "failed", "tombstone"}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "invalid"
}

// Token names one claim attempt of one delivery: random, new for each attempt,
// and reused only to repeat a call whose answer was lost.
type Token [16]byte

// Fingerprint is a digest of what must be equal when the key is equal. Rule
// names how it was made; fingerprints of different rules are never compared.
type Fingerprint struct {
	Sum  [32]byte
	Rule uint32
}

// Differs says that f and o are known to be of different content. Where their
// rules differ, nobody knows.
func (f Fingerprint) Differs(o Fingerprint) bool { return f.Rule == o.Rule && f.Sum != o.Sum }

// PayloadRule is the rule where nothing else is said: SHA-256 of the whole
// content, as it is.
const PayloadRule = 1

// Position is a place in a source: where a message was read. The zero Position
// is none (a guard has no source). Source identifies one life of a topic or
// stream; positions of different sources are never compared.
type Position struct {
	Source    string
	Partition int32
	Offset    int64
}

// IntentStatus is what the record knows of one declared effect.
type IntentStatus uint8

// The statuses; on disk: never renumber.
const (
	NoIntent   IntentStatus = iota
	Dispatched              // written before the call; in doubt until confirmed or withdrawn
	Confirmed
)

// Intent is the durable record of one declared effect of a key.
type Intent struct {
	Effect     string // the effect's name on its route
	Status     IntentStatus
	Blind      bool      // the effect has no Verify
	EffectRun  uint32    // part of the provider key; raised only by an approval that names the effect
	Dispatched time.Time // by the store's clock
	QuietFor   time.Duration
	External   string // what the other side calls it, once confirmed
	Outcome    []byte // what is given to the handler in place of a second call
}

// Record is what the store knows of a key. Stores hand out copies.
type Record struct {
	Key   Key
	State State

	// Fence is larger than any given before for this key, also after deletion.
	Fence uint64
	// Opened is the fence that opened the present run; it names the incident.
	Opened uint64
	// Run counts from 1 and rises when the record is reopened.
	Run uint32

	// Token of the claim that holds or held the record last.
	Token Token
	// LeaseUntil is the end of the lease by the store's clock.
	LeaseUntil time.Time
	// Live says that the lease ran when the record was read.
	Live bool
	// Alone says that the owner runs with no other handler beside it.
	Alone bool
	// NotBefore is when a retryable record may be claimed again.
	NotBefore time.Time

	// Failures, Crashes and Lone (crashes while alone) of the present run.
	Failures, Crashes, Lone uint32
	FirstFailed, LastFailed time.Time

	// Owed says that the outcome is durable and its letter not confirmed yet.
	Owed bool
	// Reason, Error, ErrorType and Stack are what that letter says.
	Reason    string
	Error     string
	ErrorType string
	Stack     string

	Fingerprint Fingerprint
	// Result is what the handler returned, or its SHA-256 where Digest is set
	// because it was larger than the policy keeps.
	Result []byte
	Digest bool

	Intents []Intent

	// Source is where the delivery that made or last claimed the record lies.
	Source Position
	// Created, Claimed and Finished by the store's clock; zero when not yet.
	Created, Claimed, Finished time.Time
	// Policy as of the last claim: it decides expiry.
	Window  time.Duration
	Archive bool
	// Outcome that a tombstone keeps: Succeeded or Failed.
	Outcome State

	// Job and Letter of the replay that opened the present run; Approver and
	// Why of whoever decided it.
	Job      string
	Letter   string
	Sent     bool // the copy that Job sends is confirmed
	Approver string
	Why      string

	// Evidence of writes by superseded owners, newest last, at most 4.
	Evidence []Evidence
}

// Evidence is a write that changed nothing because its owner was superseded:
// a suspected double execution.
type Evidence struct {
	At      time.Time
	Kind    Kind
	Fence   uint64
	Outcome Outcome
	Note    string // error or result of the late owner, at most 256 bytes
}

// Clone returns a copy that shares nothing with r that can be written to.
func (r *Record) Clone() Record {
	c := *r
	c.Result, c.Intents, c.Evidence = slices.Clone(r.Result), slices.Clone(r.Intents), slices.Clone(r.Evidence)
	for i := range c.Intents {
		c.Intents[i].Outcome = slices.Clone(c.Intents[i].Outcome)
	}
	return c
}

// Doubt says that an effect was dispatched and nobody knows whether it
// happened.
func (r *Record) Doubt() bool {
	for i := range r.Intents {
		if r.Intents[i].Status == Dispatched {
			return true
		}
	}
	return false
}

// Blind says that an effect in doubt has no way of asking.
func (r *Record) Blind() bool {
	for i := range r.Intents {
		if r.Intents[i].Status == Dispatched && r.Intents[i].Blind {
			return true
		}
	}
	return false
}

// touched says that any effect was dispatched or confirmed.
func (r *Record) touched() bool {
	for i := range r.Intents {
		if r.Intents[i].Status != NoIntent {
			return true
		}
	}
	return false
}

// Ended is the outcome that a finished record or a tombstone answers with:
// Succeeded, Failed, or Absent when it is not finished.
func (r *Record) Ended() State {
	switch r.State {
	case Succeeded, Failed:
		return r.State
	case Tombstone:
		return r.Outcome
	}
	return Absent
}

// Seen is r as an operation of somebody who has looked at it names it.
func (r *Record) Seen() Seen { return Seen{State: r.State, Run: r.Run, Fence: r.Fence} }

// intent returns the place of the effect's intent, appending an empty one
// when there is none.
func (r *Record) intent(effect string) *Intent {
	for i := range r.Intents {
		if r.Intents[i].Effect == effect {
			return &r.Intents[i]
		}
	}
	r.Intents = append(r.Intents, Intent{Effect: effect})
	return &r.Intents[len(r.Intents)-1]
}
