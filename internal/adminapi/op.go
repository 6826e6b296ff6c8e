package adminapi

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/internal/cut"
)

// Op is a [dedup.Op] of an operator or a replay; see [Op.Allowed].
type Op struct {
	Kind     Kind        `json:"kind"`
	Key      Key         `json:"key"`
	Letter   *LetterOp   `json:"letter,omitzero"`
	Operator *OperatorOp `json:"operator,omitzero"`
}

// LetterOp is a [dedup.LetterOp] that settles no debt: only the consumer itself
// knows that it has published the letter that a record owes.
type LetterOp struct {
	Letter Letter      `json:"letter"`
	From   LetterState `json:"from,omitzero"`
	To     LetterState `json:"to,omitzero"`
	Window Duration    `json:"window,omitzero"`
}

// Seen is a [dedup.Seen].
type Seen struct {
	State State  `json:"state"`
	Run   uint32 `json:"run,omitzero"`
	Fence uint64 `json:"fence,omitzero"`
}

// Decision is the verdict on one effect.
type Decision struct {
	Effect  Text    `json:"effect"`
	Verdict Verdict `json:"verdict"`
}

// OperatorOp is a [dedup.OperatorOp].
type OperatorOp struct {
	Seen        Seen        `json:"seen"`
	Expires     Time        `json:"expires,omitzero"`
	Who         Text        `json:"who,omitzero"`
	Why         Text        `json:"why,omitzero"`
	Decide      []Decision  `json:"decide,omitzero"`
	BooksReadAt Time        `json:"books_read_at,omitzero"`
	To          Outcome     `json:"to,omitzero"`
	Fingerprint Fingerprint `json:"fingerprint,omitzero"`
	Result      []byte      `json:"result,omitzero"`
	Window      Duration    `json:"window,omitzero"`
	Archive     bool        `json:"archive,omitzero"`
	Job         Text        `json:"job,omitzero"`
	Letter      Text        `json:"letter,omitzero"`
	LetterRun   uint32      `json:"letter_run,omitzero"`
	Send        Position    `json:"send,omitzero"`
}

// Allowed says that operations of this kind are an operator's or a replay's.
// Those of claimants, owners, runners and the sweeper are not for the network.
func Allowed(k dedup.Kind) bool {
	switch k {
	case dedup.NoteLetter, dedup.MoveLetter, dedup.SendNoted, dedup.Unlock, dedup.Delete, dedup.Import, dedup.Reconcile, dedup.Reopen:
		return true
	}
	return false
}

// OfOp is op as JSON; byte slices are shared.
//
// Errors: one that wraps [dedup.ErrInvalidOp] for a kind that is not allowed.
func OfOp(op *dedup.Op) (Op, error) {
	if !Allowed(op.Kind) {
		return Op{}, fmt.Errorf("%w: %s is no operation of an operator's", dedup.ErrInvalidOp, op.Kind)
	}
	out := Op{Kind: Kind(op.Kind), Key: OfKey(op.Key)}
	if l := op.Letter; l != nil {
		out.Letter = &LetterOp{Letter: *OfLetter(&l.Letter), From: LetterState(l.From), To: LetterState(l.To), Window: Duration(l.Window)}
	}
	if o := op.Operator; o != nil {
		out.Operator = &OperatorOp{
			Seen:    Seen{State(o.Seen.State), o.Seen.Run, o.Seen.Fence},
			Expires: Time(o.Expires), Who: Text(o.Who), Why: Text(o.Why), BooksReadAt: Time(o.BooksReadAt), To: Outcome(o.To),
			Fingerprint: Fingerprint{Hash(o.Fingerprint.Sum), o.Fingerprint.Rule}, Result: o.Result,
			Window: Duration(o.Window), Archive: o.Archive, Job: Text(o.Job), Letter: Text(o.Letter), LetterRun: o.LetterRun,
			Send: ofPosition(o.Send),
		}
		for _, effect := range slices.Sorted(maps.Keys(o.Decide)) {
			out.Operator.Decide = append(out.Operator.Decide, Decision{Text(effect), Verdict(o.Decide[effect])})
		}
	}
	return out, nil
}

// Dedup is op as a store takes it; byte slices are shared.
//
// Errors: one that wraps [dedup.ErrInvalidOp] for a kind that is not allowed,
// and for an effect that is decided twice.
func (op *Op) Dedup() (dedup.Op, error) {
	if !Allowed(dedup.Kind(op.Kind)) {
		return dedup.Op{}, fmt.Errorf("%w: %s is no operation of an operator's", dedup.ErrInvalidOp, op.Kind)
	}
	out := dedup.Op{Kind: dedup.Kind(op.Kind), Key: op.Key.Dedup()}
	if l := op.Letter; l != nil {
		out.Letter = &dedup.LetterOp{Letter: l.Letter.Dedup(), From: dedup.LetterState(l.From), To: dedup.LetterState(l.To), Window: time.Duration(l.Window)}
	}
	if o := op.Operator; o != nil {
		out.Operator = &dedup.OperatorOp{
			Seen:    dedup.Seen{State: dedup.State(o.Seen.State), Run: o.Seen.Run, Fence: o.Seen.Fence},
			Expires: o.Expires.Time(), Who: string(o.Who), Why: string(o.Why), BooksReadAt: o.BooksReadAt.Time(), To: dedup.Outcome(o.To),
			Fingerprint: dedup.Fingerprint{Sum: o.Fingerprint.Sum, Rule: o.Fingerprint.Rule}, Result: o.Result,
			Window: time.Duration(o.Window), Archive: o.Archive, Job: string(o.Job), Letter: string(o.Letter), LetterRun: o.LetterRun,
			Send: o.Send.dedup(),
		}
		for _, d := range o.Decide {
			if out.Operator.Decide == nil {
				out.Operator.Decide = make(map[string]dedup.Verdict, len(o.Decide))
			}
			if _, twice := out.Operator.Decide[string(d.Effect)]; twice {
				return dedup.Op{}, fmt.Errorf("%w: %s: effect %q is decided twice", dedup.ErrInvalidOp, op.Kind, cut.Text(string(d.Effect), dedup.MaxScope))
			}
			out.Operator.Decide[string(d.Effect)] = dedup.Verdict(d.Verdict)
		}
	}
	return out, nil
}
