package consumer_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/brokers/natsbroker"
	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/boltstore"
)

// replay sends all open letters back while no process runs.
func (r *crashRig) replay(to deadletter.Target) {
	r.t.Helper()
	js, err := natsbroker.Connect(r.t.Context(), natsbroker.Config{URL: r.server.url})
	if err != nil {
		r.t.Fatal(err)
	}
	defer js.Close() //nolint:errcheck // the next one connects anew
	store, err := boltstore.Open(r.file, boltstore.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			r.t.Error(err)
		}
	}()
	q := &deadletter.Queue{Topic: js.Destinations(durable, stream).DeadLetter, Consumer: durable, Broker: js, Store: store}
	var text bytes.Buffer
	open := deadletter.Filter{States: []dedup.LetterState{dedup.LetterOpen}}
	if _, err := q.Plan(r.t.Context(), deadletter.Selection{Filter: open, To: to, Who: "ann", Why: "mended"}, &text); err != nil {
		r.t.Fatal(err)
	}
	f, err := deadletter.ReadPlan(bytes.NewReader(text.Bytes()))
	if err != nil {
		r.t.Fatal(err)
	}
	report, err := q.Apply(r.t.Context(), f, deadletter.ApplyConfig{})
	if err != nil || report.Counts[deadletter.DidSend] != f.Letters {
		r.t.Fatalf("%+v %v", report, err)
	}
	clear(r.finished) // what is reopened runs again
}

// A process dies at each step of the way that a copy goes.
func TestSoakAKillAtAnyStepOfACopyLeavesOneEffectAndOneAnswer(t *testing.T) {
	r := newCrashRig(t)
	for n, step := range append(slices.Clone(steps), "before answer", "after answer") {
		if strings.HasSuffix(step, "retry copy") {
			continue // no copy of these waits long
		}
		for range full(10) {
			for range 3 {
				r.send("mend", 1)
			}
			r.send("garbage", 1)
			r.finish(time.Minute)
			r.replay([]deadletter.Target{deadletter.ToRetry, deadletter.ToSource}[n%2])
			r.look()
			c := r.config()
			c.Step, c.Nth = step, 1
			p := start(t, "consumer", c)
			stuck := time.AfterFunc(20*time.Second, func() { _ = p.cmd.Process.Signal(terminate) })
			p.wait(r.see)
			if stuck.Stop(); !p.killed() {
				t.Fatalf("not killed %s: %v", step, p.err)
			}
			r.look()
		}
	}
	r.finish(time.Minute)
	booked, letters := r.bookings(), r.letters()
	for id, do := range r.sent {
		want, books := "[terminal]", 1
		if do == "garbage" {
			want, books = "[decode]", 0
		}
		if booked[id] != books || fmt.Sprint(letters[id]) != want {
			t.Errorf("%s is booked %d times, want %d, and has letters %v, want %s", id, booked[id], books, letters[id], want)
		}
	}
	store, err := boltstore.Open(r.file, boltstore.Options{ReadOnly: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close() //nolint:errcheck // read only
	notes := 0
	for l, err := range store.ScanLetters(t.Context(), durable) {
		notes++
		switch {
		case err != nil:
			t.Fatal(err)
		case l.Reason == "terminal" && (l.State != dedup.LetterResolved || l.Answer != dedup.Succeeded):
			t.Errorf("letter %+v", l)
		case l.Reason == "decode" && (l.State != dedup.LetterOpen && l.State != dedup.LetterHeld || l.Job != "" || l.Run < 2):
			t.Errorf("letter %+v", l)
		}
	}
	if notes != len(r.sent) {
		t.Errorf("%d letters of %d messages", notes, len(r.sent))
	}
}
