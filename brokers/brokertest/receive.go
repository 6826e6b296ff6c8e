package brokertest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward/brokers"
)

func everyMessageOnce(t *testing.T, w *world) {
	const n = 3000
	topic := w.h.NewTopic(t, 3)
	messages := make([]brokers.Outgoing, n)
	for i := range messages {
		messages[i] = brokers.Outgoing{Key: fmt.Appendf(nil, "k%d", i%50), Value: fmt.Appendf(nil, "%d", i)}
	}
	w.h.Produce(t, topic, messages...)
	_, r := w.start(t, topic)
	seen := map[string]bool{}
	next := map[*brokers.Lane]int64{}
	for len(seen) < n {
		for _, d := range r.receive(t, 1) {
			if seen[string(d.Value)] {
				t.Fatalf("%s came twice", d.Value)
			}
			seen[string(d.Value)] = true
			if d.Offset < next[d.Lane] {
				t.Fatalf("offset %d of partition %d after %d", d.Offset, d.Lane.Partition, next[d.Lane]-1)
			}
			next[d.Lane] = d.Offset + 1
			r.ack(t, d)
		}
	}
	r.nothing(t, 100*time.Millisecond)
}

// samples are messages of partition 0 that a producer may send, and whether the
// broker keeps their keys.
func (w *world) samples(t *testing.T) (messages []brokers.Outgoing, keys bool) {
	t.Helper()
	messages = []brokers.Outgoing{
		{Value: []byte("plain")},
		{Value: []byte("headers"), Headers: []brokers.Header{{Key: "a", Value: []byte("1")}, {Key: "b", Value: []byte("")}, {Key: "b", Value: []byte("é")}}},
		{Value: []byte{}},
		{Value: []byte{0, 0xff, '\r', '\n'}},
	}
	if keys = !w.lacks(t, Keys); keys {
		messages = append(messages,
			brokers.Outgoing{Key: []byte("k\xff"), Value: nil}, brokers.Outgoing{Key: []byte{}, Value: []byte{}})
	}
	if !w.lacks(t, BinaryHeaders) {
		messages = append(messages, brokers.Outgoing{Value: []byte("binary"), Headers: []brokers.Header{
			{Key: "z", Value: []byte("\r\n\xff\x00 ")}, {Key: "a", Value: nil}, {Key: "z", Value: []byte{}}, {Key: "with: space", Value: []byte("1")},
		}})
	}
	one := int32(0)
	for i := range messages {
		messages[i].Partition = &one
	}
	return messages, keys
}

func asProduced(t *testing.T, w *world) {
	topic := w.h.NewTopic(t, 1)
	before := time.Now().Add(-time.Minute)
	messages, keys := w.samples(t)
	w.h.Produce(t, topic, messages...)
	_, r := w.start(t, topic)
	for i, d := range r.receive(t, len(messages)) {
		m := messages[i]
		if !reflect.DeepEqual(d.Value, m.Value) || !reflect.DeepEqual(d.Headers, m.Headers) || keys && !reflect.DeepEqual(d.Key, m.Key) {
			t.Errorf("%d: got key %q value %#v headers %q,\nwant %q %#v %q", i, d.Key, d.Value, d.Headers, m.Key, m.Value, m.Headers)
		}
		if d.Time.Before(before) || d.Time.After(time.Now().Add(time.Minute)) {
			t.Errorf("%d: stored at %v", i, d.Time)
		}
		l := d.Lane
		if l.Topic != topic || l.Retry || l.Source == "" || l.Mark != "" || l.Backlog < -1 || l.Backlog > int64(len(messages)) {
			t.Errorf("%d: lane %+v", i, l)
		}
	}
}

func receiveLimit(t *testing.T, w *world) {
	topic := w.h.NewTopic(t, 1)
	messages := numbered("", 40)
	for i := range messages {
		messages[i].Value = make([]byte, 1000)
	}
	messages[20].Value = make([]byte, 20_000)
	w.h.Produce(t, topic, messages...)
	_, r := w.start(t, topic)
	ctx, cancel := context.WithTimeout(t.Context(), w.patience())
	defer cancel()
	for got := 0; got < len(messages); {
		limit := brokers.Limit{Messages: 7, Bytes: 1 << 20}
		if got >= 14 {
			limit = brokers.Limit{Messages: 100, Bytes: 5000}
		}
		ds, err := r.Receive(ctx, limit)
		if err != nil || len(ds) == 0 || len(ds) > limit.Messages {
			t.Fatalf("after %d: %d deliveries, %v", got, len(ds), err)
		}
		bytes := 0
		for i, d := range ds {
			if i > 0 && bytes >= limit.Bytes {
				t.Fatalf("%d deliveries, though %d have %d bytes", len(ds), i, bytes)
			}
			bytes += d.Size()
		}
		got += len(ds)
		r.ack(t, ds...)
	}
}

