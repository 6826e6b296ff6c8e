package via

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
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
		"http://user:s3cret@host", "http://user:s3cret@host:x", "https://s3cret@host/%zz", "http://host/?token=s3cret", "user:s3cret@host:80",
	} {
		if _, err := readAddress(address); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v", address, err)
		}
	}
}

func TestATokenOrNameThatNoHeaderHoldsIsNoOutage(t *testing.T) {
	o := newOther(t)
	for _, token := range []string{"token-of-vera\n0123456789", "token of vera", "t\u00f6ken-of-vera"} {
		if _, err := Connect(t.Context(), "http://127.0.0.1:8080", Options{Token: token, Transport: wire{o.handler}}); err == nil || strings.Contains(err.Error(), "vera") {
			t.Errorf("%v", err)
		}
	}
	for who, want := range map[string]string{"": "local", "ann\r\nevil: 1": "local:ann  evil: 1", strings.Repeat("x", 1000): "local:" + strings.Repeat("x", 128)} {
		c := served(t, o.handler, Options{Who: who})
		if now, err := c.Consumer(t.Context()); err != nil || string(now.You.Who) != want {
			t.Errorf("%q: %q, %v", who, now.You.Who, err)
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
