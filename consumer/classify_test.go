package consumer

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"
)

type stateError string

func (e stateError) Error() string    { return "sql state " + string(e) }
func (e stateError) SQLState() string { return string(e) }

type statusError int

func (e statusError) Error() string   { return fmt.Sprint("status ", int(e)) }
func (e statusError) StatusCode() int { return int(e) }

type sdkError struct{ code int }

func (e *sdkError) Error() string       { return "sdk" }
func (e *sdkError) HTTPStatusCode() int { return e.code }

type loopError struct{}

func (e *loopError) Error() string { return "loop" }
func (e *loopError) Unwrap() []error {
	return []error{e, e}
}

type notMineError struct{}

func (notMineError) Error() string        { return "not mine" }
func (notMineError) Is(target error) bool { return target == Skip }

type panickyError struct{}

func (panickyError) Error() string   { return "panicky" }
func (panickyError) Is(error) bool   { panic("is") }
func (e panickyError) Unwrap() error { panic("unwrap") }

func TestMarksAreSeenThroughWrapping(t *testing.T) {
	plain := errors.New("plain")
	wrap := func(err error) error { return fmt.Errorf("while charging: %w", err) }
	for _, c := range []struct {
		name  string
		err   error
		class Class
		after time.Duration
	}{
		{"plain", plain, Unclassified, 0},
		{"terminal", Terminal(plain), ClassTerminal, 0},
		{"terminal, wrapped twice", wrap(wrap(Terminal(plain))), ClassTerminal, 0},
		{"permanent", backoff.Permanent(plain), ClassTerminal, 0},
		{"permanent, wrapped", wrap(backoff.Permanent(plain)), ClassTerminal, 0},
		{"retryable", wrap(Retryable(plain)), ClassRetryable, 0},
		{"retry after", wrap(RetryAfter(plain, time.Hour)), ClassRetryable, time.Hour},
		{"retry after a negative delay", RetryAfter(plain, -1), ClassRetryable, 0},
		{"in doubt", wrap(InDoubt(plain)), ClassInDoubt, 0},
		{"skip", Skip, ClassSkip, 0},
		{"skip, wrapped", wrap(Skip), ClassSkip, 0},
		{"skip by Is", wrap(notMineError{}), ClassSkip, 0},
		{"skip with a cause", fmt.Errorf("%w: %w", Skip, plain), ClassSkip, 0},
		{"joined with plain", errors.Join(plain, Terminal(plain)), ClassTerminal, 0},
		{"doubt beside terminal", errors.Join(Terminal(plain), InDoubt(plain)), ClassInDoubt, 0},
		{"terminal beside retryable", errors.Join(Retryable(plain), Terminal(plain)), ClassTerminal, 0},
		{"retryable beside skip", errors.Join(Skip, Retryable(plain)), ClassRetryable, 0},
		{"the longest delay", errors.Join(RetryAfter(plain, time.Second), RetryAfter(plain, time.Minute)), ClassRetryable, time.Minute},
		{"the outer mark", Retryable(wrap(Terminal(plain))), ClassRetryable, 0},
		{"the outer mark over permanent", Retryable(backoff.Permanent(plain)), ClassRetryable, 0},
		{"the outer mark over skip", Terminal(wrap(Skip)), ClassTerminal, 0},
		{"doubt below terminal", Terminal(wrap(InDoubt(plain))), ClassInDoubt, 0},
		{"doubt below permanent", backoff.Permanent(InDoubt(plain)), ClassInDoubt, 0},
		{"doubt below retryable below join", errors.Join(plain, Retryable(errors.Join(plain, InDoubt(plain)))), ClassInDoubt, 0},
		{"panic with a marked error", &PanicError{Value: Terminal(plain)}, ClassTerminal, 0},
		{"panic with a text", &PanicError{Value: "boom"}, Unclassified, 0},
		{"a mark over a classified error", Terminal(context.DeadlineExceeded), ClassTerminal, 0},
		{"endless", &loopError{}, Unclassified, 0},
		{"an error that panics", panickyError{}, Unclassified, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			class, after := outcomeOf(c.err, ClassifyDefault)
			if class != c.class || after != c.after {
				t.Errorf("got %v after %v, want %v after %v", class, after, c.class, c.after)
			}
		})
	}
}

