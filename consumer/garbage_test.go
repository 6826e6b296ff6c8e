package consumer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/membroker"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/memstore"
)

func TestGarbageEndsAsLettersAndHoldsUpNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.broker = membroker.New(membroker.Config{Topics: map[string]int{topic: 1}, MaxMessageBytes: 64 << 20})
		r.cfg.Broker = r.broker
		var runs counter
		r.run(consumer.JSON("order.create", order.ID, func(_ context.Context, o order) error {
			runs.add(o.No)
			return nil
		}))
		rnd := rand.New(rand.NewPCG(3, 3))
		random := func(n int) []byte {
			b := make([]byte, n)
			for i := range b {
				b[i] = byte(rnd.Uint32())
			}
			return b
		}
		var headers []brokers.Header
		for i := range 10_000 {
			headers = append(headers, brokers.Header{Key: fmt.Sprint("h-", i), Value: random(20)})
		}
		bad := []brokers.Outgoing{
			{},                // a tombstone
			{Value: []byte{}}, // nothing
			{Value: []byte("null")},
			{Value: []byte(`[]`)},
			{Value: []byte(`{"no":"` + strings.Repeat("x", 1025) + `"}`)},
			{Value: []byte("{\"no\":\"\xff\xfe\"}")},
			{Value: []byte(`{"no":"a","no":"b"}`)},
			{Value: []byte(strings.Repeat("[", 100_000))},
			{Value: random(10 << 20)},
			{Value: []byte(`{"no":`), Headers: headers},
			{Value: random(100), Key: random(1000), Headers: []brokers.Header{{Key: string(random(100)), Value: random(100)}, {}, {Key: "\x00"}}},
		}
		for range 200 {
			bad = append(bad, brokers.Outgoing{Value: random(rnd.IntN(200)), Key: random(rnd.IntN(20))})
		}
		r.broker.Produce(topic, bad...)
		r.broker.Produce(topic,
			brokers.Outgoing{Value: []byte(orderJSON("many headers", 1)), Headers: headers},
			brokers.Outgoing{Value: []byte(`{"no":"large","cents":1,"rest":"` + strings.Repeat("x", 10<<20) + `"}`)},
			brokers.Outgoing{Value: []byte(orderJSON("small", 1))},
		)
		pass(time.Minute)
		for _, no := range []string{"many headers", "large", "small"} {
			if runs.of(no) != 1 {
				t.Errorf("%s ran %d times", no, runs.of(no))
			}
		}
		letters := r.broker.Letters("billing", topic)
		if len(letters) != len(bad) || runs.total() != 3 {
			t.Errorf("%d letters for %d bad messages, %d runs", len(letters), len(bad), runs.total())
		}
		for i, l := range letters {
			if reason := header(l, "dl-reason"); reason != "decode" && reason != "key" {
				t.Errorf("letter %d has reason %q", i, reason)
			}
			if size := headersSize(l); size > 8<<10+headersSize(membroker.Message{Headers: bad[min(i, len(bad)-1)].Headers}) {
				t.Errorf("letter %d has %d bytes of headers", i, size)
			}
			if !bytes.Equal(l.Value, bad[i].Value) || !bytes.Equal(l.Key, bad[i].Key) {
				t.Errorf("letter %d has another key or value than its message", i)
			}
		}
		r.wantUnsettled(0)
		r.end()
	})
}

func headersSize(m membroker.Message) (n int) {
	for _, h := range m.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}

