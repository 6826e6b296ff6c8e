package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"testing"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/internal/adminapi"
)

// slowBody brings nothing.
type slowBody struct{}

func (slowBody) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestABodyThatBreaksOffChangesNothing(t *testing.T) {
	a := newAdminRig(t)
	q := a.request("POST", "/v1/pause", "{}")
	q.Body = io.NopCloser(io.MultiReader(strings.NewReader(`{"why":`), slowBody{}))
	w := a.serve(q)
	if f := a.fault(w); w.Code != http.StatusBadRequest || f.Code != adminapi.CodeRequest {
		t.Errorf("%d %+v", w.Code, f)
	}
	if pauses, err := dedup.Pauses(t.Context(), a.store, "billing", nil); err != nil || len(pauses) != 0 {
		t.Errorf("%v, %v", pauses, err)
	}
}

// Before a local store has been compared with what the broker remembers, it may
// be a restored copy, which every write would make look newer.
func TestNothingIsChangedBeforeTheStoreIsAccepted(t *testing.T) {
	a := newAdminRig(t)
	a.handler = a.consumer(func(c *consumer.Config) { c.AllowLocalInGroup = false })
	for path, body := range map[string]any{
		"/v1/pause":   adminapi.PauseRequest{},
		"/v1/publish": outgoing(topic),
		"/v1/apply":   applying(t, dedup.Op{Kind: dedup.Import, Key: keyOf("A-1"), Operator: &dedup.OperatorOp{}}),
	} {
		if w, f := a.ask("POST", path, body); w.Code != http.StatusServiceUnavailable || f.Code != adminapi.CodeNotReady {
			t.Errorf("%s: %d %+v", path, w.Code, f)
		}
	}
	for _, path := range []string{"/v1/consumer", "/v1/records", "/v1/letters", "/v1/pause", "/v1/browse?topic=orders"} {
		if w, f := a.ask("GET", path, nil); w.Code != http.StatusOK {
			t.Errorf("%s: %d %+v", path, w.Code, f)
		}
	}
	if a.store.Info().Sequence != 0 || len(a.broker.Messages(topic)) != 0 {
		t.Error("something was done")
	}
}

func TestEachChangeIsLoggedAndWrittenDownWithWho(t *testing.T) {
	a := newAdminRig(t, tokens...)
	a.token = tokens[2].Token
	a.ended("A-1", dedup.Terminal)
	a.noted("l1", "A-1", 1)
	claims := dedup.Letter{ID: "l1", Job: "j", Who: "somebody else", Why: "mended"}
	w, _ := a.ask("POST", "/v1/apply", applying(t,
		dedup.Op{Kind: dedup.MoveLetter, Key: keyOf("A-1"), Letter: &dedup.LetterOp{Letter: claims, From: dedup.LetterOpen, To: dedup.LetterOpen}},
		dedup.Op{Kind: dedup.Import, Key: keyOf("B-1"), Operator: &dedup.OperatorOp{Who: "somebody else", Why: "cut over"}},
	))
	a.lines(w)
	if l := a.letter("l1"); l.Who != "ada" || l.Why != "mended" || l.Job != "j" {
		t.Errorf("%+v", l)
	}
	if r := a.record("B-1"); r.Approver != "ada" || r.Why != "cut over" {
		t.Errorf("%+v", r)
	}
	a.ask("POST", "/v1/pause", adminapi.PauseRequest{Why: "release"})
	a.ask("POST", "/v1/publish", outgoing(topic))
	for _, want := range []string{"move_letter open to open", "l1", "billing/order.create/A-1: done", "import of billing/order.create/B-1: done", "admin paused", "release", "admin published", "messages=1"} {
		if !strings.Contains(a.log.String(), want) {
			t.Errorf("the log does not say %q: %s", want, a.log)
		}
	}
	if strings.Contains(a.log.String(), "error=<nil>") {
		t.Errorf("the log has an error that is none: %s", a.log)
	}
	if n := strings.Count(a.log.String(), "who=ada"); n != 3 {
		t.Errorf("%d lines say who: %s", n, a.log)
	}
}

