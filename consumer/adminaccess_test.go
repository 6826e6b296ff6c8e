package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/internal/adminapi"
)

func TestWithoutTokensOnlyThisMachineIsServed(t *testing.T) {
	a := newAdminRig(t)
	for _, c := range []struct {
		from, host, header, value string
		served                    bool
	}{
		{from: "127.0.0.1:40000", host: "127.0.0.1:8080", served: true},
		{from: "127.0.0.1:40000", host: "localhost:8080", served: true},
		{from: "127.0.0.1:40000", host: "LOCALHOST", served: true},
		{from: "127.9.9.9:40000", host: "127.0.0.1", served: true},
		{from: "[::1]:40000", host: "[::1]:8080", served: true},
		{from: "[::1]:40000", host: "[::1]", served: true},
		{from: "[::ffff:127.0.0.1]:40000", host: "localhost:1", served: true},
		{from: "10.0.0.7:40000", host: "127.0.0.1:8080"},
		{from: "[2001:db8::1]:40000", host: "localhost"},
		{from: "@", host: "localhost"},
		{from: "", host: "localhost"},
		// A browser on this machine, with a page whose name has been resolved to it.
		{from: "127.0.0.1:40000", host: "evil.example:8080"},
		{from: "127.0.0.1:40000", host: "localhost.evil.example"},
		{from: "127.0.0.1:40000", host: "127.0.0.1.evil.example"},
		{from: "127.0.0.1:40000", host: "10.0.0.1:8080"},
		{from: "127.0.0.1:40000", host: ""},
		// A proxy or sidecar on this machine, for somebody else.
		{from: "127.0.0.1:40000", host: "localhost", header: "X-Forwarded-For", value: "10.0.0.7"},
		{from: "127.0.0.1:40000", host: "localhost", header: "X-Forwarded-Proto", value: "http"},
		{from: "127.0.0.1:40000", host: "localhost", header: "Forwarded", value: "for=10.0.0.7"},
		{from: "127.0.0.1:40000", host: "localhost", header: "Via", value: "1.1 proxy"},
		{from: "127.0.0.1:40000", host: "localhost", header: "X-Real-IP", value: "10.0.0.7"},
		{from: "127.0.0.1:40000", host: "localhost", header: "X-Envoy-Attempt-Count", value: "1"},
		{from: "127.0.0.1:40000", host: "localhost", header: "X-Request-Id", value: "1", served: true},
	} {
		q := a.request("GET", "/v1/consumer", nil)
		q.RemoteAddr, q.Host = c.from, c.host
		if c.header != "" {
			q.Header.Set(c.header, c.value)
		}
		w := a.serve(q)
		if f := a.fault(w); (w.Code == http.StatusOK) != c.served || !c.served && f.Code != adminapi.CodeForbidden {
			t.Errorf("%+v: %d %+v", c, w.Code, f)
		}
	}
}

func TestAPageOfAnotherOriginIsRefused(t *testing.T) {
	for _, known := range [][]consumer.AdminToken{nil, tokens} {
		a := newAdminRig(t, known...)
		a.token = tokens[2].Token
		for _, c := range []struct {
			header, value string
			served        bool
		}{
			{"Sec-Fetch-Site", "none", true},
			{"Sec-Fetch-Site", "same-origin", true},
			{"Sec-Fetch-Site", "same-site", false},
			{"Sec-Fetch-Site", "cross-site", false},
			{"Origin", "http://127.0.0.1:8080", true},
			{"Origin", "http://127.0.0.1:9090", false},
			{"Origin", "https://evil.example", false},
			{"Origin", "null", false},
		} {
			for _, method := range []string{"GET", "POST"} {
				q := a.request(method, "/v1/records", nil)
				if method == "POST" {
					q = a.request(method, "/v1/records", adminapi.RecordsRequest{})
				}
				q.Header.Set(c.header, c.value)
				if w := a.serve(q); (w.Code == http.StatusOK) != c.served || !c.served && w.Code != http.StatusForbidden {
					t.Errorf("%s with %s: %s: %d", method, c.header, c.value, w.Code)
				}
			}
		}
	}
}

func TestABodyOfAFormIsNotRead(t *testing.T) {
	a := newAdminRig(t)
	for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonp"} {
		q := a.request("POST", "/v1/pause", `{}`)
		q.Header.Set("Content-Type", kind)
		if w := a.serve(q); w.Code != http.StatusUnsupportedMediaType {
			t.Errorf("%q: %d", kind, w.Code)
		}
	}
}

