package consumer

import (
	"time"

	"github.com/onceward/onceward/dedup"
)

// Decision is what became of one delivery, or of one attempt at it.
type Decision struct {
	Key       dedup.Key // zero when no id was found
	Topic     string
	Partition int32
	Offset    int64
	Time      time.Time // when the broker stored the message
	Verdict   Verdict
	// Reason of a letter, empty otherwise.
	Reason string
	// Ran is how long the handler ran; 0 when it did not.
	Ran time.Duration
	// Wait until it is tried again, for Retried, Released and Waiting; 0 for
	// all others. What waits with the broker may say 0.
	Wait time.Duration
	// Err of the handler or of what went wrong, redacted.
	Err error
}

// Verdict is the closed list of what can become of a delivery.
type Verdict uint8

// The verdicts.
const (
	Handled       Verdict = iota + 1 // the handler succeeded and it is recorded
	Skipped                          // the handler said it is not its own
	Duplicate                        // answered from a succeeded record
	DuplicateDead                    // answered from a failed record
	Retried                          // failed, will run again
	Released                         // cut short, will run again, not counted
	Waiting                          // busy or early: parked or deferred
	Dead                             // a letter is confirmed; see Reason
	Doubtful                         // held in doubt, its letter is confirmed
	Superseded                       // finished after somebody else had claimed it: suspected double execution
)

var verdictNames = [...]string{
	"", "handled", "skipped", "duplicate", "duplicate_dead", "retried", "released", "waiting", "dead", "doubtful",
	"superseded",
}

func (v Verdict) String() string {
	if int(v) < len(verdictNames) {
		return verdictNames[v]
	}
	return "invalid"
}
