package dedup

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/onceward/onceward/internal/cut"
)

// Defaults of a [Guard].
const (
	DefaultLease    = 30 * time.Second    // a dead owner blocks its key no longer; renewal is cheap
	DefaultTimeout  = 5 * time.Minute     // longer work is better split into keys of its own
	DefaultWindow   = 14 * 24 * time.Hour // longer than webhooks and job schedulers repeat
	DefaultFailures = 10
)

// Guard is what [Do] needs to know beside the key: where records are kept and
// by which policy. It may be used by many goroutines and must not be copied or
// changed once it is. It starts nothing: [KeepSwept] ends what is over.
type Guard struct {
	// Store keeps the records. With many callers, wrap it in a [Batcher].
	Store Store
	// Consumer is the name under which the keys are kept; keys of another
	// name are other keys.
	Consumer string

	// Lease is how long a call that died blocks its key, 1 s to 24 h, 0 for
	// [DefaultLease]. It is renewed while the function runs.
	Lease time.Duration
	// Timeout is how long the function may run, 0 for [DefaultTimeout]. Then its
	// context ends; one that ignores it is renewed for as long again and may
	// then be overtaken.
	Timeout time.Duration
	// Window is how long a result is kept, 0 for [DefaultWindow], negative for
	// ever. A repeat that comes later runs again.
	Window time.Duration
	// Failures is how many counted failures end the key for good, 0 for
	// [DefaultFailures].
	Failures uint32
	// NoWait answers a [*BusyError] while another call runs, in place of
	// waiting for its result.
	NoWait bool
	// Classify says what an error of the function means: Terminal (never
	// again), Failure (counted, may run again), Release (uncounted), Doubt (an
	// effect may have happened: held until somebody decides) or Skip (leaves no
	// record). Nil: Terminal where [Final] marked it, Release where the caller's
	// context ended it, Failure otherwise. One of your own asks [IsFinal] itself
	// where it is to honour [Final].
	Classify func(error) Outcome
	// Redact makes the text that is kept of an error. Nil: err.Error().
	Redact func(error) string

	mu      sync.Mutex
	running map[Key]chan struct{} // runs of this guard; each is closed when it has ended
}

// Execution describes the run of the function whose outcome [Do] returns.
type Execution struct {
	Key Key
	// Replayed says that the outcome is that of an earlier or another call.
	Replayed bool
	// Run and Fence of that execution; Fence only where it was this call's.
	Run   uint32
	Fence uint64
	// Failures counted in this run before.
	Failures uint32
	// Finished is when the outcome was recorded, by the store's clock; zero
	// unless Replayed.
	Finished time.Time
	// Unkept is why the result could not be kept for repeats, which are then
	// answered with [ErrUnkept]; nil when it was.
	Unkept error
}

// Errors of [Do], beside those of the function and of the store.
var (
	// ErrBusy: another call runs the function; see [BusyError].
	ErrBusy = errors.New("another call is running")
	// ErrConflict: the key was used with another payload.
	ErrConflict = errors.New("same key, other payload")
	// ErrInDoubt: an effect may have happened, and nobody has decided yet.
	ErrInDoubt = errors.New("in doubt: an effect may have happened")
	// ErrUnkept: the function succeeded before and its result was too large, or
	// no JSON, to be kept.
	ErrUnkept = errors.New("succeeded before, and the result was not kept")
	// ErrSuperseded: the function has run and returned, and its claim had been
	// taken over meanwhile: its effects may have happened twice. Calling again
	// gives what is on record.
	ErrSuperseded = errors.New("claim was taken over while the function ran")
	// ErrUnrecorded: the function has run and its outcome could not be written.
	// It may run again.
	ErrUnrecorded = errors.New("outcome could not be recorded")
	// ErrLeaseLost is the cause with which the function's context ends when its
	// lease could not be renewed, and ErrTimeout when it ran for too long.
	ErrLeaseLost = errors.New("lease could not be renewed")
	ErrTimeout   = errors.New("function ran for longer than its guard allows")
)

