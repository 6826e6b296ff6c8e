package consumer

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// outcomeOf says what a handler's error means, and the delay that the handler
// asked for, 0 for none. See [Classify] for the rule; what the handler did not
// mark is given to classify. A panic in a user's code, and a class that does
// not exist, decide nothing: the error is unclassified.
func outcomeOf(err error, classify func(error) Class) (c Class, after time.Duration) {
	defer func() {
		if recover() != nil {
			c, after = Unclassified, 0
		}
	}()
	var m marks
	m.read(err)
	switch {
	case m.doubt:
		return ClassInDoubt, 0
	case m.terminal:
		return ClassTerminal, 0
	case m.retryable:
		return ClassRetryable, m.after
	case m.skip:
		return ClassSkip, 0
	case m.nodes > maxErrorNodes:
		// errors.Is would never return from a cycle, nor would a classifier.
		return Unclassified, 0
	}
	if c = classify(err); c > ClassSkip {
		return Unclassified, 0
	}
	return c, 0
}

// maxErrorNodes bounds how much of an error's tree is read: more is a cycle.
const maxErrorNodes = 1000

// marks are what a tree of errors says of itself.
//
// On one chain the outermost mark counts, since whoever wrapped last knew
// most; only a doubt cannot be overruled from outside, for it must never be
// hidden. The branches of a joined error are merged.
type marks struct {
	doubt, terminal, retryable, skip bool
	after                            time.Duration
	nodes                            int
}

func (m *marks) read(err error) {
	if m.nodes++; err == nil || m.nodes > maxErrorNodes {
		return
	}
	switch e := err.(type) { //nolint:errorlint // the tree is walked here, node by node
	case *classified:
		m.doubt = m.doubt || e.class == ClassInDoubt || m.doubtIn(e.err)
		m.terminal = m.terminal || e.class == ClassTerminal
		m.retryable = m.retryable || e.class == ClassRetryable
		m.after = max(m.after, e.after)
		return
	case *backoff.PermanentError:
		m.doubt = m.doubt || m.doubtIn(e.Err)
		m.terminal = true
		return
	}
	if err == Skip { //nolint:errorlint // the tree is walked here, node by node
		m.skip = true
		return
	}
	// A type of the user's own may say that it is a Skip.
	if is, ok := err.(interface{ Is(target error) bool }); ok && is.Is(Skip) {
		m.skip = true
	}
	switch e := err.(type) { //nolint:errorlint // the tree is walked here, node by node
	case interface{ Unwrap() []error }:
		for _, branch := range e.Unwrap() {
			m.read(branch)
		}
	case interface{ Unwrap() error }:
		m.read(e.Unwrap())
	}
}

// doubtIn looks below a mark, where only a doubt is of interest.
func (m *marks) doubtIn(err error) bool {
	below := marks{nodes: m.nodes}
	below.read(err)
	m.nodes = below.nodes
	return below.doubt
}

// Classify returns a classifier that asks each of the given ones in turn and
// takes the first answer that is not [Unclassified].
//
// It is asked only about errors that the handler did not mark. What the
// handler said comes first: [InDoubt] anywhere in the error's tree; then
// [Terminal] and backoff.Permanent; then [Retryable] and [RetryAfter], the
// longest delay; then [Skip]. Where one mark wraps another the outer one
// counts, save for InDoubt, which nothing overrules.
func Classify(each ...func(error) Class) func(error) Class {
	return func(err error) Class {
		for _, classify := range each {
			if c := classify(err); c != Unclassified {
				return c
			}
		}
		return Unclassified
	}
}

// ClassifyDefault is the classifier of routes that name none: contexts, SQL
// states, HTTP statuses, database/sql and the network, in this order, since an
// error that carries a code knows more than the connection it came over. What
// none of them knows is [Unclassified]: retryable, with the bound of failures.
func ClassifyDefault(err error) Class { return classifyDefault(err) }

var classifyDefault = Classify(ClassifyContext, ClassifySQLState, ClassifyStatus, ClassifySQL, ClassifyNet)

// ClassifyContext knows the errors of contexts.
func ClassifyContext(err error) Class {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		// Slow today; nothing is known about tomorrow.
		return ClassRetryable
	case errors.Is(err, context.Canceled):
		// Somebody gave up waiting; not the message's fault.
		return ClassRetryable
	}
	return Unclassified
}

