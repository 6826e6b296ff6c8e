package adminapi

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/internal/cut"
)

// The closed lists of dedup, each by the names that its values have in logs.
type (
	State        dedup.State        // "succeeded"
	LetterState  dedup.LetterState  // "open"
	Kind         dedup.Kind         // "move_letter"
	Outcome      dedup.Outcome      // "success"
	AnswerKind   dedup.AnswerKind   // "done"
	IntentStatus dedup.IntentStatus // "dispatched"
	Verdict      dedup.Verdict      // "run_again"
)

var (
	intentNames  = [...]string{"none", "dispatched", "confirmed"}
	verdictNames = [...]string{"keep", "happened", "did_not", "run_again"}
)

// The name of a value; "invalid" where it has none.
func (s State) String() string        { return dedup.State(s).String() }
func (s LetterState) String() string  { return dedup.LetterState(s).String() }
func (k Kind) String() string         { return dedup.Kind(k).String() }
func (o Outcome) String() string      { return dedup.Outcome(o).String() }
func (k AnswerKind) String() string   { return dedup.AnswerKind(k).String() }
func (s IntentStatus) String() string { return nameAt(intentNames[:], uint8(s)) }
func (v Verdict) String() string      { return nameAt(verdictNames[:], uint8(v)) }

func nameAt(names []string, i uint8) string {
	if int(i) < len(names) {
		return names[i]
	}
	return "invalid"
}

// ErrName is found in the error of a value that none of the closed lists has: the
// other side may be newer.
var ErrName = errors.New("is not one of the names known here")

// named is one of the closed lists.
type named interface {
	~uint8
	fmt.Stringer
}

// parse finds the value of a name among those up to last.
func parse[T named](name string, last T) (T, error) {
	for v := T(0); ; v++ {
		if v.String() == name {
			return v, nil
		}
		if v == last {
			return 0, fmt.Errorf("%q %w", cut.Text(name, 64), ErrName)
		}
	}
}

func write[T named](e *jsontext.Encoder, v, last T) error {
	if v > last {
		return fmt.Errorf("%d has no name", v)
	}
	return e.WriteToken(jsontext.String(v.String()))
}

func read[T named](d *jsontext.Decoder, v *T, last T) error {
	name, err := readString(d)
	if err == nil {
		*v, err = parse(name, last)
	}
	return err
}

// The last value of each list.
const (
	lastState        = State(dedup.Tombstone)
	lastLetterState  = LetterState(dedup.LetterGone)
	lastKind         = Kind(dedup.Sweep)
	lastOutcome      = Outcome(dedup.Skip)
	lastAnswerKind   = AnswerKind(dedup.Continued)
	lastIntentStatus = IntentStatus(dedup.Confirmed)
	lastVerdict      = Verdict(dedup.RunAgain)
)

// ParseState reads the name of a state. Errors: one that quotes the name.
func ParseState(name string) (State, error) { return parse(name, lastState) }

// ParseLetterState reads the name of a letter's state. Errors: one that quotes
// the name.
func ParseLetterState(name string) (LetterState, error) { return parse(name, lastLetterState) }

// MarshalJSONTo writes the name.
func (s State) MarshalJSONTo(e *jsontext.Encoder) error { return write(e, s, lastState) }

// MarshalJSONTo writes the name.
func (s LetterState) MarshalJSONTo(e *jsontext.Encoder) error { return write(e, s, lastLetterState) }

// MarshalJSONTo writes the name.
func (k Kind) MarshalJSONTo(e *jsontext.Encoder) error { return write(e, k, lastKind) }

// MarshalJSONTo writes the name.
func (o Outcome) MarshalJSONTo(e *jsontext.Encoder) error { return write(e, o, lastOutcome) }

// MarshalJSONTo writes the name.
func (k AnswerKind) MarshalJSONTo(e *jsontext.Encoder) error { return write(e, k, lastAnswerKind) }

// MarshalJSONTo writes the name.
func (s IntentStatus) MarshalJSONTo(e *jsontext.Encoder) error { return write(e, s, lastIntentStatus) }

// MarshalJSONTo writes the name.
func (v Verdict) MarshalJSONTo(e *jsontext.Encoder) error { return write(e, v, lastVerdict) }

// UnmarshalJSONFrom reads a name.
func (s *State) UnmarshalJSONFrom(d *jsontext.Decoder) error { return read(d, s, lastState) }

// UnmarshalJSONFrom reads a name.
func (s *LetterState) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	return read(d, s, lastLetterState)
}

// UnmarshalJSONFrom reads a name.
func (k *Kind) UnmarshalJSONFrom(d *jsontext.Decoder) error { return read(d, k, lastKind) }

// UnmarshalJSONFrom reads a name.
func (o *Outcome) UnmarshalJSONFrom(d *jsontext.Decoder) error { return read(d, o, lastOutcome) }

// UnmarshalJSONFrom reads a name.
func (k *AnswerKind) UnmarshalJSONFrom(d *jsontext.Decoder) error { return read(d, k, lastAnswerKind) }

// UnmarshalJSONFrom reads a name.
func (s *IntentStatus) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	return read(d, s, lastIntentStatus)
}

// UnmarshalJSONFrom reads a name.
func (v *Verdict) UnmarshalJSONFrom(d *jsontext.Decoder) error { return read(d, v, lastVerdict) }