// BusyError is the answer of a guard that does not wait. It is [ErrBusy].
type BusyError struct {
	Key  Key
	Wait time.Duration // until the key is free, unless its owner renews
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("%v: %v, try again in %v", e.Key, ErrBusy, e.Wait)
}
func (e *BusyError) Unwrap() error { return ErrBusy }

// FailedError is the recorded failure of a key that has failed for good, as
// every call but the first gets it.
type FailedError struct {
	Key    Key
	Reason string // "terminal" or "exhausted"
	Text   string // of the error, as kept
	Type   string // of the error
}

func (e *FailedError) Error() string {
	return fmt.Sprintf("%v failed for good (%s): %s", e.Key, e.Reason, e.Text)
}

// PanicError is a panic of the function. It counts as a failure.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

type finalError struct{ err error }

func (e *finalError) Error() string { return e.err.Error() }
func (e *finalError) Unwrap() error { return e.err }

// Final marks err as one that no further try can mend: the key fails for good
// and every later call is answered with it. Nil stays nil.
func Final(err error) error {
	if err == nil {
		return nil
	}
	return &finalError{err}
}

// IsFinal says that [Final] marked err or one that it wraps, for a
// [Guard.Classify].
func IsFinal(err error) bool {
	var f *finalError
	return errors.As(err, &f)
}

// Option adds to one call of [Do].
type Option func(*attempt)

// Payload says what the call is about. Calls of one key with another payload
// are answered [ErrConflict] and run nothing.
func Payload(content []byte) Option {
	return func(a *attempt) { a.print = Fingerprint{Sum: sha256.Sum256(content), Rule: PayloadRule} }
}

func (g *Guard) policy() *Policy {
	p := &Policy{Failures: orDefault(g.Failures, DefaultFailures), Lone: 1, Window: orDefault(g.Window, DefaultWindow), NoLetters: true}
	p.Window = max(p.Window, 0)
	return p
}

func (g *Guard) lease() time.Duration   { return orDefault(g.Lease, DefaultLease) }
func (g *Guard) timeout() time.Duration { return orDefault(g.Timeout, DefaultTimeout) }

func orDefault[N comparable](n, or N) N {
	var zero N
	if n == zero {
		return or
	}
	return n
}

// outcome classifies an error of the function. ctx is the caller's and cause
// why the function's own context ended, nil when it has not.
func (g *Guard) outcome(ctx context.Context, cause, err error) (o Outcome) {
	defer func() {
		if recover() != nil { // Classify's, or that of a method of err
			o = Failure
		}
	}()
	if g.Classify != nil {
		if o := g.Classify(err); o != Success && o != 0 && o <= Skip {
			return o
		}
		return Failure
	}
	cut := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || cause != nil && errors.Is(err, cause)
	switch {
	case IsFinal(err):
		return Terminal
	case cut && (ctx.Err() != nil || errors.Is(cause, ErrLeaseLost)):
		// Somebody cut the function short. That says nothing about it.
		return Release
	}
	return Failure
}

// text is what is kept of err. Where Redact or Error panics, nothing of it may
// pass but its type.
func (g *Guard) text(err error) (text string) {
	defer func() {
		if recover() != nil {
			text = cut.Text(fmt.Sprintf("%T, whose text is left out: asking for it panicked", err), MaxError)
		}
	}()
	if g.Redact != nil {
		return cut.Text(g.Redact(err), MaxError)
	}
	return cut.Text(err.Error(), MaxError)
}

// panicOf is the panic that err tells of, nil when it tells of none.
func panicOf(err error) (p *PanicError) {
	defer func() {
		if recover() != nil { // in Unwrap or As
			p = nil
		}
	}()
	p, _ = errors.AsType[*PanicError](err)
	return p
}
