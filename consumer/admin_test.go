package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/internal/adminapi"
)

func TestAConsumerTellsHowItIsSetUp(t *testing.T) {
	a := newAdminRig(t)
	w, _ := a.ask("GET", "/v1/consumer", nil)
	var got adminapi.Consumer
	if err := adminapi.Decode(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Name != "billing" || got.AppVersion != "v7" || !got.Browses || !got.LocalGroup || !got.Store.Local || got.Store.ID == "" || !got.Status.Live {
		t.Errorf("%+v", got)
	}
	if want := []adminapi.Topic{{Name: topic, DeadLetter: "orders.billing.dlq", Retry: "orders.billing.retry"}}; !slices.Equal(got.Topics, want) {
		t.Errorf("%+v", got.Topics)
	}
	if len(got.Routes) != 1 || got.Routes[0].Scope != "order.create" || got.Routes[0].Window != adminapi.Duration(14*24*time.Hour) || got.Routes[0].MaxFailures != 10 {
		t.Errorf("%+v", got.Routes)
	}
	if got.Limits.Workers != 16 || got.Limits.Lease != adminapi.Duration(30*time.Second) || got.Limits.Drain != adminapi.Duration(25*time.Second) {
		t.Errorf("%+v", got.Limits)
	}
}

func TestWhatIsNotUnderstoodIsRefusedWithACode(t *testing.T) {
	a := newAdminRig(t)
	many := make([]adminapi.Key, adminapi.MaxKeys+1)
	for i := range many {
		many[i] = adminapi.OfKey(keyOf("A-1"))
	}
	for _, c := range []struct {
		method, path string
		body         any
		status       int
		code         adminapi.Code
		says         string
	}{
		{"GET", "/", nil, 404, adminapi.CodePath, ""},
		{"GET", "/v1", nil, 404, adminapi.CodePath, ""},
		{"GET", "/v1/", nil, 404, adminapi.CodePath, ""},
		{"GET", "/v1/secrets", nil, 404, adminapi.CodePath, "/v1/secrets"},
		{"GET", "/v1/../v1/consumer", nil, 404, adminapi.CodePath, ""},
		{"GET", "/v2/consumer", nil, 404, adminapi.CodeVersion, "version 1"},
		{"POST", "/v12/novel", "{}", 404, adminapi.CodeVersion, "not 12"},
		{"GET", "/vx/consumer", nil, 404, adminapi.CodePath, ""},
		{"PUT", "/v1/consumer", "{}", 405, adminapi.CodePath, "PUT"},
		{"GET", "/v1/apply", nil, 405, adminapi.CodePath, ""},
		{"HEAD", "/v1/consumer", nil, 405, adminapi.CodePath, ""},
		{"GET", "/v1/records?novel=1", nil, 400, adminapi.CodeField, "novel"},
		{"POST", "/v1/records?scope=1", "{}", 400, adminapi.CodeField, "scope"},
		{"GET", "/v1/records?state=done", nil, 400, adminapi.CodeRequest, "done"},
		{"GET", "/v1/letters?state=succeeded", nil, 400, adminapi.CodeRequest, "succeeded"},
		{"GET", "/v1/records?limit=0", nil, 400, adminapi.CodeRequest, "limit"},
		{"GET", "/v1/records?limit=x", nil, 400, adminapi.CodeRequest, "limit"},
		{"GET", "/v1/records?completed_after=yesterday", nil, 400, adminapi.CodeRequest, "completed_after"},
		{"GET", "/v1/browse", nil, 400, adminapi.CodeRequest, "topic"},
		{"GET", "/v1/browse?topic=orders&offset=1", nil, 400, adminapi.CodeRequest, "PARTITION:OFFSET"},
		{"GET", "/v1/browse?topic=orders&offset=1:2&offset=1:3", nil, 400, adminapi.CodeRequest, "twice"},
		{"GET", "/v1/browse?topic=orders&offset=-1:0", nil, 400, adminapi.CodeRequest, "PARTITION:OFFSET"},
		{"GET", "/v1/browse?topic=orders&since=x", nil, 400, adminapi.CodeRequest, "since"},
		{"POST", "/v1/records", "", 400, adminapi.CodeRequest, ""},
		{"POST", "/v1/records", "[]", 400, adminapi.CodeRequest, ""},
		{"POST", "/v1/records", `{"keys":[]}{}`, 400, adminapi.CodeRequest, ""},
		{"POST", "/v1/records", `{"novel":[]}`, 400, adminapi.CodeField, "older"},
		{"POST", "/v1/records", adminapi.RecordsRequest{Keys: many}, 400, adminapi.CodeRequest, "1001 keys"},
		{"POST", "/v1/letters", adminapi.LettersRequest{IDs: make([]adminapi.Text, adminapi.MaxKeys+1)}, 400, adminapi.CodeRequest, "1001 ids"},
		{"POST", "/v1/apply", adminapi.ApplyRequest{Ops: make([]adminapi.Op, 1)}, 400, adminapi.CodeInvalidOp, "operation 0"},
		{"POST", "/v1/apply", `{"ops":[{"kind":"claim","key":{"consumer":"billing"}}]}`, 400, adminapi.CodeInvalidOp, "claim"},
		{"POST", "/v1/apply", `{"ops":[{"kind":"unlock","key":{"consumer":"billing","scope":"s","id":"1"}}]}`, 400, adminapi.CodeInvalidOp, "operation 0"},
		{"POST", "/v1/publish", `{"messages":[]}`, 400, adminapi.CodeRequest, ""},
		{"POST", "/v1/pause", adminapi.PauseRequest{Scope: "novel"}, 404, adminapi.CodeRequest, "novel"},
		{"POST", "/v1/pause", adminapi.PauseRequest{Why: adminapi.Text(strings.Repeat("x", 1025))}, 400, adminapi.CodeRequest, "1025"},
		{"POST", "/v1/records", `{"keys":[` + strings.Repeat(" ", adminapi.MaxBody) + `]}`, 413, adminapi.CodeBodySize, "16 MiB"},
	} {
		w, f := a.ask(c.method, c.path, c.body)
		if w.Code != c.status || f.Code != c.code || !strings.Contains(string(f.Message), c.says) {
			t.Errorf("%s %s: %d %+v, want %d %s that says %q", c.method, c.path, w.Code, f, c.status, c.code, c.says)
		}
	}
	for name := range a.store.Scan(t.Context(), "billing") {
		t.Errorf("something was done: %+v", name)
	}
}

func TestAScanGivesWhatIsAskedForAndSaysThatItIsAll(t *testing.T) {
	a := newAdminRig(t)
	for i := range 20 {
		a.ended(fmt.Sprintf("A-%d", i), dedup.Success)
	}
	a.ended("B-1", dedup.Terminal)
	a.noted("l1", "B-1", 1)
	a.ended("B-2", dedup.Terminal)
	a.noted("l2", "B-2", 3) // held
	soon := time.Now().Add(time.Hour).UTC().Format(time.RFC3339Nano)
	for path, want := range map[string]int{
		"/v1/records":                                               22,
		"/v1/records?state=failed":                                  2,
		"/v1/records?state=failed&state=succeeded":                  22,
		"/v1/records?state=in_doubt":                                0,
		"/v1/records?scope=order.create":                            22,
		"/v1/records?scope=order":                                   0,
		"/v1/records?limit=5":                                       5,
		"/v1/records?limit=5&state=failed":                          2,
		"/v1/records?completed_after=" + soon:                       0,
		"/v1/records?completed_before=" + soon:                      22,
		"/v1/letters":                                               2,
		"/v1/letters?state=held":                                    1,
		"/v1/letters?state=open&state=held":                         2,
		"/v1/letters?state=gone":                                    0,
		"/v1/letters?limit=1":                                       1,
		"/v1/browse?topic=orders.billing.dlq":                       0,
		"/v1/records?completed_after=2000-01-01T00:00:00Z&limit=21": 21,
	} {
		w, _ := a.ask("GET", path, nil)
		if got := len(a.lines(w)); got != want {
			t.Errorf("%s gives %d lines, want %d", path, got, want)
		}
	}
	w, _ := a.ask("GET", "/v1/stats", nil)
	var stats adminapi.Stats
	if err := adminapi.Decode(w.Body.Bytes(), &stats); err != nil || stats.Open != 1 || stats.Held != 1 || len(stats.Reasons) != 1 || stats.Reasons[0] != (adminapi.Reason{Name: "terminal", Count: 2}) {
		t.Errorf("%s", w.Body)
	}
	w, _ = a.ask("POST", "/v1/records", adminapi.RecordsRequest{Keys: []adminapi.Key{adminapi.OfKey(keyOf("B-1")), adminapi.OfKey(keyOf("C-1"))}})
	if got := a.lines(w); len(got) != 2 || got[0].Record.State != adminapi.State(dedup.Failed) || got[1].Record.State != adminapi.State(dedup.Absent) || got[1].Record.Key.ID != "C-1" {
		t.Errorf("%s", w.Body)
	}
	w, _ = a.ask("POST", "/v1/letters", adminapi.LettersRequest{IDs: []adminapi.Text{"l2", "l9"}})
	if got := a.lines(w); len(got) != 2 || got[0].Letter.State != adminapi.LetterState(dedup.LetterHeld) || got[1].Letter.State != adminapi.LetterState(dedup.LetterNone) {
		t.Errorf("%s", w.Body)
	}
}

// In a store that consumers share, the letters of the others are not its own.
func TestTheLettersOfAnotherConsumerAreNotShown(t *testing.T) {
	a := newAdminRig(t)
	a.do(dedup.Op{Kind: dedup.NoteLetter, Key: dedup.Key{Consumer: "payroll"}, Letter: &dedup.LetterOp{Letter: dedup.Letter{ID: "l1", Reason: "decode"}}})
	w, _ := a.ask("POST", "/v1/letters", adminapi.LettersRequest{IDs: []adminapi.Text{"l1"}})
	if got := a.lines(w); len(got) != 1 || got[0].Letter.State != 0 || got[0].Letter.Reason != "" {
		t.Errorf("%s", w.Body)
	}
	w, _ = a.ask("GET", "/v1/letters", nil)
	if got := a.lines(w); len(got) != 0 {
		t.Errorf("%s", w.Body)
	}
}

func TestMessagesAreShownWithTheirPlace(t *testing.T) {
	a := newAdminRig(t)
	one, two := int32(0), int32(1)
	a.broker.Produce(topic,
		brokers.Outgoing{Partition: &one, Key: []byte{0xff}, Value: nil}, brokers.Outgoing{Partition: &one, Value: []byte{}},
		brokers.Outgoing{Partition: &two, Value: []byte("{}"), Headers: []brokers.Header{{Key: "h", Value: nil}}})
	w, _ := a.ask("GET", "/v1/browse?topic=orders", nil)
	var text []string
	for _, line := range a.lines(w) {
		if line.Lane != nil {
			text = append(text, fmt.Sprintf("lane %d of %d", line.Lane.Partition, line.Lane.Backlog))
		} else {
			text = append(text, fmt.Sprintf("%d %v %v", line.Message.Offset, line.Message.Key, line.Message.Value == nil))
		}
	}
	if got, want := strings.Join(text, ", "), "lane 0 of 2, 0 [255] true, 1 [] false, lane 1 of 1, 0 [] false"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	w, _ = a.ask("GET", "/v1/browse?topic=orders&offset=0:1", nil)
	if got := a.lines(w); len(got) != 2 || got[1].Message.Offset != 1 {
		t.Errorf("%s", w.Body)
	}
}

// A stream that ends otherwise than complete says so, or is seen to be cut.
func TestAStreamThatFailsDoesNotLookComplete(t *testing.T) {
	a := newAdminRig(t)
	r := a.ended("A-1", dedup.Success)
	broken := fmt.Errorf("the disk is gone")
	a.store.scan = func(context.Context) iter.Seq2[dedup.Record, error] {
		return func(yield func(dedup.Record, error) bool) {
			_ = yield(r, nil) && yield(dedup.Record{}, broken)
		}
	}
	w, _ := a.ask("GET", "/v1/records", nil)
	if got := a.raw(w); len(got) != 2 || got[1].Error == nil || !strings.Contains(string(got[1].Error.Message), "disk") {
		t.Errorf("%s", w.Body)
	}
	a.store.scan = func(context.Context) iter.Seq2[dedup.Record, error] {
		return func(yield func(dedup.Record, error) bool) {
			_ = yield(r, nil)
			panic("page 7")
		}
	}
	func() {
		defer func() {
			if v := recover(); v != http.ErrAbortHandler {
				t.Errorf("%v", v)
			}
		}()
		w = httptest.NewRecorder()
		a.handler.ServeHTTP(w, a.request("GET", "/v1/records", nil))
	}()
	if strings.Contains(w.Body.String(), `"end"`) || !strings.Contains(a.log.String(), "page 7") {
		t.Errorf("%s; log: %s", w.Body, a.log)
	}
	w, _ = a.ask("GET", "/v1/browse?topic=orders.billing.dlq", nil)
	a.lines(w)
	a.broker.RemoveTopic("orders.billing.dlq")
	w, _ = a.ask("GET", "/v1/browse?topic=orders.billing.dlq", nil)
	if got := a.raw(w); len(got) != 1 || got[0].Error == nil || got[0].Error.Code != adminapi.CodeNoDestination {
		t.Errorf("%s", w.Body)
	}
}

// A scan may find nothing for a long time, and must not go on for ever.
func TestASilentStreamSaysThatItGoesOnUntilItsHourIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdminRig(t)
		a.store.scan = func(ctx context.Context) iter.Seq2[dedup.Record, error] {
			return func(yield func(dedup.Record, error) bool) {
				<-ctx.Done()
				yield(dedup.Record{}, ctx.Err())
			}
		}
		began := time.Now()
		w, _ := a.ask("GET", "/v1/records", nil)
		took := time.Since(began)
		got := a.raw(w)
		if last := got[len(got)-1]; took != time.Hour || last.Error == nil || !strings.Contains(string(last.Error.Message), "hour") {
			t.Errorf("after %v: %+v", took, last)
		}
		if n := len(got) - 1; n < 300 || !got[0].Alive {
			t.Errorf("it was said %d times that it goes on", n)
		}
	})
}

func TestStreamsAtOnceAreBoundedAndOthersAreStillServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdminRig(t)
		over := make(chan struct{})
		a.store.scan = func(context.Context) iter.Seq2[dedup.Record, error] {
			return func(func(dedup.Record, error) bool) { <-over }
		}
		for range 8 {
			go a.handler.ServeHTTP(httptest.NewRecorder(), a.request("GET", "/v1/records", nil))
		}
		synctest.Wait()
		if w, f := a.ask("GET", "/v1/records", nil); w.Code != http.StatusServiceUnavailable || f.Code != adminapi.CodeBusy || w.Header().Get("Retry-After") == "" {
			t.Errorf("the ninth: %d %+v", w.Code, f)
		}
		for _, path := range []string{"/v1/consumer", "/v1/pause"} {
			if w, _ := a.ask("GET", path, nil); w.Code != http.StatusOK {
				t.Errorf("%s meanwhile: %d", path, w.Code)
			}
		}
		go func() {
			time.Sleep(5 * time.Second)
			close(over)
		}()
		if w, _ := a.ask("GET", "/v1/records", nil); w.Code != http.StatusOK {
			t.Errorf("the ninth, when the first end: %d", w.Code)
		}
	})
}

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
