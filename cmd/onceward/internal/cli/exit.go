package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/onceward/onceward/cmd/onceward/internal/via"
	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/boltstore"
)

// Exit codes, for scripts.
const (
	Done    = 0
	Failed  = 1 // something did not work; told on stderr
	Usage   = 2 // wrong flags or arguments; nothing was tried
	Nothing = 3 // nothing matched
	Partly  = 4 // done in part, or refused, or found wanting
)

// exit is an error that ends the command with a code of its own.
type exit struct {
	code int
	err  error // nil: all has been said
}

func (e *exit) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

func usage(format string, args ...any) error { return &exit{Usage, fmt.Errorf(format, args...)} }

// nothing says what was looked for.
func nothing(format string, args ...any) error { return &exit{Nothing, fmt.Errorf(format, args...)} }

func partly(format string, args ...any) error { return &exit{Partly, fmt.Errorf(format, args...)} }

// code is the exit code that an error means.
func code(err error) int {
	var e *exit
	var stopped *deadletter.StoppedError
	switch {
	case err == nil:
		return Done
	case errors.As(err, &e):
		return e.code
	case errors.Is(err, deadletter.ErrNotFound):
		return Nothing
	case errors.Is(err, deadletter.ErrRefused), errors.As(err, &stopped), errors.Is(err, via.ErrRole), errors.Is(err, via.ErrForbidden):
		return Partly
	}
	return Failed
}

// next is an error after which something is to be done that it does not say.
type next struct {
	error
	what string
}

func (n *next) Unwrap() error { return n.error }

// advice is what an error does not say itself: what to do now.
func advice(err error) string {
	var foreign *deadletter.ForeignError
	var damaged *dedup.DamagedError
	var then *next
	switch {
	case errors.As(err, &then):
		return "next: " + then.what
	case errors.Is(err, boltstore.ErrLocked):
		return "a running consumer holds its store: ask it, with --via and the address at which it serves consumer.Admin, or stop it first"
	case errors.As(err, &damaged):
		return "is it the file of the consumer's store?"
	case errors.As(err, &foreign) && foreign.Consumer == "":
		return "the address does not say whose letters it has: give --consumer NAME, or an address that has the name of the topic as the consumer made it"
	case errors.As(err, &foreign):
		return "name the topic of this consumer's letters, or the other consumer and its store"
	case errors.Is(err, deadletter.ErrNotLetter), errors.Is(err, deadletter.ErrNotForeign):
		return "letters of other software are read with --envelope"
	case errors.Is(err, context.Canceled):
		return "ended by a signal"
	}
	return ""
}
