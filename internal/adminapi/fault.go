package adminapi

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/internal/cut"
)

// Failure is the body of every answer that is none.
type Failure struct {
	Error Fault `json:"error"`
}

// Fault says what went wrong: a code for programs and a sentence for people.
type Fault struct {
	Code    Code `json:"code"`
	Message Text `json:"message"`
	// Need is the role that would have been enough, with [CodeRole].
	Need string `json:"need,omitzero"`
}

// Code is what went wrong, for programs. A code that is not known here is kept.
type Code string

// Codes of a request that was refused: nothing has been done.
const (
	CodeRequest     Code = "invalid_request"
	CodeField       Code = "unknown_field" // the client may be newer
	CodeVersion     Code = "unknown_version"
	CodePath        Code = "unknown_path"
	CodeToken       Code = "unauthenticated" // no token, or not a known one
	CodeRole        Code = "role_missing"
	CodeForbidden   Code = "forbidden" // from elsewhere, by a browser, or not this consumer's
	CodeBodySize    Code = "body_too_large"
	CodeBusy        Code = "busy"        // too many requests at once
	CodeNotReady    Code = "not_ready"   // the store has not been accepted yet
	CodeUnsupported Code = "unsupported" // by this broker
)

// Codes of an error of the store or the broker.
const (
	CodeClosed         Code = "store_closed"
	CodeFull           Code = "store_full"
	CodeInvalidOp      Code = "invalid_operation"
	CodeDamaged        Code = "store_damaged"
	CodeTooLarge       Code = "message_too_large"
	CodeNoDestination  Code = "no_destination"
	CodeUnauthorized   Code = "unauthorized"
	CodeUnknownOutcome Code = "unknown_outcome"
	CodeOther          Code = "error"
)

// ErrDamaged stands for a [dedup.DamagedError] of the other side, whose parts
// are in the text.
var ErrDamaged = errors.New("the store is damaged")

// sentinels are the errors that are found again with errors.Is. An error that
// is several of them is the first.
var sentinels = []struct {
	code Code
	err  error
}{
	{CodeUnknownOutcome, brokers.ErrUnknownOutcome},
	{CodeTooLarge, brokers.ErrTooLarge},
	{CodeNoDestination, brokers.ErrNoDestination},
	{CodeUnauthorized, brokers.ErrUnauthorized},
	{CodeClosed, dedup.ErrClosed},
	{CodeFull, dedup.ErrFull},
	{CodeInvalidOp, dedup.ErrInvalidOp},
	{CodeDamaged, ErrDamaged},
}

// maxMessage bounds the text of a fault.
const maxMessage = 2 << 10

// OfError is err as JSON; nil stays nil.
func OfError(err error) *Fault {
	if err == nil {
		return nil
	}
	f := &Fault{Code: CodeOther, Message: Text(cut.Text(err.Error(), maxMessage))}
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			f.Code = s.code
			return f
		}
	}
	if _, damaged := errors.AsType[*dedup.DamagedError](err); damaged {
		f.Code = CodeDamaged
	}
	return f
}

// Err is the error that f stands for: errors.Is finds in it what [OfError] did,
// and its text is that of the message, on one line without control characters.
// Nil for none.
func (f *Fault) Err() error {
	if f == nil {
		return nil
	}
	e := &remoteError{text: f.Line()}
	for _, s := range sentinels {
		if f.Code == s.code {
			e.is = s.err
		}
	}
	return e
}

// Line is the message as it may be shown on a terminal.
func (f *Fault) Line() string {
	if text := OneLine(string(f.Message)); text != "" {
		return text
	}
	return "no reason was given"
}

// OneLine is a text of somebody else's as it may be shown on a terminal: at most
// 2 KiB, with blanks for line ends, for control characters and for those that
// turn the direction of what follows.
func OneLine(text string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == utf8.RuneError || r == '\u2028' || r == '\u2029' || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return ' '
		}
		return r
	}, cut.Text(text, maxMessage)))
}

// remoteError is an error that happened on the other side.
type remoteError struct {
	text string
	is   error
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.is }
