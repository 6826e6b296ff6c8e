package brokertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/brokers"
)

func startFrom(t *testing.T, w *world) {
	topic := w.h.NewTopic(t, 1)
	w.h.Produce(t, topic, numbered("old", 3)...)
	b := w.connect(t)
	begin := func(from brokers.Start) *reader {
		w.consumer = ""
		spec := w.spec(topic)
		spec.StartFrom = from
		return w.open(t, b, spec)
	}
	refused := func(from brokers.Start) {
		t.Helper()
		w.consumer = ""
		spec := w.spec(topic)
		spec.StartFrom = from
		var fault *brokers.StartError
		if _, err := b.Open(t.Context(), spec); !errors.As(err, &fault) {
			t.Errorf("start from %s: %v", from, err)
		}
	}
	earliest := begin(brokers.Start{Kind: brokers.StartEarliest})
	if got := earliest.receive(t, 3); values(got) != "[old0 old1 old2]" {
		t.Errorf("earliest: %s", values(got))
	} else {
		earliest.ack(t, got[:2]...)
	}
	group := w.consumer
	latest := begin(brokers.Start{Kind: brokers.StartLatest})
	// It has received nothing, and must not begin at the end once more.
	latest.close(t)
	latestName := w.consumer
	between := w.settledClock(t)
	w.h.Produce(t, topic, numbered("new", 2)...)
	w.consumer = latestName
	spec := w.spec(topic)
	spec.StartFrom = brokers.Start{Kind: brokers.StartLatest}
	if got := w.open(t, b, spec).receive(t, 2); values(got) != "[new0 new1]" {
		t.Errorf("latest: %s", values(got))
	}
	if got := begin(brokers.Start{Kind: brokers.StartTime, Time: between}).receive(t, 2); values(got) != "[new0 new1]" {
		t.Errorf("time: %s", values(got))
	}
	earliest.close(t) // its acks are with the broker now
	if got := begin(brokers.Start{Kind: brokers.StartGroup, Group: group}).receive(t, 3); values(got) != "[old2 new0 new1]" {
		t.Errorf("group: %s", values(got))
	}
	refused(brokers.Start{})
	refused(brokers.Start{Kind: brokers.StartTime})
	refused(brokers.Start{Kind: brokers.StartGroup})
	refused(brokers.Start{Kind: brokers.StartGroup + 1})
	refused(brokers.Start{Kind: brokers.StartGroup, Group: "nobody"})
}

// settledClock is a time that lies between what was stored before the call and
// what is stored after it, also for a broker that counts in milliseconds.
func (w *world) settledClock(t *testing.T) time.Time {
	t.Helper()
	step := func() {
		pause := time.NewTimer(20 * time.Millisecond)
		<-pause.C
	}
	step()
	now := time.Now()
	step()
	return now
}

func positionWins(t *testing.T, w *world) {
	topic := w.h.NewTopic(t, 1)
	w.h.Produce(t, topic, numbered("m", 4)...)
	b, r := w.start(t, topic)
	got := r.receive(t, 4)
	r.ack(t, got[0], got[1])
	r.close(t)
	spec := w.spec(topic)
	spec.StartFrom = brokers.Start{Kind: brokers.StartLatest}
	if got := w.open(t, b, spec).receive(t, 2); sorted(got) != "[m2 m3]" {
		t.Fatalf("received %s", values(got))
	}
}

func topicTwice(t *testing.T, w *world) {
	topic := w.h.NewTopic(t, 1)
	var fault *brokers.StartError
	if _, err := w.connect(t).Open(t.Context(), w.spec(topic, topic)); !errors.As(err, &fault) || !strings.Contains(err.Error(), topic) {
		t.Fatalf("open: %v", err)
	}
}

