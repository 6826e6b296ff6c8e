package consumer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/onceward/onceward/brokers/natsbroker"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/boltstore"
)

// Letters with a key and without one are sent back to a paused consumer, over a
// real server and a file, to its retry stream and to the source.
func TestLettersAreAnsweredOnJetStreamOnceTheConsumerIsResumed(t *testing.T) {
	r := newNatsRig(t)
	var runs counter
	var mended atomic.Bool
	route := consumer.JSON("order.create", job.ID, func(_ context.Context, j job) error {
		if !mended.Load() {
			return consumer.Terminal(errors.New("no such customer"))
		}
		runs.add(j.No)
		return nil
	})
	decode := route.Decode
	route.Decode = func(d *consumer.Delivery) (any, error) {
		if bytes.Contains(d.Value, []byte(`"v2"`)) && !mended.Load() {
			return nil, errors.New("version 2 is not known")
		}
		return decode(d)
	}
	store := r.open(r.file, boltstore.Options{})
	run := r.run(store, route)
	const each = 20
	for i := range each {
		r.send(job{No: fmt.Sprint("refused-", i)}, job{No: fmt.Sprint("unread-", i), Do: "v2"})
	}
	r.wantSettled()
	if n := len(r.letters()); n != 2*each {
		t.Fatalf("%d letters of %d messages", n, 2*each)
	}
	mended.Store(true)
	js, err := natsbroker.Connect(t.Context(), natsbroker.Config{URL: r.url})
	if err != nil {
		t.Fatal(err)
	}
	defer js.Close() //nolint:errcheck // at the end of a test
	if _, err := dedup.SetPause(t.Context(), store, dedup.Pause{Consumer: durable, Who: "ann", Why: "release"}); err != nil {
		t.Fatal(err)
	}
	if !eventually(func() bool { return len(run.c.Status().Paused) == 1 }) {
		t.Fatal("not paused")
	}
	q := &deadletter.Queue{Topic: js.Destinations(durable, stream).DeadLetter, Consumer: durable, Broker: js, Store: store}
	var plans []*deadletter.PlanFile
	for _, sel := range []deadletter.Selection{
		{Filter: deadletter.Filter{Reasons: []deadletter.Reason{deadletter.ReasonTerminal}}, Who: "ann", Why: "mended"},
		{Filter: deadletter.Filter{Reasons: []deadletter.Reason{deadletter.ReasonDecode}}, Who: "ann", Why: "mended", To: deadletter.ToSource},
	} {
		var text bytes.Buffer
		if _, err := q.Plan(t.Context(), sel, &text); err != nil {
			t.Fatal(err)
		}
		f, err := deadletter.ReadPlan(bytes.NewReader(text.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		if report, err := q.Apply(t.Context(), f, deadletter.ApplyConfig{}); err != nil || report.Counts[deadletter.DidSend] != each {
			t.Fatalf("%+v %v", report, err)
		}
		plans = append(plans, f)
	}
	if runs.total() != 0 || run.c.Status().Unfinished > 0 {
		t.Errorf("%d runs while paused, status %+v", runs.total(), run.c.Status())
	}
	if changed, err := dedup.LiftPause(t.Context(), store, dedup.Pause{Consumer: durable}); err != nil || !changed {
		t.Fatal(changed, err)
	}
	answered := func() (n int) {
		for _, f := range plans {
			for o, err := range q.Outcome(t.Context(), f) {
				if err != nil {
					t.Fatal(err)
				}
				if o.Outcome == deadletter.Succeeded {
					n++
				}
			}
		}
		return n
	}
	if !eventually(func() bool { return answered() == 2*each }) {
		t.Errorf("%d of %d are answered", answered(), 2*each)
	}
	resolved := func() (n int) {
		for l, err := range store.ScanLetters(t.Context(), durable) {
			if err != nil {
				t.Fatal(err)
			}
			if l.State == dedup.LetterResolved && l.Answer == dedup.Succeeded {
				n++
			}
		}
		return n
	}
	if !eventually(func() bool { return resolved() == 2*each && r.info(stream+"_RETRY").NumAckPending == 0 }) {
		t.Errorf("%d of %d letters are resolved", resolved(), 2*each)
	}
	r.wantSettled()
	if runs.total() != 2*each || len(runs.runs) != 2*each {
		t.Errorf("%d runs of %d", runs.total(), len(runs.runs))
	}
	if err := run.stop(); err != nil {
		t.Error(err)
	}
}
