package dedup

import (
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward/internal/cut"
)

// Limits on one operation. Stores may rely on them.
const (
	MaxResult   = 64 << 10 // bytes of a result; a consumer keeps less, see its policy
	MaxError    = 1 << 10  // bytes of an error text, its type, a reason, a name, a note
	MaxStack    = 4 << 10  // bytes of a stack
	MaxIntents  = 16       // effects of one key
	MinLease    = time.Second
	MaxLease    = 24 * time.Hour
	MaxLetterID = 128 // bytes of a dl-id
)

// Validate checks the form of an operation: a store answers Invalid with this
// error and does nothing. Ids may be any bytes here; what a consumer accepts
// is [Key.Validate].
//
// Errors: all wrap [ErrInvalidOp] and name the field.
func (op *Op) Validate() error {
	if err := op.fault(); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrInvalidOp, op.Kind, err)
	}
	return nil
}

func (op *Op) fault() error {
	if op.Kind == 0 || op.Kind > Sweep {
		return fmt.Errorf("unknown kind %d", op.Kind)
	}
	if op.Kind == Advance {
		return op.advanceFault()
	}
	letter := op.Kind == NoteLetter || op.Kind == MoveLetter || op.Kind == SendNoted
	if err := op.keyFault(); err != nil {
		return err
	}
	if err := op.ownerFault(); err != nil {
		return err
	}
	if letter {
		if err := op.letterFault(); err != nil {
			return err
		}
	}
	if op.Kind >= Unlock && op.Kind != SendNoted {
		if err := op.operatorFault(); err != nil {
			return err
		}
	}
	return op.textFault()
}

func (op *Op) advanceFault() error {
	switch {
	case op.Key.Consumer == "" || op.Position.Source == "":
		return errors.New("needs a consumer and a source")
	case len(op.Key.Consumer) > MaxScope:
		return fmt.Errorf("consumer is %d bytes, at most %d", len(op.Key.Consumer), MaxScope)
	case len(op.Position.Source) > MaxError:
		return fmt.Errorf("source is %d bytes, at most %d", len(op.Position.Source), MaxError)
	case op.Position.Offset < 0:
		return fmt.Errorf("offset %d is negative", op.Position.Offset)
	}
	return nil
}

func (op *Op) keyFault() error {
	switch {
	case op.Key.Consumer == "" || len(op.Key.Consumer) > MaxScope:
		return fmt.Errorf("consumer must be 1 to %d bytes, is %d", MaxScope, len(op.Key.Consumer))
	case op.Key.Scope == "" || len(op.Key.Scope) > MaxScope:
		return fmt.Errorf("scope must be 1 to %d bytes, is %d", MaxScope, len(op.Key.Scope))
	case op.Key.ID == "" || len(op.Key.ID) > MaxID:
		return fmt.Errorf("id must be 1 to %d bytes, is %d", MaxID, len(op.Key.ID))
	}
	return nil
}

// ownerFault looks at what a claim and its owner's operations have.
func (op *Op) ownerFault() error {
	switch op.Kind {
	case Claim, Renew:
		if op.Lease < MinLease || op.Lease > MaxLease {
			return fmt.Errorf("lease %v is not within %v and %v", op.Lease, MinLease, MaxLease)
		}
		if op.Kind == Claim && op.Token == (Token{}) {
			return errors.New("token is missing")
		}
	case Dispatch, Confirm, Refuse, VerifyNot:
		switch {
		case op.Effect == nil || op.Effect.Name == "" || len(op.Effect.Name) > MaxScope:
			return fmt.Errorf("effect name must be 1 to %d bytes", MaxScope)
		case len(op.Effect.Outcome) > MaxResult || len(op.Effect.External) > MaxError:
			return fmt.Errorf("outcome of effect %q is too large", op.Effect.Name)
		case op.Effect.QuietFor < 0:
			return fmt.Errorf("quiet period %v of effect %q is negative", op.Effect.QuietFor, op.Effect.Name)
		}
	case End:
		switch {
		case op.Outcome == 0 || op.Outcome > Skip:
			return fmt.Errorf("unknown outcome %d", op.Outcome)
		case len(op.Result) > MaxResult:
			return fmt.Errorf("result is %d bytes, at most %d", len(op.Result), MaxResult)
		case op.Wait < 0:
			return fmt.Errorf("wait %v is negative", op.Wait)
		}
	}
	if op.Kind == Claim || op.Kind == End {
		if op.Policy == nil || op.Policy.Failures < 1 || op.Policy.Lone < 1 || op.Policy.Window < 0 {
			return errors.New("policy needs bounds of at least 1 and no negative window")
		}
	}
	if op.Kind >= Renew && op.Kind <= End && op.Fence == 0 {
		return errors.New("fence is missing")
	}
	return nil
}

