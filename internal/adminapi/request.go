package adminapi

import (
	"errors"
	"strings"

	"github.com/go-json-experiment/json"
)

// RecordsRequest asks for records by key.
type RecordsRequest struct {
	Keys []Key `json:"keys"`
}

// LettersRequest asks for the notes of letters by dl-id.
type LettersRequest struct {
	IDs []Text `json:"ids"`
}

// ApplyRequest hands operations to the store, in one Apply.
type ApplyRequest struct {
	Ops []Op `json:"ops"`
}

// InspectRequest asks how topics are set up.
type InspectRequest struct {
	Topics []Text `json:"topics"`
}

// InspectResponse has one for each, in the same order.
type InspectResponse struct {
	Topics []TopicInfo `json:"topics"`
}

// PublishRequest hands messages to the broker.
type PublishRequest struct {
	Messages []Outgoing `json:"messages"`
}

// PublishResponse has one for each, in the same order; null where it is stored.
type PublishResponse struct {
	Errors []*Fault `json:"errors"`
}

// PauseRequest names what to pause or to go on with.
type PauseRequest struct {
	Scope Text `json:"scope,omitzero"` // empty: the whole consumer
	Why   Text `json:"why,omitzero"`
}

// PauseResponse says whether that has changed anything.
type PauseResponse struct {
	Changed bool `json:"changed"`
}

// Line is one line of an answer that is a stream: one of its fields is set, or
// End and Count.
type Line struct {
	Record  *Record  `json:"record,omitzero"`
	Letter  *Letter  `json:"letter,omitzero"`
	Answer  *Answer  `json:"answer,omitzero"`
	Lane    *Lane    `json:"lane,omitzero"`
	Message *Message `json:"message,omitzero"`
	// Alive says nothing but that more is on its way.
	Alive bool `json:"alive,omitzero"`
	// End says that this is the last line and nothing is missing before it;
	// Count is how many there were, without lanes and lines of Alive.
	End   bool   `json:"end,omitzero"`
	Count *int64 `json:"count,omitzero"`
	// Error says that this is the last line and why.
	Error *Fault `json:"error,omitzero"`
}

// Encode is v as JSON, without a line end.
func Encode(v any) ([]byte, error) { return json.Marshal(v) }

// ErrField is found in an error of a decoder that met a name it does not know.
var ErrField = json.ErrUnknownName

// Decode reads a request: one JSON value, and nothing after it.
//
// Errors: one that says where and what is wrong, without the text itself but
// for names; it is [ErrField] for a name that v does not have, and [ErrName] for
// a value that none of the closed lists has.
func Decode(b []byte, v any) error {
	return plain(json.Unmarshal(b, v, json.RejectUnknownMembers(true)))
}

// DecodeAnswer reads an answer likewise, and leaves out names that v does not
// have. Errors: as [Decode], without [ErrField].
func DecodeAnswer(b []byte, v any) error { return plain(json.Unmarshal(b, v)) }

// plain says what a decoder found in words of the peer's, not of Go's types.
func plain(err error) error {
	var semantic *json.SemanticError
	if !errors.As(err, &semantic) {
		return err
	}
	at := string(semantic.JSONPointer)
	switch {
	case errors.Is(err, ErrField):
		return &decodeError{text: "unknown field " + at, is: ErrField}
	case semantic.Err != nil:
		return &decodeError{text: strings.TrimSpace(at + " " + semantic.Err.Error()), is: err}
	}
	return &decodeError{text: strings.TrimSpace(at + " has a wrong type: " + semantic.JSONKind.String()), is: err}
}

type decodeError struct {
	text string
	is   error
}

func (e *decodeError) Error() string { return e.text }
func (e *decodeError) Unwrap() error { return e.is }