// Whoever can publish may write what he likes into dl-* headers.
func TestForgedHeadersDecideNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		var runs, seen counter
		route := consumer.JSON("order.create", order.ID, func(ctx context.Context, o order) error {
			op := consumer.Info(ctx)
			if n := runs.add(o.No); int(op.Failures) != n-1 || op.Run != 1 {
				t.Errorf("attempt %d sees %d failures of run %d", n, op.Failures, op.Run)
			}
			if o.No == "later" && op.Failures == 0 {
				return consumer.RetryAfter(errors.New("not now"), time.Hour)
			}
			return errors.New("always")
		})
		next := route.Run
		route.Run = func(ctx context.Context, d *consumer.Delivery) (consumer.Result, error) {
			for _, h := range d.Headers {
				seen.add(h.Key)
			}
			return next(ctx, d)
		}
		route.Retry.MaxFailures = 3
		r.run(route)
		settle()
		forged := []brokers.Header{{Key: "kept", Value: []byte("x")}}
		for name, value := range map[string]string{
			"dl-failures": "9", "dl-run": "7", "dl-id": "0123", "dl-scope": "other", "dl-key": "other", "dl-reason": "terminal",
			"DL-Crashes": "9", "dl-replay-job": "j", "dl-replay-count": "99", "dl-replay-token": "t", "dl-not-before": "2999-01-01T00:00:00Z",
			"dl-source-offset": "-1", "dl-fingerprint": "00", "dl-version": "99", "dl-due": "2999-01-01T00:00:00Z",
		} {
			forged = append(forged, brokers.Header{Key: name, Value: []byte(value)})
		}
		r.broker.Produce(topic, brokers.Outgoing{Value: []byte(orderJSON("failing", 1)), Headers: forged})
		r.broker.Produce(topic, brokers.Outgoing{Value: []byte(orderJSON("later", 1)), Headers: forged})
		// And straight to the retry topic.
		r.broker.Produce(r.broker.Destinations("billing", topic).Retry, brokers.Outgoing{Value: []byte(orderJSON("smuggled", 1)), Headers: forged})
		pass(3 * time.Hour)
		for _, no := range []string{"failing", "later", "smuggled"} {
			if runs.of(no) != 3 {
				t.Errorf("%s ran %d times, want 3", no, runs.of(no))
			}
		}
		if len(seen.runs) != 1 || seen.of("kept") == 0 {
			t.Errorf("handlers saw %v", seen.runs)
		}
		r.wantReasons("exhausted", "exhausted", "exhausted")
		for _, l := range r.broker.Letters("billing", topic) {
			counts := map[string]int{}
			for _, h := range l.Headers {
				counts[strings.ToLower(h.Key)]++
			}
			for name, n := range counts {
				if n > 1 || name == "dl-due" || name == "dl-not-before" {
					t.Errorf("letter has %q %d times", name, n)
				}
			}
			if header(l, "dl-failures") != "3" || header(l, "dl-run") != "1" || header(l, "dl-scope") != "order.create" {
				t.Errorf("letter says %v", l.Headers)
			}
		}
		r.wantUnsettled(0)
		r.end()
	})
}

// peak is a store that notes the most memory in use.
type peak struct {
	dedup.Store
	most uint64
}

func (p *peak) Apply(ctx context.Context, ops []dedup.Op) ([]dedup.Answer, error) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	p.most = max(p.most, m.HeapInuse)
	return p.Store.Apply(ctx, ops)
}

func TestLargePayloadsStayWithinTheBoundOnBytes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		// The messages themselves share one value: what is measured is the rest.
		large := []byte(`{"no":"bad"` + strings.Repeat(" ", 10<<20)) // never closed
		r := newRig(t, 1)
		r.broker = membroker.New(membroker.Config{Topics: map[string]int{topic: 1}, MaxMessageBytes: 64 << 20})
		store := &peak{Store: memstore.New()}
		r.cfg.Broker, r.cfg.Store, r.cfg.Unfinished.Bytes = r.broker, store, 20<<20
		for range 10 {
			r.broker.Produce(topic, brokers.Outgoing{Value: large})
		}
		runtime.GC()
		var before runtime.MemStats
		runtime.ReadMemStats(&before)
		most := 0
		r.cfg.Observer = func([]consumer.Decision) { most = max(most, r.c.Status().Bytes) }
		r.run(consumer.JSON("order.create", order.ID, func(context.Context, order) error { return nil }))
		pass(time.Minute)
		if most > 40<<20 {
			t.Errorf("%d MiB were unfinished at once, the bound is 20", most>>20)
		}
		if grown := int64(store.most) - int64(before.HeapInuse); grown > 300<<20 {
			t.Errorf("memory grew by %d MiB", grown>>20)
		}
		if got := r.reasons(); len(got) != 10 || slices.Compact(got)[0] != "decode" {
			t.Errorf("letters %q", got)
		}
		r.wantUnsettled(0)
		r.end()
	})
}