func TestATokenIsAskedOfEverybody(t *testing.T) {
	a := newAdminRig(t, tokens...)
	long := "Bearer " + strings.Repeat("x", 10_000)
	for _, presented := range [][]string{
		nil, {""}, {"Bearer"}, {"Bearer "}, {"Bearer token-of-nobody-0123456789"}, {"Basic " + tokens[0].Token}, {tokens[0].Token},
		{"Bearer " + tokens[0].Token[:23]}, {"Bearer " + tokens[0].Token + " "}, {long}, {"Bearer " + tokens[0].Token, "Bearer " + tokens[0].Token},
	} {
		q := a.request("GET", "/v1/consumer", nil)
		for _, p := range presented {
			q.Header.Add("Authorization", p)
		}
		w := a.serve(q)
		if f := a.fault(w); w.Code != http.StatusUnauthorized || f.Code != adminapi.CodeToken || w.Header().Get("WWW-Authenticate") == "" {
			t.Errorf("%.40q: %d %+v", presented, w.Code, f)
		}
	}
	for _, known := range tokens {
		a.token, a.who = known.Token, "somebody else"
		q := a.request("GET", "/v1/consumer", nil)
		q.RemoteAddr, q.Host = "10.0.0.7:40000", "billing.internal" // from anywhere
		w := a.serve(q)
		var got adminapi.Consumer
		if err := adminapi.Decode(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if want := (adminapi.Caller{Who: adminapi.Text(known.Name), Role: adminapi.Text(known.Role.String())}); got.You != want {
			t.Errorf("%s is taken for %+v", known.Name, got.You)
		}
	}
}

func TestWhoComesFromThisMachineIsNamedAsHeSays(t *testing.T) {
	a := newAdminRig(t)
	for says, want := range map[string]string{
		"":                              "local",
		"ann":                           "local:ann",
		"Jürgen":                        "local:Jürgen",
		"a\x1b[31m\u202e\x00\xff\tb":    "local:a[31mb",
		strings.Repeat("é", 1000):       "local:" + strings.Repeat("é", 64),
		strings.Repeat("\x01", 100_000): "local",
	} {
		a.who = says
		w, _ := a.ask("GET", "/v1/consumer", nil)
		var got adminapi.Consumer
		if err := adminapi.Decode(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if got.You.Who != adminapi.Text(want) || got.You.Role != "approve" {
			t.Errorf("%.20q is %+v, want %q", says, got.You, want)
		}
	}
}

func TestFaultyTokensAreReportedAllAtOnceAndNeverQuoted(t *testing.T) {
	a := newAdminRig(t)
	const secret = "sesame-sesame-sesame"
	c, err := consumer.New(consumer.Config{
		Name: "billing", Broker: a.broker, Topics: []string{topic}, StartFrom: consumer.Earliest, Store: a.store,
	}, consumer.JSON("order.create", order.ID, func(context.Context, order) error { return nil }))
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Admin(consumer.AdminConfig{Tokens: []consumer.AdminToken{
		{Name: "ann", Token: secret, Role: consumer.AdminView},
		{Name: "ann", Token: "sesame-0123456789-a", Role: consumer.AdminView}, // name
		{Name: "bob", Token: secret, Role: consumer.AdminView},                // token
		{Name: "", Token: "sesame-0123456789-b", Role: consumer.AdminView},
		{Name: "local", Token: "sesame-0123456789-c", Role: consumer.AdminView},
		{Name: "a b", Token: "sesame-0123456789-d", Role: consumer.AdminView},
		{Name: "eve", Token: "sesame-short", Role: consumer.AdminView},
		{Name: "kim", Token: "sesame with spaces in it", Role: consumer.AdminView},
		{Name: "joe", Token: "sesame-0123456789-e"},
		{Name: "max", Token: "sesame-0123456789-f", Role: consumer.AdminApprove + 1},
		{Name: "lea", Token: strings.Repeat("sesame", 100), Role: consumer.AdminView},
	}})
	var of *consumer.ConfigError
	if !errors.As(err, &of) {
		t.Fatalf("%v", err)
	}
	var fields []string
	for _, f := range of.Faults {
		fields = append(fields, f.Field)
	}
	want := "[1].Name [2].Token [3].Name [4].Name [5].Name [6].Token [7].Token [8].Role [9].Role [10].Token"
	if got := strings.ReplaceAll(strings.Join(fields, " "), "AdminConfig.Tokens", ""); got != want {
		t.Errorf("faults of\n%s, want\n%s", got, want)
	}
	if strings.Contains(err.Error(), "sesame") {
		t.Errorf("a token is quoted: %v", err)
	}
	if _, err := c.Admin(consumer.AdminConfig{Tokens: make([]consumer.AdminToken, 1001)}); err == nil {
		t.Error("1,001 tokens are taken")
	}
}

func TestATokenIsInNoLogAndNoPrint(t *testing.T) {
	a := newAdminRig(t, tokens...)
	cfg := consumer.AdminConfig{Tokens: tokens}
	printed := fmt.Sprintf("%v %+v %#v %s %v", cfg, cfg, cfg, tokens[0], &tokens[0])
	for _, token := range []string{tokens[0].Token, tokens[1].Token, "token-of-nobody-0123456789"} {
		a.token = token
		a.ask("GET", "/v1/consumer", nil)
		a.ask("POST", "/v1/pause", adminapi.PauseRequest{})
		a.ask("POST", "/v1/apply", `{"novel":1}`)
	}
	if !strings.Contains(a.log.String(), "turned away") || !strings.Contains(a.log.String(), "who=rick") {
		t.Errorf("the log does not tell: %s", a.log)
	}
	if strings.Contains(a.log.String(), "lines_left_out_before=0") {
		t.Errorf("nothing is told to be left out: %s", a.log)
	}
	for _, text := range []string{printed, a.log.String()} {
		if strings.Contains(text, "token-of") {
			t.Errorf("a token is told: %s", text)
		}
	}
}

func TestRolesAreReadByTheirNames(t *testing.T) {
	for _, role := range []consumer.AdminRole{consumer.AdminView, consumer.AdminReplay, consumer.AdminApprove} {
		if got, err := consumer.ParseAdminRole(role.String()); err != nil || got != role {
			t.Errorf("%v: %v, %v", role, got, err)
		}
	}
	for _, name := range []string{"", "none", "admin", "View"} {
		if _, err := consumer.ParseAdminRole(name); err == nil {
			t.Errorf("%q is a role", name)
		}
	}
}