func TestAPauseIsSetShownAndLifted(t *testing.T) {
	a := newAdminRig(t)
	a.who = "ann"
	pauses := func() string {
		w, _ := a.ask("GET", "/v1/pause", nil)
		var got adminapi.PausesResponse
		if err := adminapi.Decode(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		for _, p := range got.Pauses {
			fmt.Fprintf(&text, "[%s %s %s]", p.Scope, p.Who, p.Why)
		}
		return text.String()
	}
	set := func(method string, q adminapi.PauseRequest, want bool) {
		t.Helper()
		w, _ := a.ask(method, "/v1/pause", q)
		var got adminapi.PauseResponse
		if err := adminapi.Decode(w.Body.Bytes(), &got); err != nil || got.Changed != want {
			t.Errorf("%s %+v: %+v, %v", method, q, got, err)
		}
	}
	set("POST", adminapi.PauseRequest{Scope: "order.create", Why: "release"}, true)
	set("POST", adminapi.PauseRequest{Scope: "order.create"}, false)
	set("POST", adminapi.PauseRequest{}, true)
	if got := pauses(); got != "[ local:ann ][order.create local:ann release]" {
		t.Error(got)
	}
	set("DELETE", adminapi.PauseRequest{}, true)
	set("DELETE", adminapi.PauseRequest{}, false)
	set("DELETE", adminapi.PauseRequest{Scope: "order.create"}, true)
	if got := pauses(); got != "" {
		t.Error(got)
	}
}

func TestEachMessageIsAnsweredOnItsOwn(t *testing.T) {
	a := newAdminRig(t)
	a.broker.FailPublish("orders.billing.retry", brokers.ErrUnauthorized)
	large := brokers.Outgoing{Topic: topic, Value: make([]byte, 2<<20)}
	q := outgoing(topic)
	q.Messages = append(q.Messages, outgoing("orders.billing.retry").Messages[0], adminapi.OfOutgoing(&large))
	w, _ := a.ask("POST", "/v1/publish", q)
	var got adminapi.PublishResponse
	if err := adminapi.Decode(w.Body.Bytes(), &got); err != nil || len(got.Errors) != 3 {
		t.Fatalf("%s, %v", w.Body, err)
	}
	if got.Errors[0] != nil || !errors.Is(got.Errors[1].Err(), brokers.ErrUnauthorized) || !errors.Is(got.Errors[2].Err(), brokers.ErrTooLarge) {
		t.Errorf("%s", w.Body)
	}
	if n := len(a.broker.Messages(topic)); n != 1 {
		t.Errorf("%d are stored", n)
	}
}

// unbrowsable is a broker that is no brokers.Browser.
type unbrowsable struct{ brokers.Broker }

func TestABrokerThatCannotBeBrowsedSaysSo(t *testing.T) {
	a := newAdminRig(t)
	a.handler = a.consumer(func(c *consumer.Config) { c.Broker = unbrowsable{a.broker} })
	if w, f := a.ask("GET", "/v1/browse?topic=orders", nil); w.Code != http.StatusNotImplemented || f.Code != adminapi.CodeUnsupported {
		t.Errorf("%d %+v", w.Code, f)
	}
	if w, f := a.ask("POST", "/v1/inspect", adminapi.InspectRequest{Topics: []adminapi.Text{topic}}); w.Code != http.StatusNotImplemented || f.Code != adminapi.CodeUnsupported {
		t.Errorf("%d %+v", w.Code, f)
	}
	if w, f := a.ask("POST", "/v1/publish", outgoing("payroll")); w.Code != http.StatusForbidden || f.Code != adminapi.CodeForbidden {
		t.Errorf("%d %+v", w.Code, f)
	}
	if w, _ := a.ask("POST", "/v1/publish", outgoing(topic)); w.Code != http.StatusOK {
		t.Errorf("%d", w.Code)
	}
}

// streamed is a broker whose topics are streams: a subject is of one of them.
type streamed struct{ brokers.Broker }

func (s streamed) Browse(context.Context, string, brokers.From) iter.Seq2[*brokers.Delivery, error] {
	return func(func(*brokers.Delivery, error) bool) {}
}

func (s streamed) Inspect(_ context.Context, topics []string) ([]brokers.TopicInfo, error) {
	infos := make([]brokers.TopicInfo, len(topics))
	for i, name := range topics {
		stream, _, _ := strings.Cut(name, "/")
		infos[i] = brokers.TopicInfo{Topic: name, Identity: stream + "#1", Missing: stream == "gone"}
		if infos[i].Missing {
			infos[i].Identity = ""
		}
	}
	return infos, nil
}

func TestASubjectIsTheConsumersOwnWhereItsStreamIs(t *testing.T) {
	a := newAdminRig(t)
	a.handler = a.consumer(func(c *consumer.Config) { c.Broker = streamed{a.broker} })
	for topic, own := range map[string]bool{"orders/created": true, "payroll/created": false, "gone": false, "orders": true} {
		for range 2 { // the second time from memory
			w, f := a.ask("GET", "/v1/browse?topic="+topic, nil)
			if (w.Code == http.StatusOK) != own || !own && f.Code != adminapi.CodeForbidden {
				t.Errorf("browse %s: %d %+v", topic, w.Code, f)
			}
			w, f = a.ask("POST", "/v1/publish", outgoing(topic))
			if (w.Code == http.StatusOK) != own || !own && f.Code != adminapi.CodeForbidden {
				t.Errorf("publish %s: %d %+v", topic, w.Code, f)
			}
		}
	}
}
