package via

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/onceward/onceward/internal/adminapi"
)

// ourVersion is what a consumer that understands us says in its header.
var ourVersion = strconv.Itoa(adminapi.Version)

// request is one question.
type request struct {
	method string
	path   string // below /v1
	query  url.Values
	body   []byte // nil for none
	again  bool   // asking twice does no harm
}

// maxAnswer bounds an answer that is no stream: some thousand topics or errors.
const maxAnswer = 16 << 20

// call asks and reads an answer of one JSON value into v.
func (c *Client) call(ctx context.Context, q request, v any) error {
	ctx, cancel := context.WithTimeout(ctx, 2*answerFor)
	defer cancel()
	r, err := c.ask(ctx, q)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(io.LimitReader(r.Body, maxAnswer+1))
	switch {
	case err != nil && ctx.Err() != nil:
		return c.unreached(ctx, true, err)
	case err != nil:
		return c.fail(true, fmt.Sprintf("%v: %s", ErrCut, clean(err.Error())), ErrCut, err)
	case len(body) > maxAnswer:
		return c.fail(true, fmt.Sprintf("the answer is larger than %d bytes", maxAnswer), ErrNotOnceward)
	}
	return c.decode(body, v)
}

func (c *Client) decode(b []byte, v any) error {
	err := adminapi.DecodeAnswer(b, v)
	switch {
	case errors.Is(err, adminapi.ErrName):
		return c.fail(true, fmt.Sprintf("%v: it is newer than this command: %s", ErrVersion, clean(err.Error())), ErrVersion)
	case err != nil:
		return c.fail(true, "its answer cannot be read: "+clean(err.Error()), ErrNotOnceward)
	}
	return nil
}

// ask sends a request until it is answered with success; the caller closes the
// body. A request that did not leave this machine is sent again for some
// seconds, and so is any that may be asked twice.
//
// Errors: an [*Error].
func (c *Client) ask(ctx context.Context, q request) (*http.Response, error) {
	wait := backoff.NewExponentialBackOff(backoff.WithInitialInterval(50*time.Millisecond), backoff.WithMaxElapsedTime(againFor))
	for {
		r, e := c.once(ctx, q)
		if e == nil {
			return r, nil
		}
		pause := wait.NextBackOff()
		if pause == backoff.Stop || ctx.Err() != nil || !e.passing() || e.Sent && !q.again {
			return nil, e
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			e.is = append(e.is, ctx.Err(), context.Cause(ctx)) // the text says why it did not work before
			return nil, e
		}
	}
}

func (c *Client) once(ctx context.Context, q request) (*http.Response, *Error) {
	var connected atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	address := fmt.Sprintf("%s/v%d%s", c.base, adminapi.Version, q.path)
	if len(q.query) > 0 {
		address += "?" + q.query.Encode()
	}
	var body io.Reader
	if q.body != nil {
		body = bytes.NewReader(q.body)
	}
	r, err := http.NewRequestWithContext(traced, q.method, address, body)
	if err != nil {
		return nil, c.fail(false, clean(err.Error()))
	}
	if q.body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("User-Agent", "onceward")
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	} else if c.who != "" {
		r.Header.Set(adminapi.WhoHeader, c.who)
	}
	answer, err := c.http.Do(r)
	if err != nil {
		if of, ok := errors.AsType[*url.Error](err); ok {
			err = of.Err // the rest of it only repeats method and address
		}
		return nil, c.unreached(ctx, connected.Load(), err)
	}
	version := answer.Header.Get(adminapi.VersionHeader)
	if answer.StatusCode == http.StatusOK && version == ourVersion {
		return answer, nil
	}
	defer answer.Body.Close()
	var text []byte
	if version != "" && strings.HasPrefix(answer.Header.Get("Content-Type"), "application/json") {
		text, _ = io.ReadAll(io.LimitReader(answer.Body, 64<<10)) // what is there says why, or nothing does
	}
	return nil, c.refused(answer, text)
}