func missingTopic(t *testing.T, w *world) {
	topic := w.h.NewTopic(t, 1)
	w.h.DeleteTopic(t, topic)
	b := w.connect(t)
	// A broker that makes missing topics must still refuse one that it cannot name.
	spec := w.spec(topic)
	spec.Topics = []string{"no/such topic"}
	began := time.Now()
	var fault *brokers.StartError
	_, err := b.Open(t.Context(), spec)
	if !errors.As(err, &fault) || !strings.Contains(err.Error(), "no/such topic") {
		t.Fatalf("open: %v", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}

func deletedTopic(t *testing.T, w *world) {
	if w.lacks(t, Gone) {
		return
	}
	topic := w.h.NewTopic(t, 1)
	w.h.Produce(t, topic, numbered("m", 2)...)
	b := w.connect(t)
	spec := w.spec(topic)
	lost := make(chan error, 10)
	spec.Events.Lost = func(lanes []*brokers.Lane, cause error) {
		for _, l := range lanes {
			if l.Topic == topic {
				lost <- cause
				return
			}
		}
	}
	r := w.open(t, b, spec)
	r.receive(t, 2)
	w.h.DeleteTopic(t, topic)
	ctx, cancel := context.WithTimeout(t.Context(), w.patience())
	defer cancel()
	var fault *brokers.StartError
	if _, err := r.Receive(ctx, plenty); !errors.As(err, &fault) || !strings.Contains(err.Error(), topic) {
		t.Fatalf("receive: %v", err)
	}
	select {
	case cause := <-lost:
		if cause == nil {
			t.Error("lost without a cause")
		}
	case <-ctx.Done():
		t.Error("its lanes are not reported as lost")
	}
}

func floors(t *testing.T, w *world) {
	topic := w.h.NewTopic(t, 1)
	w.h.Produce(t, topic, numbered("m", 6)...)
	_, r := w.start(t, topic)
	got := r.receive(t, 6)
	at := func(want *brokers.Delivery) {
		t.Helper()
		w.eventually(t, func() (bool, string) {
			all, err := r.Floors(t.Context())
			if err != nil {
				return false, err.Error()
			}
			for _, f := range all {
				if f.Lane == want.Lane {
					return f.Next == want.Offset && (f.Lag < 0 || f.Lag >= 1), fmt.Sprintf("next %d, lag %d, want next %d", f.Next, f.Lag, want.Offset)
				}
			}
			return false, "lane is not among the floors"
		})
	}
	r.ack(t, got[0])
	at(got[1])
	r.ack(t, got[2], got[3])
	at(got[1])
	r.ack(t, got[1])
	at(got[4])
}

func mark(t *testing.T, w *world) {
	topic := w.h.NewTopic(t, 1)
	w.h.Produce(t, topic, numbered("m", 3)...)
	_, r := w.start(t, topic)
	text := "store 0f3a, sequence 17\x00" + strings.Repeat("é", 100)
	d := r.receive(t, 1)
	if d[0].Lane.Mark != "" {
		t.Errorf("a new consumer has the mark %q", d[0].Lane.Mark)
	}
	for _, m := range []string{"first", text} {
		if err := r.Mark(t.Context(), m); err != nil {
			t.Fatalf("mark: %v", err)
		}
	}
	if err := r.Mark(t.Context(), strings.Repeat("x", 513)); err == nil {
		t.Error("a mark of 513 bytes is taken")
	}
	r.ack(t, d...)
	r.close(t)
	_, r = w.start(t, topic)
	d = r.receive(t, 1)
	if d[0].Lane.Mark != text {
		t.Errorf("the next owner finds %q", d[0].Lane.Mark)
	}
	if err := r.Mark(t.Context(), "third"); err != nil {
		t.Errorf("the next owner's mark: %v", err)
	}
}

func markConflict(t *testing.T, w *world) {
	if w.lacks(t, AnyMark) {
		return
	}
	topic := w.h.NewTopic(t, 1)
	_, one := w.start(t, topic)
	_, two := w.start(t, topic)
	if err := one.Mark(t.Context(), "mine"); err != nil {
		t.Fatal(err)
	}
	var other *brokers.MarkError
	if err := two.Mark(t.Context(), "theirs"); !errors.As(err, &other) || other.Found != "mine" {
		t.Fatalf("the other's mark: %v", err)
	}
	if err := one.Mark(t.Context(), "mine, later"); err != nil {
		t.Fatalf("the first one's next mark: %v", err)
	}
}

func assignedError(t *testing.T, w *world) {
	topic := w.h.NewTopic(t, 1)
	w.h.Produce(t, topic, numbered("m", 2)...)
	b := w.connect(t)
	spec := w.spec(topic)
	refusal := errors.New("the mark is of another store")
	spec.Events.Assigned = func([]*brokers.Lane) error { return refusal }
	r := w.open(t, b, spec)
	ctx, cancel := context.WithTimeout(t.Context(), w.patience())
	defer cancel()
	if ds, err := r.Receive(ctx, plenty); !errors.Is(err, refusal) {
		t.Fatalf("received %s, %v", values(ds), err)
	}
}
