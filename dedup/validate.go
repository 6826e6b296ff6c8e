package dedup

import (
	"fmt"
	"time"
)

// Limits on one operation. Stores may rely on them.
const (
	MaxResult   = 64 << 10 // bytes of a result; a consumer keeps less, see its policy
	MaxError    = 1 << 10  // bytes of an error text, its type, a reason, a name, a note
	MaxStack    = 4 << 10  // bytes of a stack
	MaxIntents  = 16       // effects of one key
	MinLease    = time.Second
	MaxLease    = 24 * time.Hour
	maxLetterID = 128
)

// Validate checks the form of an operation: a store answers Invalid with this
// error and does nothing. Ids may be any bytes here; what a consumer accepts
// is [Key.Validate].
//
// Errors: all wrap [ErrInvalidOp] and name the field.
func (op *Op) Validate() error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s: %s", ErrInvalidOp, op.Kind, fmt.Sprintf(format, args...))
	}
	if op.Kind == 0 || op.Kind > Sweep {
		return wrong("unknown kind %d", op.Kind)
	}
	letter := op.Kind == NoteLetter || op.Kind == MoveLetter || op.Kind == SendNoted
	if op.Kind == Advance {
		switch {
		case op.Key.Consumer == "" || op.Position.Source == "":
			return wrong("needs a consumer and a source")
		case len(op.Position.Source) > MaxError:
			return wrong("source is %d bytes, at most %d", len(op.Position.Source), MaxError)
		}
		return nil
	}
	keyless := letter && op.Key.Scope == "" && op.Key.ID == ""
	switch {
	case op.Key.Consumer == "" || len(op.Key.Consumer) > MaxScope:
		return wrong("consumer must be 1 to %d bytes, is %d", MaxScope, len(op.Key.Consumer))
	case !keyless && (op.Key.Scope == "" || len(op.Key.Scope) > MaxScope):
		return wrong("scope must be 1 to %d bytes, is %d", MaxScope, len(op.Key.Scope))
	case !keyless && (op.Key.ID == "" || len(op.Key.ID) > MaxID):
		return wrong("id must be 1 to %d bytes, is %d", MaxID, len(op.Key.ID))
	}
	switch op.Kind {
	case Claim, Renew:
		if op.Lease < MinLease || op.Lease > MaxLease {
			return wrong("lease %v is not within %v and %v", op.Lease, MinLease, MaxLease)
		}
		if op.Kind == Claim && op.Token == (Token{}) {
			return wrong("token is missing")
		}
	case End:
		if op.Outcome == 0 || op.Outcome > Skip {
			return wrong("unknown outcome %d", op.Outcome)
		}
		if len(op.Result) > MaxResult {
			return wrong("result is %d bytes, at most %d", len(op.Result), MaxResult)
		}
		if op.Wait < 0 {
			return wrong("wait %v is negative", op.Wait)
		}
	}
	if op.Kind == Claim || op.Kind == End {
		if op.Policy == nil || op.Policy.Failures < 1 || op.Policy.Lone < 1 || op.Policy.Window < 0 {
			return wrong("policy needs bounds of at least 1 and no negative window")
		}
	}
	if op.Kind >= Renew && op.Kind <= End && op.Fence == 0 {
		return wrong("fence is missing")
	}
	if op.Kind >= Dispatch && op.Kind <= VerifyNot {
		switch {
		case op.Effect == nil || op.Effect.Name == "" || len(op.Effect.Name) > MaxScope:
			return wrong("effect name must be 1 to %d bytes", MaxScope)
		case len(op.Effect.Outcome) > MaxResult || len(op.Effect.External) > MaxError:
			return wrong("outcome of effect %q is too large", op.Effect.Name)
		}
	}
	if letter && (op.Letter == nil || op.Letter.Letter.ID == "" || len(op.Letter.Letter.ID) > maxLetterID) {
		return wrong("letter id must be 1 to %d bytes", maxLetterID)
	}
	if op.Kind >= Unlock && op.Kind != SendNoted {
		if op.Operator == nil {
			return wrong("who decided what is missing")
		}
		if op.Kind == Reopen && op.Operator.Job == "" {
			return wrong("job is missing")
		}
	}
	for _, text := range []string{op.Reason, op.Error, op.ErrorType} {
		if len(text) > MaxError {
			return wrong("reason, error or error type is %d bytes, at most %d", len(text), MaxError)
		}
	}
	if len(op.Stack) > MaxStack {
		return wrong("stack is %d bytes, at most %d", len(op.Stack), MaxStack)
	}
	return nil
}
