package consumer_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/membroker"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/memstore"
	"github.com/onceward/onceward/internal/adminapi"
)

// scannedStore is a store whose scans a test may replace.
type scannedStore struct {
	dedup.Store
	scan func(ctx context.Context) iter.Seq2[dedup.Record, error]
}

func (s *scannedStore) Scan(ctx context.Context, consumer string) iter.Seq2[dedup.Record, error] {
	if s.scan != nil {
		return s.scan(ctx)
	}
	return s.Store.Scan(ctx, consumer)
}

// adminRig is a consumer that does not run, and its interface.
type adminRig struct {
	t       *testing.T
	broker  *membroker.Broker
	store   *scannedStore
	log     *bytes.Buffer
	handler http.Handler
	// What a request bears unless a test says otherwise.
	token, who string
}

// tokens of every role.
var tokens = []consumer.AdminToken{
	{Name: "vera", Token: "token-of-vera-0123456789", Role: consumer.AdminView},
	{Name: "rick", Token: "token-of-rick-0123456789", Role: consumer.AdminReplay},
	{Name: "ada", Token: "token-of-ada--0123456789", Role: consumer.AdminApprove},
}

func newAdminRig(t *testing.T, tokens ...consumer.AdminToken) *adminRig {
	t.Helper()
	a := &adminRig{t: t, log: &bytes.Buffer{}, store: &scannedStore{Store: memstore.New()}}
	a.broker = membroker.New(membroker.Config{Topics: map[string]int{topic: 2, topic + ".billing.retry": 2, topic + ".billing.dlq": 1, "payroll": 1}})
	a.handler = a.consumer(func(*consumer.Config) {}, tokens...)
	return a
}

func (a *adminRig) consumer(change func(*consumer.Config), tokens ...consumer.AdminToken) http.Handler {
	a.t.Helper()
	cfg := consumer.Config{
		Name: "billing", Broker: a.broker, Topics: []string{topic}, StartFrom: consumer.Earliest, Store: a.store,
		Logger: slog.New(slog.NewTextHandler(a.log, nil)), AllowLocalInGroup: true, AppVersion: "v7",
	}
	change(&cfg)
	c, err := consumer.New(cfg, consumer.JSON("order.create", order.ID, func(context.Context, order) error { return nil }))
	if err != nil {
		a.t.Fatal(err)
	}
	handler, err := c.Admin(consumer.AdminConfig{Tokens: tokens})
	if err != nil {
		a.t.Fatal(err)
	}
	return handler
}

// request is one from this machine.
func (a *adminRig) request(method, path string, body any) *http.Request {
	a.t.Helper()
	var r io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		r = strings.NewReader(b)
	default:
		text, err := adminapi.Encode(b)
		if err != nil {
			a.t.Fatal(err)
		}
		r = bytes.NewReader(text)
	}
	q := httptest.NewRequest(method, path, r)
	q.RemoteAddr, q.Host = "127.0.0.1:40000", "127.0.0.1:8080"
	if body != nil {
		q.Header.Set("Content-Type", "application/json")
	}
	if a.token != "" {
		q.Header.Set("Authorization", "Bearer "+a.token)
	}
	if a.who != "" {
		q.Header.Set(adminapi.WhoHeader, a.who)
	}
	return q
}

func (a *adminRig) serve(q *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	a.handler.ServeHTTP(w, q)
	if got := w.Header().Get(adminapi.VersionHeader); got != fmt.Sprint(adminapi.Version) {
		a.t.Errorf("%s %s: version %q", q.Method, q.URL, got)
	}
	return w
}

// ask is the status and, where that is not OK, what went wrong.
func (a *adminRig) ask(method, path string, body any) (*httptest.ResponseRecorder, adminapi.Fault) {
	a.t.Helper()
	w := a.serve(a.request(method, path, body))
	return w, a.fault(w)
}

func (a *adminRig) fault(w *httptest.ResponseRecorder) adminapi.Fault {
	a.t.Helper()
	var f adminapi.Failure
	if w.Code == http.StatusOK {
		return adminapi.Fault{}
	}
	if err := adminapi.Decode(w.Body.Bytes(), &f); err != nil || f.Error.Code == "" || f.Error.Message == "" || w.Header().Get("Content-Type") != "application/json" {
		a.t.Errorf("%d is no error in JSON: %q", w.Code, w.Body)
	}
	return f.Error
}

