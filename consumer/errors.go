package consumer

import (
	"errors"
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

// Skip, returned by a handler, says that the message is not its own: it is
// acknowledged and leaves no record.
var Skip = errors.New("skip")

type classified struct {
	class Class
	after time.Duration
	err   error
}

func (e *classified) Error() string { return e.err.Error() }
func (e *classified) Unwrap() error { return e.err }

// Terminal marks err as never to be tried again. Nil stays nil.
func Terminal(err error) error { return classify(ClassTerminal, 0, err) }

// Retryable marks err as worth another try. Nil stays nil.
func Retryable(err error) error { return classify(ClassRetryable, 0, err) }

// RetryAfter marks err as worth another try, not before the delay.
func RetryAfter(err error, delay time.Duration) error { return classify(ClassRetryable, delay, err) }

// InDoubt says that an effect outside may have happened: the operation is held
// until somebody decides, and its letter says so.
func InDoubt(err error) error { return classify(ClassInDoubt, 0, err) }

func classify(c Class, after time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &classified{class: c, after: after, err: err}
}