func receiveEnds(t *testing.T, w *world) {
	_, r := w.start(t, w.h.NewTopic(t, 1))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Receive(ctx, plenty); !errors.Is(err, context.Canceled) {
		t.Fatalf("with a context that has ended: %v", err)
	}
	r.nothing(t, 50*time.Millisecond)
	done := make(chan error, 1)
	go func() {
		_, err := r.Receive(context.WithoutCancel(ctx), plenty)
		done <- err
	}()
	r.close(t)
	select {
	case err := <-done:
		if !errors.Is(err, brokers.ErrClosed) {
			t.Fatalf("while closing: %v", err)
		}
	case <-time.After(w.patience()):
		t.Fatal("Receive goes on after Close")
	}
	if _, err := r.Receive(context.WithoutCancel(ctx), plenty); !errors.Is(err, brokers.ErrClosed) {
		t.Fatalf("after Close: %v", err)
	}
}

func pause(t *testing.T, w *world) {
	one, two := w.h.NewTopic(t, 1), w.h.NewTopic(t, 1)
	w.h.Produce(t, one, numbered("one", 1)...)
	_, r := w.start(t, one, two)
	lane := r.receive(t, 1)[0].Lane
	r.Pause(lane, true)
	w.h.Produce(t, one, numbered("waits", 5)...)
	w.h.Produce(t, two, numbered("goes", 5)...)
	if got := r.receive(t, 5); sorted(got) != "[goes0 goes1 goes2 goes3 goes4]" {
		t.Fatalf("received %s", values(got))
	}
	r.nothing(t, 200*time.Millisecond)
	r.Pause(lane, false)
	if got := r.receive(t, 5); values(got) != "[waits0 waits1 waits2 waits3 waits4]" {
		t.Fatalf("received %s", values(got))
	}
}

func concurrency(t *testing.T, w *world) {
	const n = 4000
	topic := w.h.NewTopic(t, 2)
	messages := make([]brokers.Outgoing, n)
	for i := range messages {
		messages[i] = brokers.Outgoing{Key: fmt.Appendf(nil, "%d", i), Value: fmt.Appendf(nil, "%d", i)}
	}
	w.h.Produce(t, topic, messages...)
	_, r := w.start(t, topic)
	ctx, done := context.WithTimeout(t.Context(), w.patience())
	defer done()
	var (
		group    sync.WaitGroup
		work     = make(chan []*brokers.Delivery)
		mu       sync.Mutex
		deferred = map[string]bool{}
		acked    = map[string]bool{}
	)
	// Each third message is given back once.
	settle := func(ds []*brokers.Delivery) {
		var now, later []*brokers.Delivery
		mu.Lock()
		for i, d := range ds {
			if value := string(d.Value); i%3 == 0 && !deferred[value] {
				deferred[value] = true
				later = append(later, d)
			} else {
				acked[value] = true
				now = append(now, d)
			}
		}
		all := len(acked) == n
		mu.Unlock()
		if err := errors.Join(r.Defer(later, 10*time.Millisecond), r.Ack(now)); err != nil {
			t.Error(err)
		}
		if _, err := r.Floors(ctx); err != nil {
			t.Error(err)
		}
		r.Pause(ds[0].Lane, false)
		if all {
			done()
		}
	}
	for range 8 {
		group.Go(func() {
			for ds := range work {
				settle(ds)
			}
		})
	}
	for {
		ds, err := r.Receive(ctx, brokers.Limit{Messages: 100, Bytes: 1 << 20})
		if err != nil {
			break
		}
		work <- ds
	}
	close(work)
	group.Wait()
	if len(acked) != n {
		t.Errorf("%d of %d acked", len(acked), n)
	}
}