// ClassifyNet knows errors of connections and of name lookups.
func ClassifyNet(err error) Class {
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		// A name that does not exist is mostly a typing error, but it is also
		// what a service shows while it is moved: the bound decides.
		return Unclassified
	}
	if address, ok := errors.AsType[*net.AddrError](err); ok && !address.Timeout() {
		// An address that cannot be parsed: the configuration's fault, which
		// a deployment mends. The bound decides.
		return Unclassified
	}
	for _, gone := range []error{
		syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE, syscall.ETIMEDOUT,
		syscall.EHOSTUNREACH, syscall.ENETUNREACH, net.ErrClosed, io.ErrUnexpectedEOF,
	} {
		if errors.Is(err, gone) {
			// The other side is down, restarting or cut off.
			return ClassRetryable
		}
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return ClassRetryable
	}
	return Unclassified
}

// ClassifySQL knows the errors of database/sql itself.
func ClassifySQL(err error) Class {
	switch {
	case errors.Is(err, driver.ErrBadConn), errors.Is(err, sql.ErrConnDone):
		// The pool gives another connection next time.
		return ClassRetryable
	case errors.Is(err, sql.ErrNoRows):
		// Mostly a row that another message has yet to bring: later messages
		// overtake earlier ones. The bound decides.
		return Unclassified
	}
	return Unclassified
}

// ClassifySQLState knows PostgreSQL's error codes, as pgx and lib/pq errors
// carry them: anything with a method SQLState() string.
//
// Source: PostgreSQL documentation, appendix A.
func ClassifySQLState(err error) Class {
	coded, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err)
	if !ok {
		return Unclassified
	}
	code := coded.SQLState()
	if len(code) != 5 {
		return Unclassified
	}
	switch code {
	case "40003", "08007":
		// Statement completion or transaction resolution unknown: the commit
		// may have happened. Running again is right where the record or the
		// rows answer for it, which only the handler knows.
		return ClassRetryable
	case "55P03", "55006", "57014":
		// Lock not available, object in use, query cancelled by a timeout.
		return ClassRetryable
	case "25006":
		// Read-only transaction: a failover is under way.
		return ClassRetryable
	}
	switch code[:2] {
	case "40", "08", "53", "57", "58":
		// Serialization failures and deadlocks; connections; out of resources;
		// shutdown by an operator; the system below. All pass.
		return ClassRetryable
	case "22", "44":
		// The data does not fit the column or the view, however often it is sent.
		return ClassTerminal
	case "23":
		if code == "23502" || code == "23514" {
			// Not null, check: this data will never be taken.
			return ClassTerminal
		}
		// A foreign key may be satisfied by a later message; a unique or
		// exclusion conflict may be a race that a second try sees the end of.
		// The bound decides.
		return Unclassified
	}
	// Syntax, missing tables and permissions (42, 28, 3D …) are the program's
	// or the deployment's fault, which a rollout mends: the bound decides.
	return Unclassified
}

// ClassifyStatus knows errors with a method StatusCode() int or HTTPStatusCode()
// int, as HTTP clients and cloud SDKs carry them, and sorts them as
// [ClassifyHTTP] does.
func ClassifyStatus(err error) Class {
	if coded, ok := errors.AsType[interface {
		error
		StatusCode() int
	}](err); ok {
		return ClassifyHTTP(coded.StatusCode())
	}
	if coded, ok := errors.AsType[interface {
		error
		HTTPStatusCode() int
	}](err); ok {
		return ClassifyHTTP(coded.HTTPStatusCode())
	}
	return Unclassified
}

// ClassifyHTTP sorts an HTTP status that is not a success. It knows nothing of
// the call: a handler that charged somebody and got no clear answer says
// [InDoubt] itself.
//
// Source: RFC 9110 section 15, RFC 6585.
func ClassifyHTTP(status int) Class {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests, http.StatusLocked:
		// Says itself that a later try may succeed.
		return ClassRetryable
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		// Expired or rotated credentials: every message would fail, and all
		// succeed once they are renewed. Not the message's fault.
		return ClassRetryable
	case http.StatusNotFound, http.StatusConflict, http.StatusFailedDependency, http.StatusPreconditionFailed, http.StatusMisdirectedRequest:
		// Depends on what others do: a resource that comes later, a version
		// that moved on, a deployment under way. The bound decides.
		return Unclassified
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		// The other side will not learn it by being asked again, but its next
		// release may. The bound decides.
		return Unclassified
	}
	switch {
	case status >= 400 && status < 500:
		// The request itself is refused.
		return ClassTerminal
	case status >= 500 && status < 600:
		// The other side has failed.
		return ClassRetryable
	}
	return Unclassified
}
