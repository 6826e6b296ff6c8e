package dedup

import (
	"slices"

	"github.com/onceward/onceward/internal/cut"
)

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
