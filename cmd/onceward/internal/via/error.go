package via

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/internal/adminapi"
)

// Errors of requests, found with errors.Is in an [*Error].
var (
	// ErrUnreachable: nobody answers at the address, or a proxy in between says
	// so.
	ErrUnreachable = errors.New("the consumer cannot be reached")
	// ErrNotOnceward: somebody else answers there.
	ErrNotOnceward = errors.New("this is no onceward consumer")
	// ErrVersion: consumer and command are of releases that do not fit.
	ErrVersion = errors.New("the consumer speaks another version")
	// ErrToken: the consumer wants a token, or another one.
	ErrToken = errors.New("the consumer wants a token that it knows")
	// ErrRole: the token's role is not enough; [Error.Need] is the one that is.
	ErrRole = errors.New("the token has not the role for this")
	// ErrForbidden: not for anybody, such as a topic of another consumer's.
	ErrForbidden = errors.New("the consumer does not do this for anybody")
	// ErrCut: the answer ended before it was complete.
	ErrCut = errors.New("the answer was cut short")
)

// Error is a request that was not answered as asked. Its text says where, what
// and why, on one line.
type Error struct {
	// Address of the consumer.
	Address string
	// Code that the consumer gave; empty where it gave none.
	Code adminapi.Code
	// Need is the role that would have been enough, with [ErrRole].
	Need string
	// Sent says that the consumer may have received the request: a change may
	// have taken effect.
	Sent bool

	text string
	is   []error
}

func (e *Error) Error() string   { return e.Address + ": " + e.text }
func (e *Error) Unwrap() []error { return e.is }

// fail makes an [Error] that is each of the errors given.
func (c *Client) fail(sent bool, text string, is ...error) *Error {
	return &Error{Address: c.base, Sent: sent, text: text, is: is}
}

// unreached is the error of a request that brought no answer.
func (c *Client) unreached(ctx context.Context, sent bool, err error) *Error {
	var certificate *tls.CertificateVerificationError
	switch {
	case ctx.Err() != nil:
		return c.fail(sent, "asking the consumer: "+context.Cause(ctx).Error(), ctx.Err(), context.Cause(ctx))
	case errors.As(err, &certificate):
		return c.fail(sent, "the certificate is not trusted: "+clean(certificate.Err.Error()), ErrUnreachable)
	case strings.Contains(err.Error(), "malformed HTTP"):
		// The error repeats what was said instead, such as the greeting of a broker.
		return c.fail(sent, ErrNotOnceward.Error()+": what answers does not speak HTTP", ErrNotOnceward)
	}
	return c.fail(sent, ErrUnreachable.Error()+": "+clean(err.Error()), ErrUnreachable, err)
}

// refused reads an answer that is none.
func (c *Client) refused(r *http.Response, body []byte) *Error {
	version := r.Header.Get(adminapi.VersionHeader)
	switch {
	case version == "" && gateway(r.StatusCode):
		return c.fail(true, fmt.Sprintf("%v: it is starting, or somebody in between answers for it, with %d", ErrUnreachable, r.StatusCode), ErrUnreachable)
	case version == "" && r.StatusCode/100 == 3:
		return c.fail(true, fmt.Sprintf("%v: it answers %d and sends on to %q", ErrNotOnceward, r.StatusCode, clean(r.Header.Get("Location"))), ErrNotOnceward)
	case version == "":
		return c.fail(true, fmt.Sprintf("%v: it answers %d with %q", ErrNotOnceward, r.StatusCode, clean(r.Header.Get("Content-Type"))), ErrNotOnceward)
	case version != ourVersion:
		return c.fail(true, fmt.Sprintf("%v: it speaks version %s of the interface, this command version %d", ErrVersion, clean(version), adminapi.Version), ErrVersion)
	}
	var f adminapi.Failure
	if err := adminapi.DecodeAnswer(body, &f); err != nil {
		return c.fail(true, fmt.Sprintf("the consumer answers %d without saying why", r.StatusCode))
	}
	e := c.fail(true, f.Error.Line(), f.Error.Err())
	e.Code = f.Error.Code
	switch f.Error.Code {
	case adminapi.CodeToken:
		e.is = append(e.is, ErrToken, brokers.ErrUnauthorized)
	case adminapi.CodeRole:
		e.is, e.Need = append(e.is, ErrRole, brokers.ErrUnauthorized), clean(f.Error.Need)
	case adminapi.CodeForbidden:
		e.is = append(e.is, ErrForbidden, brokers.ErrUnauthorized)
	case adminapi.CodeVersion, adminapi.CodeField, adminapi.CodePath:
		e.is = append(e.is, ErrVersion)
	}
	e.Sent = !untouched(f.Error.Code)
	return e
}

// untouched says that a code means that nothing was done.
func untouched(code adminapi.Code) bool {
	switch code {
	case adminapi.CodeRequest, adminapi.CodeField, adminapi.CodeVersion, adminapi.CodePath, adminapi.CodeToken, adminapi.CodeRole,
		adminapi.CodeForbidden, adminapi.CodeBodySize, adminapi.CodeBusy, adminapi.CodeNotReady, adminapi.CodeUnsupported:
		return true
	}
	return false
}

// passing says that the same request may succeed in a moment.
func (e *Error) passing() bool {
	return errors.Is(e, ErrUnreachable) || e.Code == adminapi.CodeBusy
}

func gateway(status int) bool {
	return status == http.StatusBadGateway || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout
}

// clean is a short text of somebody else's that may be shown on a terminal.
func clean(text string) string {
	return adminapi.OneLine(text[:min(len(text), 500)])
}
