package brokertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/brokers"
)

// destinations opens a consumer, so that they are made, and names them.
func (w *world) destinations(t *testing.T) (brokers.Broker, *reader, string, brokers.Destinations) {
	t.Helper()
	topic := w.h.NewTopic(t, 1)
	b, r := w.start(t, topic)
	return b, r, topic, b.Destinations(w.consumer, topic)
}

func allNil(t *testing.T, errs []error, n int) {
	t.Helper()
	if len(errs) != n {
		t.Fatalf("%d results for %d messages", len(errs), n)
	}
	for i, err := range errs {
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
}

func published(t *testing.T, w *world) {
	b, _, _, to := w.destinations(t)
	one := int32(0)
	messages := []brokers.Outgoing{
		{Value: []byte("plain")},
		{Value: []byte("with an id"), ID: "letter-1"},
		{Value: nil},
		{Value: []byte{}},
		{Key: []byte{0xff, 0}, Value: []byte{0, 0xff, '\r', '\n'}},
		{Key: []byte{}, Value: []byte("empty key")},
		{Value: []byte("headers"), ID: "letter-2", Headers: []brokers.Header{
			{Key: "z", Value: []byte("first")}, {Key: "a", Value: []byte("second")}, {Key: "z", Value: []byte("third")},
			{Key: "binary", Value: []byte("\x00\xff\r\n: ")}, {Key: "empty", Value: []byte{}}, {Key: "spaces", Value: []byte("  x ")},
			{Key: "Nats-Msg-Id", Value: []byte("the original's")}, {Key: "Nats-Expected-Stream", Value: []byte("OTHER")},
			{Key: "with: space", Value: []byte("1")}, {Key: "é", Value: []byte("é")}, {Key: strings.Repeat("n", 200), Value: bytes.Repeat([]byte("v"), 8000)},
		}},
	}
	for i := range messages {
		messages[i].Topic, messages[i].Partition = to.DeadLetter, &one
	}
	allNil(t, b.Publish(t.Context(), messages), len(messages))
	stored := w.h.Stored(t, to.DeadLetter)
	if len(stored) != len(messages) {
		t.Fatalf("%d stored, want %d", len(stored), len(messages))
	}
	// One call's messages may be stored in any order.
	for _, m := range messages {
		found := false
		for _, s := range stored {
			found = found || reflect.DeepEqual(s.Key, m.Key) && reflect.DeepEqual(s.Value, m.Value) && reflect.DeepEqual(s.Headers, m.Headers)
		}
		if !found {
			t.Errorf("not stored byte for byte: key %q value %#v headers %q", m.Key, m.Value, m.Headers)
		}
	}
}

func tooLarge(t *testing.T, w *world) {
	b, _, _, to := w.destinations(t)
	errs := b.Publish(t.Context(), []brokers.Outgoing{
		{Topic: to.DeadLetter, Value: []byte("before")},
		{Topic: to.DeadLetter, Value: make([]byte, w.h.TooLarge), ID: "large"},
		{Topic: to.DeadLetter, Value: []byte("after")},
	})
	if len(errs) != 3 || errs[0] != nil || !errors.Is(errs[1], brokers.ErrTooLarge) || errs[2] != nil {
		t.Fatalf("results: %v", errs)
	}
	if !strings.Contains(errs[1].Error(), to.DeadLetter) {
		t.Errorf("the error does not name %q: %v", to.DeadLetter, errs[1])
	}
	if stored := w.h.Stored(t, to.DeadLetter); len(stored) != 2 {
		t.Errorf("%d stored, want 2", len(stored))
	}
}

func noDestination(t *testing.T, w *world) {
	b, _, _, to := w.destinations(t)
	ctx, cancel := context.WithTimeout(t.Context(), w.patience())
	defer cancel()
	errs := b.Publish(ctx, []brokers.Outgoing{
		{Topic: "nowhere", Value: []byte("x"), ID: "nowhere"}, {Topic: to.DeadLetter, Value: []byte("y")},
	})
	if !errors.Is(errs[0], brokers.ErrNoDestination) || !strings.Contains(errs[0].Error(), "nowhere") || errs[1] != nil {
		t.Fatalf("results: %v", errs)
	}
}

func unknownOutcome(t *testing.T, w *world) {
	if w.lacks(t, Unconfirmed) {
		return
	}
	b, _, _, to := w.destinations(t)
	heal := w.h.LoseConfirmation(t, b, to.DeadLetter)
	letter := []brokers.Outgoing{{Topic: to.DeadLetter, Value: []byte("letter"), ID: "id-" + w.consumer}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	err := b.Publish(ctx, letter)[0]
	cancel()
	if !errors.Is(err, brokers.ErrUnknownOutcome) {
		t.Fatalf("without a confirmation: %v", err)
	}
	heal()
	w.eventually(t, func() (bool, string) {
		ctx, cancel := context.WithTimeout(t.Context(), w.patience())
		defer cancel()
		err := b.Publish(ctx, letter)[0]
		return err == nil, fmt.Sprint(err)
	})
	stored := w.h.Stored(t, to.DeadLetter)
	if len(stored) == 0 || len(stored) > 1 && !w.lacks(t, IDs) {
		t.Fatalf("%d stored", len(stored))
	}
}

func publishEnds(t *testing.T, w *world) {
	b, _, _, to := w.destinations(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	// Whether it was stored decides what must be answered.
	err := b.Publish(ctx, []brokers.Outgoing{{Topic: to.DeadLetter, Value: []byte("x")}})[0]
	stored := w.h.Stored(t, to.DeadLetter)
	if len(stored) > 0 && err != nil && !errors.Is(err, brokers.ErrUnknownOutcome) {
		t.Fatalf("stored, and answered: %v", err)
	}
	if len(stored) == 0 && err == nil {
		t.Fatal("confirmed, and not stored")
	}
}

func retryLane(t *testing.T, w *world) {
	b, r, topic, to := w.destinations(t)
	copied := brokers.Outgoing{
		Topic: to.Retry, Value: []byte("copy"), Key: []byte("k"), ID: "copy-" + w.consumer, Subject: topic + ".created",
		Headers: []brokers.Header{{Key: "b", Value: []byte("1")}, {Key: "a", Value: []byte{0xff}}, {Key: "Nats-Msg-Id", Value: []byte("o")}},
	}
	allNil(t, b.Publish(t.Context(), []brokers.Outgoing{copied}), 1)
	d := r.receive(t, 1)[0]
	if !d.Lane.Retry || d.Lane.Topic != topic || d.Lane.Source == "" {
		t.Errorf("lane %+v", d.Lane)
	}
	if !reflect.DeepEqual(d.Key, copied.Key) || !reflect.DeepEqual(d.Value, copied.Value) || !reflect.DeepEqual(d.Headers, copied.Headers) {
		t.Errorf("got key %q value %q headers %q", d.Key, d.Value, d.Headers)
	}
	if d.Subject != "" && d.Subject != copied.Subject {
		t.Errorf("subject %q, want %q", d.Subject, copied.Subject)
	}
	// It waits there without holding up the topic.
	r.putOff(t, time.Second, d)
	w.h.Produce(t, topic, numbered("fresh", 1)...)
	if got := r.receive(t, 1); values(got) != "[fresh0]" || got[0].Lane.Retry {
		t.Fatalf("received %s", values(got))
	}
	if got := r.receive(t, 1); values(got) != "[copy]" || !got[0].Lane.Retry {
		t.Fatalf("received %s", values(got))
	}
}
