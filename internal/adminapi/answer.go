package adminapi

import (
	"time"

	"github.com/onceward/onceward/dedup"
)

// Answer is a [dedup.Answer].
type Answer struct {
	Kind      AnswerKind `json:"kind"`
	State     State      `json:"state"`
	Fence     uint64     `json:"fence,omitzero"`
	Run       uint32     `json:"run,omitzero"`
	Failures  uint32     `json:"failures,omitzero"`
	Crashes   uint32     `json:"crashes,omitzero"`
	Lone      uint32     `json:"lone,omitzero"`
	Opened    uint64     `json:"opened,omitzero"`
	OtherRule bool       `json:"other_rule,omitzero"`
	Wait      Duration   `json:"wait,omitzero"`
	Record    *Record    `json:"record,omitzero"`
	Error     *Fault     `json:"error,omitzero"`
}

// OfAnswer is a as JSON; byte slices are shared.
func OfAnswer(a *dedup.Answer) *Answer {
	out := &Answer{
		Kind: AnswerKind(a.Kind), State: State(a.State), Fence: a.Fence, Run: a.Run,
		Failures: a.Failures, Crashes: a.Crashes, Lone: a.Lone, Opened: a.Opened,
		OtherRule: a.OtherRule, Wait: Duration(a.Wait), Error: OfError(a.Err),
	}
	if a.Record != nil {
		out.Record = OfRecord(a.Record)
	}
	return out
}

// Dedup is a as the store gave it; byte slices are shared. Of an error its text
// and what errors.Is finds in it are left.
func (a *Answer) Dedup() dedup.Answer {
	out := dedup.Answer{
		Kind: dedup.AnswerKind(a.Kind), State: dedup.State(a.State), Fence: a.Fence, Run: a.Run,
		Failures: a.Failures, Crashes: a.Crashes, Lone: a.Lone, Opened: a.Opened,
		OtherRule: a.OtherRule, Wait: time.Duration(a.Wait), Err: a.Error.Err(),
	}
	if a.Record != nil {
		r := a.Record.Dedup()
		out.Record = &r
	}
	return out
}
