package dedup

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxID is the longest id and MaxScope the longest scope and consumer name,
// in bytes. An id that is longer is mostly a payload by mistake; both limits
// keep a record's entry under 2 KiB.
const (
	MaxID    = 1024
	MaxScope = 128
)

// Key names one business operation: what is done (Scope) to what (ID), inside
// one named consumer. Creating and cancelling one order are two scopes.
type Key struct {
	Consumer string // who handles it; explicit configuration
	Scope    string // the action, such as "order.create"
	ID       string // the business id; any bytes in a store, UTF-8 from a consumer
}

// LetterScope is the scope of the records that stand in for those of messages
// without a usable key, see [LetterKey].
const LetterScope = reserved + "letter"

// reserved begins the scopes of records that are no operations of a user's.
const reserved = "onceward."

// ReservedScope says that a scope is onceward's own: those that begin with
// "onceward.". Neither a route nor a guard nor a letter can have it.
func ReservedScope(scope string) bool { return strings.HasPrefix(scope, reserved) }

// LetterKey is the key of a dead letter whose message has no usable one, or one
// whose record is forgotten (too-old). The record under it begins with the
// letter's note, failed; it is opened for a further run and ends as those of
// other letters do; and it is swept, with the note, when its window is over.
func LetterKey(consumer, id string) Key {
	return Key{Consumer: consumer, Scope: LetterScope, ID: id}
}

// OfLetter says that k is a [LetterKey].
func (k Key) OfLetter() bool { return k.Scope == LetterScope }

// Errors of [ValidateID].
var (
	ErrEmptyID   = errors.New("id is empty")
	ErrLongID    = errors.New("id is longer than 1 KiB")
	ErrInvalidID = errors.New("id is not valid UTF-8")
)

// Validate checks what a consumer, a guard or a letter may have as a key: no
// reserved scope, see [ReservedScope].
//
// Errors: those of [ValidateScope] and [ValidateID], or one that names the
// faulty consumer or the reserved scope.
func (k Key) Validate() error {
	if err := validName("consumer", k.Consumer); err != nil {
		return err
	}
	if err := ValidateScope(k.Scope); err != nil {
		return err
	}
	if ReservedScope(k.Scope) {
		return fmt.Errorf("scope %q begins with %q, which is reserved", k.Scope, reserved)
	}
	return ValidateID(k.ID)
}

// ValidateScope checks a scope: 1 to [MaxScope] bytes of UTF-8 without control
// characters.
//
// Errors: one that says what is wrong.
func ValidateScope(scope string) error { return validName("scope", scope) }

// ValidateID checks an id: 1 to [MaxID] bytes of UTF-8.
//
// Errors: [ErrEmptyID], [ErrLongID], [ErrInvalidID].
func ValidateID(id string) error {
	switch {
	case id == "":
		return ErrEmptyID
	case len(id) > MaxID:
		return ErrLongID
	case !utf8.ValidString(id):
		return ErrInvalidID
	}
	return nil
}

func validName(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%s is empty", what)
	case len(name) > MaxScope:
		return fmt.Errorf("%s is longer than %d bytes", what, MaxScope)
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f || r == utf8.RuneError }):
		return fmt.Errorf("%s %q has a control character or invalid UTF-8", what, name)
	}
	return nil
}

// String is for logs: consumer/scope/id, the id quoted where it needs to be.
func (k Key) String() string {
	if strings.ContainsFunc(k.ID, func(r rune) bool { return r <= ' ' || r == '"' || r == 0x7f || r == utf8.RuneError }) {
		return fmt.Sprintf("%s/%s/%q", k.Consumer, k.Scope, k.ID)
	}
	return k.Consumer + "/" + k.Scope + "/" + k.ID
}
