package via

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/internal/adminapi"
)

func TestAnAddressIsCheckedWithoutTellingAPassword(t *testing.T) {
	for address, want := range map[string]string{
		"http://127.0.0.1:8080":        "http://127.0.0.1:8080",
		"http://127.0.0.1:8080/":       "http://127.0.0.1:8080",
		"https://ops.example/billing/": "https://ops.example/billing",
		"http://[::1]:8080":            "http://[::1]:8080",
	} {
		if got, err := readAddress(address); err != nil || got != want {
			t.Errorf("%s is %s, %v", address, got, err)
		}
	}
	for _, address := range []string{
		"", "127.0.0.1:8080", "localhost", "ftp://host", "http://", "http://:8080", "http://host/?q=1", "http://host/#x",
		"http://user:s3cret@host", "http://user:s3cret@host:x", "https://s3cret@host/%zz", "http://host/?token=s3cret",
	} {
		if _, err := readAddress(address); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// answering is a server that gives one answer.
func answering(status int, headers map[string]string, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

var ours = map[string]string{adminapi.VersionHeader: "1", "Content-Type": "application/json"}

func TestWhoAnswersIsToldApart(t *testing.T) {
	synctest.Test(t, whoAnswers)
}

func whoAnswers(t *testing.T) {
	refused := roundTrip(func(*http.Request) (*http.Response, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	})
	for name, c := range map[string]struct {
		handler http.Handler
		token   string
		is      error
		says    string
	}{
		"nobody":             {nil, "", ErrUnreachable, "cannot be reached"},
		"a proxy":            {answering(502, nil, "<html>Bad Gateway"), "", ErrUnreachable, "502"},
		"a web server":       {answering(200, map[string]string{"Content-Type": "text/html"}, "<html>"), "", ErrNotOnceward, "text/html"},
		"a web server's 404": {answering(404, nil, "404 page not found"), "", ErrNotOnceward, "404"},
		"a login page":       {answering(302, map[string]string{"Location": "https://login.example/"}, ""), "", ErrNotOnceward, "login.example"},
		"health endpoints":   {http.NewServeMux(), "", ErrNotOnceward, "404"},
		"a newer one":        {answering(404, map[string]string{adminapi.VersionHeader: "2"}, ""), "", ErrVersion, "version 2"},
		"no consumer":        {line(`{"end":true}`), "", ErrNotOnceward, "names no consumer"},
		"an older one":       {answering(400, ours, `{"error":{"code":"unknown_field","message":"novel"}}`), "", ErrVersion, "novel"},
		"without a token":    {newOther(t, someTokens...).handler, "", ErrToken, "a token is needed"},
		"another token":      {newOther(t, someTokens...).handler, "token-of-nobody-0123456789", ErrToken, "not known"},
		"garbage":            {answering(200, ours, "\x00\xff{"), "", ErrNotOnceward, "cannot be read"},
		"nothing":            {answering(200, ours, ""), "", ErrNotOnceward, "cannot be read"},
		"an error's garbage": {answering(500, ours, "\x1b[2J"), "", nil, "500"},
		"a hostile message":  {answering(403, ours, `{"error":{"code":"forbidden","message":"\u001b[2Jgone\nfishing"}}`), "", ErrForbidden, "gone fishing"},
		"too much":           {answering(200, ours, strings.Repeat(" ", maxAnswer+1)), "", ErrNotOnceward, "larger"},
	} {
		options := Options{Token: c.token, Transport: refused}
		if c.handler != nil {
			options.Transport = wire{c.handler}
		}
		began := time.Now()
		_, err := Connect(t.Context(), "http://127.0.0.1:8080", options)
		var of *Error
		if !errors.As(err, &of) || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(fmt.Sprint(err), c.says) {
			t.Errorf("%s: %v, want %v that says %q", name, err, c.is, c.says)
			continue
		}
		if strings.ContainsAny(err.Error(), "\x1b\n\x00\ufffd") || c.token != "" && strings.Contains(err.Error(), c.token) {
			t.Errorf("%s: %q", name, err)
		}
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("%s: it took %v", name, took)
		}
	}
}

// A newer consumer may say more, and is understood.
func TestWhatANewerConsumerSaysBesidesIsLeftOut(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle("/v1/consumer", answering(200, ours, `{"name":"billing","novel":1,"store":{"kind":"memory","novel":{}}}`))
	mux.Handle("/v1/letters", line(`{"letter":{"id":"l1","state":"open","novel":[]},"novel":null}`, `{"end":true,"count":1,"novel":0}`))
	c := served(t, mux, Options{})
	if letters, err := c.Letters(t.Context(), []string{"l1"}); err != nil || letters[0].State != dedup.LetterOpen || c.Info().Kind != "memory" {
		t.Errorf("%+v, %v", letters, err)
	}
}

var someTokens = []consumer.AdminToken{
	{Name: "vera", Token: "token-of-vera-0123456789", Role: consumer.AdminView},
	{Name: "rick", Token: "token-of-rick-0123456789", Role: consumer.AdminReplay},
}

func TestTheRoleThatIsMissingIsNamed(t *testing.T) {
	o := newOther(t, someTokens...)
	o.end(t, "A-1", dedup.Success)
	vera, rick := served(t, o.handler, Options{Token: someTokens[0].Token}), served(t, o.handler, Options{Token: someTokens[1].Token})
	needs := func(err error, role string) {
		t.Helper()
		var of *Error
		if !errors.As(err, &of) || !errors.Is(err, ErrRole) || of.Need != role || !strings.Contains(err.Error(), role) || of.Sent {
			t.Errorf("%v, want that the role %s is missing", err, role)
		}
	}
	_, err := vera.Pause(t.Context(), "", "")
	needs(err, "replay")
	err = vera.Publish(t.Context(), []brokers.Outgoing{{Topic: topic}})[0]
	needs(err, "replay")
	if !errors.Is(err, brokers.ErrUnauthorized) || errors.Is(err, brokers.ErrUnknownOutcome) {
		t.Errorf("a publish that was refused: %v", err)
	}
	_, err = rick.Apply(t.Context(), []dedup.Op{{Kind: dedup.Delete, Key: keyOf("A-1"), Operator: &dedup.OperatorOp{}}})
	needs(err, "approve")
	if _, err := vera.Lookup(t.Context(), []dedup.Key{keyOf("A-1")}); err != nil {
		t.Error(err)
	}
}

func TestErrorsOfStoreAndBrokerAreFoundAgain(t *testing.T) {
	o := newOther(t)
	c := served(t, o.handler, Options{})
	for _, is := range []error{brokers.ErrTooLarge, brokers.ErrNoDestination, brokers.ErrUnauthorized, brokers.ErrUnknownOutcome} {
		o.broker.FailPublish(topic, is)
		err := c.Publish(t.Context(), []brokers.Outgoing{{Topic: topic}})[0]
		for _, other := range []error{brokers.ErrTooLarge, brokers.ErrNoDestination, brokers.ErrUnauthorized, brokers.ErrUnknownOutcome} {
			if errors.Is(err, other) != (other == is) {
				t.Errorf("%v came back as %v", is, err)
			}
		}
	}
	o.broker.FailPublish(topic, nil)
	o.store.Bound(1)
	o.end(t, "A-1", dedup.Success)
	importing := []dedup.Op{{Kind: dedup.Import, Key: keyOf("B-1"), Operator: &dedup.OperatorOp{}}}
	if answers, err := c.Apply(t.Context(), importing); err != nil || !errors.Is(answers[0].Err, dedup.ErrFull) {
		t.Errorf("%+v, %v", answers, err)
	}
	if _, err := c.Apply(t.Context(), []dedup.Op{{Kind: dedup.Unlock, Key: keyOf("A-1")}}); !errors.Is(err, dedup.ErrInvalidOp) {
		t.Errorf("%v", err)
	}
	if _, err := c.Apply(t.Context(), []dedup.Op{{Kind: dedup.Claim, Key: keyOf("A-1")}}); !errors.Is(err, dedup.ErrInvalidOp) {
		t.Errorf("%v", err)
	}
	for _, err := range c.Browse(t.Context(), "payroll", brokers.From{}) {
		if !errors.Is(err, ErrForbidden) {
			t.Errorf("%v", err)
		}
	}
	if _, err := c.Inspect(t.Context(), []string{"payroll"}); !errors.Is(err, ErrForbidden) {
		t.Errorf("%v", err)
	}
	for _, err := range c.Scan(t.Context(), "payroll") {
		if !errors.Is(err, ErrForbidden) {
			t.Errorf("%v", err)
		}
	}
	o.broker.RemoveTopic(dead)
	for _, err := range c.Browse(t.Context(), dead, brokers.From{}) {
		if !errors.Is(err, brokers.ErrNoDestination) {
			t.Errorf("%v", err)
		}
	}
	if err := o.store.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Apply(t.Context(), importing); !errors.Is(err, dedup.ErrClosed) {
		t.Errorf("%v", err)
	}
	if _, err := c.Lookup(t.Context(), []dedup.Key{keyOf("A-1")}); !errors.Is(err, dedup.ErrClosed) {
		t.Errorf("%v", err)
	}
	for _, err := range c.Scan(t.Context(), "") {
		if !errors.Is(err, dedup.ErrClosed) {
			t.Errorf("%v", err)
		}
	}
}

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
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err = c.Publish(ctx, []brokers.Outgoing{{Topic: topic}})[0]
	if !errors.Is(err, ErrUnreachable) || errors.Is(err, brokers.ErrUnknownOutcome) {
		t.Errorf("%v", err)
	}
	var of *Error
	ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
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

// A server may say anything.
func FuzzNoAnswerBreaksTheClient(f *testing.F) {
	record := `{"record":{"key":{"consumer":"billing","scope":"order.create","id":"A-1"},"state":"succeeded"}}`
	for _, body := range []string{
		"", "{}", "\n\n", record + "\n" + `{"end":true,"count":1}` + "\n", `{"lane":{"topic":"t"}}` + "\n" + `{"message":{"offset":1}}` + "\n",
		`{"letter":{"state":"open","id":"l1"}}`, `{"answer":{"kind":"done","state":"absent"}}`, `{"error":{"code":"x","message":"\u001b"}}`,
		`{"errors":[null]}`, `{"topics":[{"topic":"t","messages":-1}]}`, `{"changed":true}`, `{"alive":true}`,
	} {
		f.Add(uint16(200), body, "1")
		f.Add(uint16(403), body, "1")
		f.Add(uint16(200), body, "9")
	}
	info, err := adminapi.Encode(&adminapi.Consumer{Name: "billing"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, status uint16, body, version string) {
		if status < 200 || status > 599 || status == http.StatusBadGateway || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout {
			return // no final status; and those that are asked again, for seconds
		}
		if strings.Contains(body, string(adminapi.CodeBusy)) {
			return // as those
		}
		c, err := Connect(t.Context(), "http://127.0.0.1:8080", Options{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			answer := httptest.NewRecorder()
			if r.URL.Path == "/v1/consumer" {
				answering(200, ours, string(info)).ServeHTTP(answer, r)
			} else {
				answering(int(status), map[string]string{adminapi.VersionHeader: version, "Content-Type": "application/json"}, body).ServeHTTP(answer, r)
			}
			return answer.Result(), nil
		})})
		if err != nil {
			t.Fatal(err)
		}
		said := func(err error) {
			if err != nil && (strings.ContainsAny(err.Error(), "\x1b\n\x00\r") || len(err.Error()) > 8<<10) {
				t.Errorf("%q", err)
			}
		}
		keys := []dedup.Key{keyOf("A-1")}
		records, err := c.Lookup(t.Context(), keys)
		said(err)
		letters, err2 := c.Letters(t.Context(), []string{"l1"})
		said(err2)
		answers, err3 := c.Apply(t.Context(), []dedup.Op{{Kind: dedup.Unlock, Key: keys[0], Operator: &dedup.OperatorOp{}}})
		said(err3)
		if err == nil && len(records) != 1 || err2 == nil && len(letters) != 1 || err3 == nil && len(answers) != 1 {
			t.Errorf("%v, %v, %v", records, letters, answers)
		}
		for _, err := range c.Publish(t.Context(), []brokers.Outgoing{{Topic: topic}}) {
			said(err)
		}
		for _, err := range c.Scan(t.Context(), "") {
			said(err)
		}
		for d, err := range c.Browse(t.Context(), topic, brokers.From{}) {
			if said(err); err == nil && d.Lane == nil {
				t.Error("a message that lies nowhere")
			}
		}
		_, err = c.Inspect(t.Context(), []string{topic})
		said(err)
		_, err = c.Pauses(t.Context())
		said(err)
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
