package service

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onceward/onceward/brokers/membroker"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup/memstore"
)

func environment(tokens string) func(string) string {
	return func(name string) string {
		if name == TokensVariable {
			return tokens
		}
		return ""
	}
}

func TestTokensComeFromAFileAndTheEnvironment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	text := "# on call\nann:approve:sesame-0123456789-a\r\n\n  bob:view:sesame:0123456789-b  \n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := Consuming{AdminTokens: file}
	got, err := c.tokens(environment("kim:replay:sesame-0123456789-c,"))
	want := []consumer.AdminToken{
		{Name: "kim", Token: "sesame-0123456789-c", Role: consumer.AdminReplay},
		{Name: "ann", Token: "sesame-0123456789-a", Role: consumer.AdminApprove},
		{Name: "bob", Token: "sesame:0123456789-b", Role: consumer.AdminView},
	}
	if err != nil || len(got) != len(want) {
		t.Fatalf("%v, %v", got, err)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%d is %v with %q", i, got[i], got[i].Token)
		}
	}
	if got, err := (&Consuming{}).tokens(environment("")); err != nil || got != nil {
		t.Errorf("none: %v, %v", got, err)
	}
}

// Whoever configures tokens wants them to be asked for.
func TestFaultyTokensStopTheProgramAndAreNotQuoted(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(empty, []byte("# nobody yet\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ file, variable string }{
		{"/nowhere/at/all", ""}, {empty, ""}, {"", "sesame-0123456789-a"}, {"", "ann:sesame-0123456789-a"}, {"", "ann:root:sesame-0123456789-a"},
		{"", "ann:view:sesame"}, {"", "ann:view:sesame-0123456789-a,ann:view:sesame-0123456789-b"},
	} {
		set := Consuming{AdminTokens: c.file}
		_, err := set.administer(someConsumer(t), environment(c.variable))
		var usage *UsageError
		if !errors.As(err, &usage) || strings.Contains(err.Error(), "sesame") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func someConsumer(t *testing.T) *consumer.Consumer {
	t.Helper()
	c, err := consumer.New(consumer.Config{
		Name: "billing", Broker: membroker.New(membroker.Config{}), Topics: []string{"orders"}, StartFrom: consumer.Earliest, Store: memstore.New(),
	}, consumer.Route{
		Scope: "order.create", ID: consumer.Field("no"),
		Run: func(context.Context, *consumer.Delivery) (consumer.Result, error) { return nil, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTheOperatorsInterfaceIsBesideTheHealthEndpoints(t *testing.T) {
	h, err := Listen(t.Context(), "127.0.0.1:0", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	get := func() (int, string) {
		t.Helper()
		r, err := http.Get("http://" + h.address + "/v1/consumer")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		var of struct{ Name string }
		_ = json.NewDecoder(r.Body).Decode(&of)
		return r.StatusCode, of.Name
	}
	if status, _ := get(); status != http.StatusServiceUnavailable {
		t.Errorf("before there is a consumer: %d", status)
	}
	c := someConsumer(t)
	admin, err := (&Consuming{}).administer(c, environment(""))
	if err != nil {
		t.Fatal(err)
	}
	h.of(c, admin, &counts{})
	if status, name := get(); status != http.StatusOK || name != "billing" {
		t.Errorf("%d %q", status, name)
	}
}
