package consumer

import (
	"errors"
	"fmt"
	"time"
)

// Class is what an error means for the delivery.
type Class uint8

// The classes.
const (
	Unclassified   Class = iota // retryable, with the bound of failures
	ClassRetryable              // again, with backoff
	ClassTerminal               // never again: a letter
	ClassInDoubt                // an effect may have happened: held
	ClassSkip                   // not mine: acknowledged without a record
)

var classNames = [...]string{"unclassified", "retryable", "terminal", "in_doubt", "skip"}

func (c Class) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return "invalid"
}

// Skip says, returned by a handler, that the message is not its own: it is
// acknowledged and leaves no record. It may be wrapped with the reason.
var Skip = errors.New("skip") //nolint:revive,staticcheck,errname // a verdict, as fs.SkipDir

type classified struct {
	class Class
	after time.Duration
	err   error
}

func (e *classified) Error() string { return e.err.Error() }
func (e *classified) Unwrap() error { return e.err }

// Terminal marks err as never to be tried again: it ends in a letter. Nil
// stays nil.
func Terminal(err error) error { return classify(ClassTerminal, 0, err) }

// Retryable marks err as worth another try. Nil stays nil.
func Retryable(err error) error { return classify(ClassRetryable, 0, err) }

// RetryAfter marks err as worth another try, not before the delay, which
// replaces the one of the route's schedule. A delay of 0 or less leaves the
// schedule's, and one over [MaxRetryAfter] (24 h) is cut to it. One over the
// route's Retry.MaxBlocking is no sign of an outage: the dependency has answered
// when. Nil stays nil.
func RetryAfter(err error, delay time.Duration) error {
	return classify(ClassRetryable, max(delay, 0), err)
}

// InDoubt says that an effect outside may have happened: the operation is held
// until somebody decides, and its letter says so. A plan that approves the letter
// runs it again; the example of package deadletter on deciding ends it otherwise.
// Nil stays nil.
func InDoubt(err error) error { return classify(ClassInDoubt, 0, err) }

func classify(c Class, after time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &classified{class: c, after: after, err: err}
}

// PanicError is a panic of a user's function, recovered. It is classified like
// any other error: one whose value is an error by that error, any other is
// retryable with the bound of failures.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
