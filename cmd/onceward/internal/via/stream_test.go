package via

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/internal/adminapi"
)

// line is a stream with these lines.
func line(lines ...string) http.HandlerFunc {
	return answering(200, map[string]string{adminapi.VersionHeader: "1", "Content-Type": "application/x-ndjson"}, strings.Join(lines, "\n")+"\n")
}

func TestAStreamThatIsNotCompleteIsAnError(t *testing.T) {
	o := newOther(t)
	o.end(t, "A-1", dedup.Success)
	o.end(t, "A-2", dedup.Success)
	record := `{"record":{"key":{"consumer":"billing","scope":"order.create","id":"A-1"},"state":"succeeded"}}`
	for name, c := range map[string]struct {
		handler http.Handler
		is      error
	}{
		"cut in a line":      {&cutting{Handler: o.handler, path: "/v1/records", after: 40}, ErrCut},
		"cut before the end": {&cutting{Handler: o.handler, path: "/v1/records", after: 1 << 20}, ErrCut},
		"no last line":       {line(record), ErrCut},
		"one is missing":     {line(record, `{"end":true,"count":2}`), ErrCut},
		"an uncounted end":   {line(record, `{"end":true}`), ErrCut},
		"an error":           {line(record, `{"error":{"code":"store_closed","message":"closed"}}`), dedup.ErrClosed},
		"no record":          {line(`{"letter":{"state":"open"}}`, `{"end":true,"count":1}`), ErrNotOnceward},
		"garbage":            {line("\x00"), ErrNotOnceward},
		"a newer line":       {line(`{"novel":{}}`), ErrVersion},
		"a newer state":      {line(`{"record":{"key":{"consumer":"billing"},"state":"novel"}}`), ErrVersion},
		"an endless line":    {line(strings.Repeat("x", adminapi.MaxLine+1)), ErrNotOnceward},
	} {
		mux := http.NewServeMux()
		mux.Handle("/", o.handler)
		mux.Handle("/v1/records", c.handler)
		client := served(t, mux, Options{})
		var err error
		for _, err = range client.Scan(t.Context(), "billing") {
		}
		if !errors.Is(err, c.is) {
			t.Errorf("%s: %v, want %v", name, err, c.is)
		}
		if _, err := client.Lookup(t.Context(), []dedup.Key{keyOf("A-1"), keyOf("A-2"), keyOf("A-3")}); err == nil {
			t.Errorf("%s: three keys were looked up", name)
		}
	}
}

func TestAnswersThatDoNotFitTheQuestionAreErrors(t *testing.T) {
	o := newOther(t)
	for path, handler := range map[string]http.HandlerFunc{
		"/v1/records": line(`{"record":{"key":{"consumer":"billing","scope":"order.create","id":"A-2"},"state":"succeeded"}}`, `{"end":true,"count":1}`),
		"/v1/letters": line(`{"letter":{"id":"l2","state":"open"}}`, `{"end":true,"count":1}`),
		"/v1/apply":   line(`{"answer":{"kind":"done","state":"absent"}}`, `{"answer":{"kind":"done","state":"absent"}}`, `{"end":true,"count":2}`),
		"/v1/inspect": answering(200, ours, `{"topics":[]}`),
		"/v1/browse":  line(`{"message":{"offset":1}}`, `{"end":true,"count":1}`),
	} {
		mux := http.NewServeMux()
		mux.Handle("/", o.handler)
		mux.Handle(path, handler)
		c := served(t, mux, Options{})
		var err error
		switch path {
		case "/v1/records":
			_, err = c.Lookup(t.Context(), []dedup.Key{keyOf("A-1")})
		case "/v1/letters":
			_, err = c.Letters(t.Context(), []string{"l1"})
		case "/v1/apply":
			_, err = c.Apply(t.Context(), []dedup.Op{{Kind: dedup.Import, Key: keyOf("A-1"), Operator: &dedup.OperatorOp{}}})
		case "/v1/inspect":
			_, err = c.Inspect(t.Context(), []string{topic})
		case "/v1/browse":
			for _, err = range c.Browse(t.Context(), topic, brokers.From{}) {
			}
		}
		if !errors.Is(err, ErrNotOnceward) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestASilentStreamIsGivenUpAndASlowReaderIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOther(t)
		for i := range 3 {
			o.end(t, fmt.Sprint(i), dedup.Success)
		}
		over := make(chan struct{})
		silent := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/letters" {
				w.Header().Set(adminapi.VersionHeader, "1")
				_, _ = w.Write([]byte("{\"alive\":true}\n"))
				<-over
				return
			}
			o.handler.ServeHTTP(w, r)
		})
		c := wired(t, silent, Options{})
		began := time.Now()
		var err error
		for _, err = range c.ScanLetters(t.Context(), "") {
		}
		if took := time.Since(began); !errors.Is(err, ErrCut) || took != silentFor {
			t.Errorf("%v after %v", err, took)
		}
		close(over)
		n := 0
		for _, err := range c.Scan(t.Context(), "") {
			if err != nil {
				t.Error(err)
			}
			time.Sleep(10 * time.Minute)
			n++
		}
		if n != 3 {
			t.Errorf("%d of 3 came", n)
		}
	})
}

func TestTheContextEndsARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOther(t)
		hanging := make(chan struct{})
		c := wired(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/consumer" {
				o.handler.ServeHTTP(w, r)
				return
			}
			<-hanging
		}), Options{})
		defer close(hanging)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.Lookup(ctx, []dedup.Key{keyOf("A-1")})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		if err := c.Publish(ctx, []brokers.Outgoing{{Topic: topic}})[0]; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
}
