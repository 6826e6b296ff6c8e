package via

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/dedup"
)

// cutting serves one path by cutting the connection after it has done so much.
type cutting struct {
	http.Handler
	path  string
	after int // bytes of the answer that get through; below 0: the request is not even served
	calls atomic.Int32
}

func (c *cutting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.Path, c.path) {
		c.Handler.ServeHTTP(w, r)
		return
	}
	c.calls.Add(1)
	if c.after >= 0 {
		inner := httptest.NewRecorder()
		c.Handler.ServeHTTP(inner, r)
		maps.Copy(w.Header(), inner.Header())
		body := inner.Body.Bytes()
		if c.after > 0 {
			_, _ = w.Write(body[:min(c.after, max(len(body)-2, 0))])
			_ = http.NewResponseController(w).Flush()
		}
	}
	panic(http.ErrAbortHandler)
}

func TestAPublishWhoseAnswerDidNotComeMayBeStored(t *testing.T) {
	for _, after := range []int{-1, 0, 3, 1000} {
		o := newOther(t)
		cut := &cutting{Handler: o.handler, path: "/v1/publish", after: after}
		c := served(t, cut, Options{})
		errs := c.Publish(t.Context(), []brokers.Outgoing{{Topic: topic}, {Topic: retry}})
		if len(errs) != 2 || !errors.Is(errs[0], brokers.ErrUnknownOutcome) || !errors.Is(errs[1], brokers.ErrUnknownOutcome) {
			t.Errorf("cut after %d bytes: %v", after, errs)
		}
		if n := cut.calls.Load(); n != 1 {
			t.Errorf("it was sent %d times", n)
		}
	}
	for name, handler := range map[string]http.HandlerFunc{
		"garbage":     answering(200, ours, "{"),
		"no outcomes": answering(200, ours, `{"errors":[]}`),
		"a proxy":     answering(504, nil, ""),
		"a failure":   answering(500, ours, `{"error":{"code":"error","message":"panicked"}}`),
		"a stranger":  answering(200, nil, "ok"),
	} {
		o := newOther(t)
		mux := http.NewServeMux()
		mux.Handle("/", o.handler)
		mux.Handle("/v1/publish", handler)
		c := served(t, mux, Options{})
		if err := c.Publish(t.Context(), []brokers.Outgoing{{Topic: topic}})[0]; !errors.Is(err, brokers.ErrUnknownOutcome) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What did not leave this machine is stored nowhere, and may be sent again.
func TestAPublishToNobodyIsNotStored(t *testing.T) {
	server := httptest.NewServer(newOther(t).handler)
	c, err := Connect(t.Context(), server.URL, Options{})
	if err != nil {
		t.Fatal(err)
	}
	server.Close()
	c.Close() // else the first request is sent into a connection that has just ended
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	err = c.Publish(ctx, []brokers.Outgoing{{Topic: topic}})[0]
	if !errors.Is(err, ErrUnreachable) || errors.Is(err, brokers.ErrUnknownOutcome) {
		t.Errorf("%v", err)
	}
	var of *Error
	ctx, cancel = context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, err := c.Apply(ctx, []dedup.Op{{Kind: dedup.Import, Key: keyOf("A-1"), Operator: &dedup.OperatorOp{}}}); !errors.As(err, &of) || of.Sent || !errors.Is(err, ErrUnreachable) {
		t.Errorf("%v", err)
	}
	large := c.Publish(t.Context(), []brokers.Outgoing{{Topic: topic, Value: make([]byte, 13<<20)}})[0]
	if !errors.Is(large, brokers.ErrTooLarge) {
		t.Errorf("%v", large)
	}
}

func TestAChangeIsSentOnceAndAQuestionAgain(t *testing.T) {
	o := newOther(t)
	cut := &cutting{Handler: o.handler, path: "/v1/apply", after: 0}
	c := served(t, cut, Options{})
	var of *Error
	if _, err := c.Apply(t.Context(), []dedup.Op{{Kind: dedup.Import, Key: keyOf("A-1"), Operator: &dedup.OperatorOp{}}}); !errors.As(err, &of) || !of.Sent || cut.calls.Load() != 1 {
		t.Errorf("%v after %d calls", err, cut.calls.Load())
	}
	var calls atomic.Int32
	c = served(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/records" && calls.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		o.handler.ServeHTTP(w, r)
	}), Options{})
	if records, err := c.Lookup(t.Context(), []dedup.Key{keyOf("A-1")}); err != nil || records[0].State != dedup.Succeeded || calls.Load() != 3 {
		t.Errorf("%+v, %v after %d calls", records, err, calls.Load())
	}
}
