package consumer_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup/boltstore"
	"github.com/onceward/onceward/internal/adminapi"
)

// On JetStream a letter goes back to a subject, which the consumer knows to be
// its own by the stream that holds it.
func TestOnJetStreamTheSubjectsOfItsStreamsAreTheConsumersOwn(t *testing.T) {
	r := newNatsRig(t)
	if _, err := r.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "PAYROLL", Subjects: []string{"PAYROLL.>"}}); err != nil {
		t.Fatal(err)
	}
	run := r.run(r.open(r.file, boltstore.Options{}), consumer.JSON("job", func(j job) string { return "1" }, func(context.Context, job) error { return nil }))
	a := &adminRig{t: t}
	var err error
	if a.handler, err = run.c.Admin(consumer.AdminConfig{}); err != nil {
		t.Fatal(err)
	}
	// What changes something waits for the store to be accepted.
	var w *httptest.ResponseRecorder
	for until := time.Now().Add(20 * time.Second); ; {
		var f adminapi.Fault
		if w, f = a.ask("POST", "/v1/publish", outgoing(stream+".new")); f.Code != adminapi.CodeNotReady || time.Now().After(until) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	for _, topic := range []string{stream, stream + ".new", stream + ".%3E", stream + "_DLQ." + durable, stream + "_RETRY." + durable} {
		if w, f := a.ask("GET", "/v1/browse?topic="+topic, nil); w.Code != http.StatusOK {
			t.Errorf("browse %s: %d %+v", topic, w.Code, f)
		}
	}
	w, _ = a.ask("GET", "/v1/browse?topic="+stream+".new", nil)
	if got := a.lines(w); len(got) != 2 || string(got[1].Message.Subject) != stream+".new" {
		t.Errorf("%+v", got)
	}
	for _, topic := range []string{"PAYROLL", "PAYROLL.new", "%3E", "*.new", stream + "_DLQ.other", "NOWHERE"} {
		if w, f := a.ask("GET", "/v1/browse?topic="+topic, nil); w.Code == http.StatusOK {
			t.Errorf("browse %s: %d %+v", topic, w.Code, f)
		}
	}
	for _, topic := range []string{"PAYROLL.new", stream + "_DLQ." + durable, "$JS.API.STREAM.DELETE." + stream, "NOWHERE"} {
		if w, f := a.ask("POST", "/v1/publish", outgoing(topic)); w.Code == http.StatusOK {
			t.Errorf("publish to %s: %d %+v", topic, w.Code, f)
		}
	}
	if s, err := r.js.Stream(t.Context(), stream); err != nil || s.CachedInfo().State.Msgs != 1 {
		t.Errorf("%+v, %v", s, err)
	}
}
