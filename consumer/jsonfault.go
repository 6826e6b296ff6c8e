package consumer

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/onceward/onceward/internal/cut"
)

// jsonFault turns a decoder's error into one that a letter may show: where and
// what, never a value. A name that occurs twice is the key's fault, everything
// else the payload's.
func jsonFault(err error) error {
	if errors.Is(err, jsontext.ErrDuplicateName) {
		name := "a field"
		if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok && syntactic.JSONPointer != "" {
			name = "field " + quoteBounded(string(syntactic.JSONPointer))
		}
		return &twiceError{name: name, err: err}
	}
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return &malformedError{err: fmt.Errorf("payload is not valid JSON at byte %d: %s", syntactic.ByteOffset, boundText(syntactic.Err.Error(), 128))}
	}
	if errors.Is(err, io.EOF) {
		return &malformedError{err: errors.New("payload is blank, not JSON")}
	}
	return &malformedError{err: fmt.Errorf("payload is not valid JSON: %w", err)}
}

// malformedError says that a payload cannot be read: a decode letter.
type malformedError struct{ err error }

func (e *malformedError) Error() string { return e.err.Error() }
func (e *malformedError) Unwrap() error { return e.err }

// twiceError says that a name occurs twice in one object: a key letter, for
// two readers could take different values for the id.
type twiceError struct {
	name string
	err  error
}

func (e *twiceError) Error() string { return e.name + " occurs twice" }
func (e *twiceError) Unwrap() error { return e.err }

// fieldNames lists the names of the outermost object for an error: names only,
// and no more than a person reads.
func fieldNames(value []byte) string {
	const most = 16
	if readable(value) != nil {
		return "none"
	}
	r := openJSON(value)
	defer r.close()
	if r.dec.PeekKind() != '{' {
		return "none"
	}
	if _, err := r.dec.ReadToken(); err != nil {
		return "none"
	}
	var names []string
	for {
		name, err := r.dec.ReadToken()
		if err != nil || name.Kind() != '"' {
			break
		}
		if len(names) == most {
			names = append(names, "…")
			break
		}
		names = append(names, quoteBounded(name.String()))
		if r.dec.SkipValue() != nil {
			break
		}
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

func kindName(k jsontext.Kind) string {
	switch k {
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '[':
		return "an array"
	case '{':
		return "an object"
	}
	return "kind " + strconv.Quote(k.String())
}

// boundText cuts a text for people and says so.
func boundText(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return cut.Text(s, most) + "…"
}
