package consumer_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/brokers"
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
	a.do(dedup.Op{Kind: dedup.NoteLetter, Key: dedup.LetterKey("payroll", "l1"), Letter: &dedup.LetterOp{Letter: dedup.Letter{ID: "l1", Reason: "decode"}}})
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

// Whoever may replay could otherwise lose a letter that is not written yet.
func TestANoteThroughTheInterfaceLeavesAnOwedLetterOwed(t *testing.T) {
	a := newAdminRig(t)
	r := a.ended("A-1", dedup.Terminal)
	w, f := a.ask("POST", "/v1/apply", applying(t, dedup.Op{Kind: dedup.NoteLetter, Key: keyOf("A-1"), Letter: &dedup.LetterOp{
		Letter: dedup.Letter{ID: "l1", Reason: "terminal", Run: r.Run, Opened: r.Opened}, Settles: true,
	}}))
	if w.Code != http.StatusOK {
		t.Fatalf("%+v", f)
	}
	if now := a.record("A-1"); !now.Owed {
		t.Errorf("record %+v", now)
	}
}
