package deadletter

import (
	"errors"
	"reflect"
	"testing"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/dedup"
)

// FuzzDecode feeds forged headers: what is accepted must be written back as the
// same letter.
func FuzzDecode(f *testing.F) {
	for _, l := range samples() {
		headers := Encode(l, "dlq").Headers
		var flat []byte
		for _, h := range headers {
			flat = append(flat, h.Key...)
			flat = append(flat, 0)
			flat = append(flat, h.Value...)
			flat = append(flat, 0)
		}
		f.Add(flat)
	}
	f.Fuzz(func(t *testing.T, flat []byte) {
		d := &brokers.Delivery{Value: []byte("v")}
		for len(flat) > 0 {
			var name, value []byte
			name, flat = untilZero(flat)
			value, flat = untilZero(flat)
			d.Headers = append(d.Headers, brokers.Header{Key: string(name), Value: value})
		}
		l, err := Decode(d)
		if err != nil {
			if _, ok := errors.AsType[*FormatError](err); !ok && !errors.Is(err, ErrNotLetter) {
				t.Fatalf("got %v", err)
			}
			return
		}
		again, err := Decode(received(Encode(l, "dlq")))
		if err != nil {
			t.Fatal(err)
		}
		// Texts for people may be cleaned once; what decides is exact.
		if again.ID != l.ID || again.Key != l.Key || again.Source != l.Source || again.Fingerprint != l.Fingerprint ||
			again.Run != l.Run || again.Reason != l.Reason || again.Consumer != l.Consumer || len(again.Headers) != len(l.Headers) {
			t.Fatalf("read %+v\nthen %+v", l, again)
		}
	})
}

func untilZero(b []byte) (head, tail []byte) {
	for i, c := range b {
		if c == 0 {
			return b[:i], b[i+1:]
		}
	}
	return b, nil
}

// FuzzLetter writes letters of any texts: they come back, exact where it
// decides, and stay as they are from then on.
func FuzzLetter(f *testing.F) {
	f.Add("order.create", "ord-1", "boom", "main.f()\n\tx.go:1", "orders", "orders.eu", "k", []byte("v"), uint32(1), int64(7), true)
	f.Add("s", "i", "", "\n \nmain.f()\n\n\tx.go:1\n ", "t", "", "", []byte(nil), uint32(1), int64(0), false)
	f.Add("s", "\"=\x00 ", "\xff\n\u202e", "\\n\\\\\n", "=t", "\"", "", []byte(nil), uint32(0), int64(0), false)
	f.Fuzz(func(t *testing.T, scope, id, text, stack, topic, subject, header string, value []byte, run uint32, offset int64, jetstream bool) {
		key := dedup.Key{Consumer: "c", Scope: scope, ID: id}
		if key.Validate() != nil || topic == "" || len(topic) > maxSubject || offset < 0 {
			return // no consumer writes such a letter
		}
		l := Letter{
			ID: ID(key, 1), Consumer: "c", Reason: ReasonTerminal, Error: text, ErrorType: text, Stack: stack, Key: key, Run: run, Value: value,
			Headers: []brokers.Header{{Key: header, Value: value}},
			Source:  Source{Topic: topic, Offset: offset, JetStream: jetstream},
		}
		if jetstream {
			l.Source.Subject = subject
		}
		o := Encode(l, "dlq")
		if size := ownSize(o.Headers); size > MaxHeaders {
			t.Fatalf("%d bytes of own headers", size)
		}
		got, err := Decode(received(o))
		if err != nil {
			t.Fatal(err)
		}
		if got.Key != l.Key || got.Source != l.Source && len(subject) <= maxSubject || got.Run != l.Run || string(got.Value) != string(value) {
			t.Fatalf("got %+v, want %+v", got, l)
		}
		again, err := Decode(received(Encode(got, "dlq")))
		if err != nil || !reflect.DeepEqual(again, got) {
			t.Fatalf("read %+v\nthen %+v, %v", got, again, err)
		}
	})
}
