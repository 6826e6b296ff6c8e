package brokertest

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/onceward/onceward/brokers"
)

func crash(t *testing.T, w *world) {
	topic := w.h.NewTopic(t, 1)
	w.h.Produce(t, topic, numbered("m", 10)...)
	b, r := w.start(t, topic)
	got := r.receive(t, 10)
	r.ack(t, find(t, got, "m0"), find(t, got, "m1"), find(t, got, "m5"))
	w.h.Crash(t, b)
	_, r = w.start(t, topic)
	// Those that were acked may come again or not: the crash may have been
	// faster than the acks. The others must.
	missing := map[string]bool{"m2": true, "m3": true, "m4": true, "m6": true, "m7": true, "m8": true, "m9": true}
	for len(missing) > 0 {
		d := r.receive(t, 1)[0]
		delete(missing, string(d.Value))
		r.ack(t, d)
	}
}

func closeKeepsAcks(t *testing.T, w *world) {
	topic := w.h.NewTopic(t, 1)
	w.h.Produce(t, topic, numbered("m", 6)...)
	_, r := w.start(t, topic)
	got := r.receive(t, 6)
	r.ack(t, got[1], got[0])
	r.close(t)
	_, r = w.start(t, topic)
	if again := r.receive(t, 4); sorted(again) != "[m2 m3 m4 m5]" {
		t.Fatalf("again: %s", values(again))
	}
	r.nothing(t, 200*time.Millisecond)
}

func lateAcks(t *testing.T, w *world) {
	topic := w.h.NewTopic(t, 1)
	w.h.Produce(t, topic, numbered("m", 2)...)
	_, r := w.start(t, topic)
	got := r.receive(t, 2)
	r.close(t)
	if err := r.Ack(got); err == nil {
		t.Error("an ack after Close is not refused")
	}
	if err := r.Defer(got, time.Second); err == nil {
		t.Error("a Defer after Close is not refused")
	}
	_, r = w.start(t, topic)
	if again := r.receive(t, 2); sorted(again) != "[m0 m1]" {
		t.Fatalf("again: %s", values(again))
	}
	// A delivery of another source is not this one's to settle.
	if err := r.Ack(got); err == nil {
		t.Error("an ack of another source's delivery is not refused")
	}
}

func deferred(t *testing.T, w *world) {
	topic := w.h.NewTopic(t, 1)
	w.h.Produce(t, topic, numbered("m", 3)...)
	_, r := w.start(t, topic)
	const delay = 700 * time.Millisecond
	first := r.receive(t, 3)
	began := time.Now()
	r.putOff(t, delay, find(t, first, "m0"))
	r.putOff(t, 0, find(t, first, "m1"))
	w.h.Produce(t, topic, numbered("fresh", 3)...)
	// What has no delay and what is new come while m0 waits.
	if got := r.receive(t, 4); sorted(got) != "[fresh0 fresh1 fresh2 m1]" {
		t.Fatalf("received %s", values(got))
	} else if waited := time.Since(began); waited > delay && w.h.Takeover > delay {
		t.Errorf("others waited for %v", waited)
	}
	got := r.receive(t, 1)
	if waited := time.Since(began); string(got[0].Value) != "m0" || waited < delay {
		t.Fatalf("received %s after %v", values(got), waited)
	}
	r.ack(t, got...)
}

func deferredCrash(t *testing.T, w *world) {
	topic := w.h.NewTopic(t, 1)
	w.h.Produce(t, topic, numbered("m", 3)...)
	b, r := w.start(t, topic)
	got := r.receive(t, 3)
	r.ack(t, got[1], got[2])
	r.putOff(t, 500*time.Millisecond, got[0])
	w.h.Crash(t, b)
	_, r = w.start(t, topic)
	for {
		d := r.receive(t, 1)[0]
		if string(d.Value) == "m0" {
			return
		}
		r.ack(t, d)
	}
}

func deferredBytes(t *testing.T, w *world) {
	const n, size = 400, 64 << 10
	topic := w.h.NewTopic(t, 1)
	messages := numbered("", n)
	for i := range messages {
		messages[i].Value = make([]byte, size)
	}
	w.h.Produce(t, topic, messages...)
	clear(messages)
	_, r := w.start(t, topic)
	before := heap()
	for left := n; left > 0; {
		ds := r.receive(t, min(left, 50))
		left -= len(ds)
		r.putOff(t, time.Hour, ds...)
	}
	// A broker in this process may keep some of the log at hand.
	w.eventually(t, func() (bool, string) {
		grown := int64(heap()) - int64(before)
		return grown < n*size/3, "deferred messages hold memory"
	})
	runtime.KeepAlive(r)
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// held: both what a handler has and what was only fetched is kept from coming
// again, for several times the broker's patience.
func held(t *testing.T, w *world) {
	topic := w.h.NewTopic(t, 1)
	w.h.Produce(t, topic, numbered("m", 20)...)
	_, r := w.start(t, topic)
	few := r.receive(t, 5)
	until := time.Now().Add(min(3*w.h.Takeover, 5*time.Second))
	lane := few[0].Lane
	r.Pause(lane, true)
	r.nothing(t, time.Until(until))
	r.Pause(lane, false)
	rest := r.receive(t, 15)
	r.nothing(t, 100*time.Millisecond)
	r.ack(t, append(few, rest...)...)
}

func abandoned(t *testing.T, w *world) {
	topic := w.h.NewTopic(t, 1)
	w.h.Produce(t, topic, numbered("m", 2)...)
	_, r := w.start(t, topic)
	got := r.receive(t, 2)
	r.Abandon([]*brokers.Delivery{find(t, got, "m0")})
	if w.lacks(t, Deadline) {
		r.nothing(t, 200*time.Millisecond)
	} else {
		again := r.receive(t, 1)
		if string(again[0].Value) != "m0" {
			t.Fatalf("received %s", values(again))
		}
		r.ack(t, again...)
	}
	// The handler may come back after all.
	if err := r.Ack(got); err != nil {
		t.Errorf("ack of what was abandoned: %v", err)
	}
	r.close(t)
	_, r = w.start(t, topic)
	r.nothing(t, 300*time.Millisecond)
}

func closeTwice(t *testing.T, w *world) {
	topic := w.h.NewTopic(t, 1)
	w.h.Produce(t, topic, numbered("m", 3)...)
	b, r := w.start(t, topic)
	r.receive(t, 3)
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		began := time.Now()
		if err := r.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		if took := time.Since(began); took > 9*time.Second {
			t.Errorf("close took %v", took)
		}
		cancel()
	}
	for range 2 {
		if err := b.Close(); err != nil {
			t.Errorf("close of the broker: %v", err)
		}
	}
}