func TestMarkingNothingIsNothing(t *testing.T) {
	for _, err := range []error{Terminal(nil), Retryable(nil), RetryAfter(nil, time.Second), InDoubt(nil)} {
		if err != nil {
			t.Errorf("got %v", err)
		}
	}
}

func TestAMarkKeepsTheError(t *testing.T) {
	err := Terminal(fmt.Errorf("read: %w", os.ErrNotExist))
	if err.Error() != "read: file does not exist" || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestAClassifiersOwnFaultDecidesNothing(t *testing.T) {
	for _, classify := range []func(error) Class{func(error) Class { panic("boom") }, func(error) Class { return 99 }} {
		if class, _ := outcomeOf(io.EOF, classify); class != Unclassified {
			t.Errorf("got %v", class)
		}
	}
}

func TestTheDefaultClassifierKnows(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for _, c := range []struct {
		name  string
		err   error
		class Class
	}{
		{"deadline", fmt.Errorf("x: %w", context.DeadlineExceeded), ClassRetryable},
		{"cancelled", context.Canceled, ClassRetryable},
		{"connection refused", fmt.Errorf("x: %w", refused), ClassRetryable},
		{"connection reset", syscall.ECONNRESET, ClassRetryable},
		{"closed", net.ErrClosed, ClassRetryable},
		{"broke off", io.ErrUnexpectedEOF, ClassRetryable},
		{"name lookup timed out", &net.DNSError{IsTimeout: true}, ClassRetryable},
		{"no such name", &net.DNSError{IsNotFound: true}, Unclassified},
		{"no address", &net.AddrError{Err: "mismatched"}, Unclassified},
		{"bad connection", driver.ErrBadConn, ClassRetryable},
		{"connection returned", sql.ErrConnDone, ClassRetryable},
		{"no rows", sql.ErrNoRows, Unclassified},
		{"serialization", stateError("40001"), ClassRetryable},
		{"deadlock", fmt.Errorf("x: %w", stateError("40P01")), ClassRetryable},
		{"too many connections", stateError("53300"), ClassRetryable},
		{"shutdown", stateError("57P01"), ClassRetryable},
		{"query cancelled", stateError("57014"), ClassRetryable},
		{"lock not available", stateError("55P03"), ClassRetryable},
		{"read-only", stateError("25006"), ClassRetryable},
		{"connection failure", stateError("08006"), ClassRetryable},
		{"commit unknown", stateError("08007"), ClassRetryable},
		{"out of range", stateError("22003"), ClassTerminal},
		{"not null", stateError("23502"), ClassTerminal},
		{"check", stateError("23514"), ClassTerminal},
		{"unique", stateError("23505"), Unclassified},
		{"foreign key", stateError("23503"), Unclassified},
		{"undefined table", stateError("42P01"), Unclassified},
		{"no state", stateError(""), Unclassified},
		{"status 503", statusError(503), ClassRetryable},
		{"status 429", fmt.Errorf("x: %w", statusError(429)), ClassRetryable},
		{"status 422", statusError(422), ClassTerminal},
		{"status of an SDK", &sdkError{400}, ClassTerminal},
		{"unknown", errors.New("x"), Unclassified},
		{"end of file", io.EOF, Unclassified},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := ClassifyDefault(c.err); got != c.class {
				t.Errorf("got %v, want %v", got, c.class)
			}
		})
	}
}

func TestHTTPStatusesAreSorted(t *testing.T) {
	for class, statuses := range map[Class][]int{
		ClassRetryable: {401, 403, 407, 408, 423, 425, 429, 500, 502, 503, 504, 507, 599},
		ClassTerminal:  {400, 402, 405, 406, 410, 411, 413, 414, 415, 422, 451},
		Unclassified:   {404, 409, 412, 421, 424, 501, 505, 0, -1, 100, 200, 302, 600},
	} {
		for _, status := range statuses {
			if got := ClassifyHTTP(status); got != class {
				t.Errorf("%d: got %v, want %v", status, got, class)
			}
		}
	}
}

func TestClassifiersAreAskedInTurn(t *testing.T) {
	mine := errors.New("mine")
	classify := Classify(func(err error) Class {
		if errors.Is(err, mine) {
			return ClassTerminal
		}
		return Unclassified
	}, ClassifyDefault)
	if got := classify(mine); got != ClassTerminal {
		t.Errorf("got %v", got)
	}
	if got := classify(context.Canceled); got != ClassRetryable {
		t.Errorf("got %v", got)
	}
}