// lines are those of a stream, without the last, which must say that it is
// complete.
func (a *adminRig) lines(w *httptest.ResponseRecorder) []adminapi.Line {
	a.t.Helper()
	all := a.raw(w)
	last := all[len(all)-1]
	if !last.End || last.Count == nil {
		a.t.Fatalf("the stream is not complete: %s", w.Body)
	}
	return all[:len(all)-1]
}

func (a *adminRig) raw(w *httptest.ResponseRecorder) []adminapi.Line {
	a.t.Helper()
	if w.Code != http.StatusOK {
		a.t.Fatalf("%d: %s", w.Code, w.Body)
	}
	var all []adminapi.Line
	for text := range strings.Lines(w.Body.String()) {
		var line adminapi.Line
		if err := adminapi.Decode([]byte(text), &line); err != nil {
			a.t.Fatalf("%q: %v", text, err)
		}
		all = append(all, line)
	}
	return all
}

// do changes the store beside the interface.
func (a *adminRig) do(ops ...dedup.Op) []dedup.Answer {
	a.t.Helper()
	answers, err := a.store.Apply(a.t.Context(), ops)
	if err != nil {
		a.t.Fatal(err)
	}
	for i := range answers {
		if answers[i].Err != nil {
			a.t.Fatalf("%v: %v", ops[i].Kind, answers[i].Err)
		}
	}
	return answers
}

func keyOf(id string) dedup.Key {
	return dedup.Key{Consumer: "billing", Scope: "order.create", ID: id}
}

var keptFor = &dedup.Policy{Failures: 10, Lone: 3, Window: 1 << 50}

// ended makes a record that has ended so.
func (a *adminRig) ended(id string, outcome dedup.Outcome) dedup.Record {
	a.t.Helper()
	claim := dedup.Op{Kind: dedup.Claim, Key: keyOf(id), Token: dedup.Token{1}, Policy: keptFor, Lease: 1 << 35, Fingerprint: dedup.Fingerprint{Sum: [32]byte{7}}}
	fence := a.do(claim)[0].Fence
	a.do(dedup.Op{Kind: dedup.End, Key: keyOf(id), Fence: fence, Token: dedup.Token{1}, Policy: keptFor, Outcome: outcome, Reason: "terminal", Error: "no"})
	return a.record(id)
}

func (a *adminRig) record(id string) dedup.Record {
	a.t.Helper()
	records, err := a.store.Lookup(a.t.Context(), []dedup.Key{keyOf(id)})
	if err != nil {
		a.t.Fatal(err)
	}
	return records[0]
}

// noted notes a letter of a record, whose run is the one given.
func (a *adminRig) noted(letter, id string, run uint32) {
	a.t.Helper()
	a.do(dedup.Op{Kind: dedup.NoteLetter, Key: keyOf(id), Letter: &dedup.LetterOp{Letter: dedup.Letter{
		ID: letter, Reason: "terminal", Run: run, Opened: a.record(id).Opened,
	}, Settles: true}})
}

func (a *adminRig) letter(id string) dedup.Letter {
	a.t.Helper()
	letters, err := a.store.Letters(a.t.Context(), []string{id})
	if err != nil {
		a.t.Fatal(err)
	}
	return letters[0]
}

func outgoing(topic string) adminapi.PublishRequest {
	m := brokers.Outgoing{Topic: topic, Value: []byte("{}")}
	return adminapi.PublishRequest{Messages: []adminapi.Outgoing{adminapi.OfOutgoing(&m)}}
}

func applying(t *testing.T, ops ...dedup.Op) adminapi.ApplyRequest {
	t.Helper()
	var q adminapi.ApplyRequest
	for i := range ops {
		op, err := adminapi.OfOp(&ops[i])
		if err != nil {
			t.Fatal(err)
		}
		q.Ops = append(q.Ops, op)
	}
	return q
}

// copyWith is a message with one header.
func copyWith(header, value string) brokers.Outgoing {
	return brokers.Outgoing{Value: []byte("{}"), Headers: []brokers.Header{{Key: header, Value: []byte(value)}}}
}
