package brokers

import (
	"errors"
	"fmt"
)

// Errors of [Broker] and [Source], found with errors.Is.
var (
	ErrClosed         = errors.New("source closed")
	ErrTooLarge       = errors.New("message too large for the destination")
	ErrNoDestination  = errors.New("destination does not exist")
	ErrUnauthorized   = errors.New("not authorized for the destination")
	ErrUnknownOutcome = errors.New("outcome unknown: stored or not")
)

// StartError is a fault that no retry mends: a person must change something.
type StartError struct {
	What  string // what was tried, with the names: `open stream "ORDERS"`
	Wrong string // what is wrong
	Mend  string // what to do, where possible a command; may be empty
	Err   error  // the cause; may be nil
}

func (e *StartError) Error() string {
	s := e.What + ": " + e.Wrong
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	if e.Mend != "" {
		s += " (" + e.Mend + ")"
	}
	return s
}

func (e *StartError) Unwrap() error { return e.Err }

// MarkError says that another process left its own mark at the consumer.
type MarkError struct {
	Found string // the mark that is there
}

func (e *MarkError) Error() string {
	return fmt.Sprintf("another store's mark is kept beside the consumer: %q", e.Found)
}