// textFault looks at the texts that any operation may have.
func (op *Op) textFault() error {
	if len(op.Position.Source) > MaxError || len(op.ReplayToken) > MaxError {
		return fmt.Errorf("source or replay token is longer than %d bytes", MaxError)
	}
	for _, text := range []string{op.Reason, op.Error, op.ErrorType} {
		if len(text) > MaxError {
			return fmt.Errorf("reason, error or error type is %d bytes, at most %d", len(text), MaxError)
		}
	}
	if len(op.Stack) > MaxStack {
		return fmt.Errorf("stack is %d bytes, at most %d", len(op.Stack), MaxStack)
	}
	return nil
}

func (op *Op) letterFault() error {
	if op.Letter == nil {
		return errors.New("letter is missing")
	}
	l := &op.Letter.Letter
	// The copy of a message that has no letter is noted on its record only.
	if none := l.ID == "" && op.Kind == SendNoted && !op.Key.OfLetter(); !none && (l.ID == "" || len(l.ID) > MaxLetterID) {
		return fmt.Errorf("letter id must be 1 to %d bytes, is %d", MaxLetterID, len(l.ID))
	}
	if op.Letter.From > LetterGone || op.Letter.To > LetterGone {
		return fmt.Errorf("unknown letter state %d or %d", op.Letter.From, op.Letter.To)
	}
	if op.Key.OfLetter() && op.Key.ID != l.ID {
		return errors.New("letter has the record of another letter")
	}
	if op.Letter.Window < 0 {
		return fmt.Errorf("window %v is negative", op.Letter.Window)
	}
	if l.Answer > Tombstone {
		return fmt.Errorf("unknown answer %d", l.Answer)
	}
	for _, text := range []string{l.Reason, l.Source.Source, l.Token, l.Job, l.Who, l.Why} {
		if len(text) > MaxError {
			return fmt.Errorf("a text of the letter is %d bytes, at most %d", len(text), MaxError)
		}
	}
	return nil
}

func (op *Op) operatorFault() error {
	o := op.Operator
	switch {
	case o == nil:
		return errors.New("who decided what is missing")
	case op.Kind == Reopen && o.Job == "":
		return errors.New("job is missing")
	case op.Kind == Reconcile && o.To != Success && o.To != Terminal && o.To != Release:
		return fmt.Errorf("reconciliation ends as success, terminal or release, not %s", o.To)
	case len(o.Result) > MaxResult:
		return fmt.Errorf("result is %d bytes, at most %d", len(o.Result), MaxResult)
	case o.Window < 0:
		return fmt.Errorf("window %v is negative", o.Window)
	case len(o.Decide) > MaxIntents:
		return fmt.Errorf("decides %d effects, at most %d", len(o.Decide), MaxIntents)
	}
	for effect, v := range o.Decide {
		if v > RunAgain {
			return fmt.Errorf("unknown verdict %d on effect %q", v, cut.Text(effect, MaxScope))
		}
	}
	for _, text := range []string{o.Who, o.Why, o.Job, o.Letter, o.Send.Source} {
		if len(text) > MaxError {
			return fmt.Errorf("who, why, job, letter or source is %d bytes, at most %d", len(text), MaxError)
		}
	}
	return nil
}
