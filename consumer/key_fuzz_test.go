package consumer

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/dedup"
)

// FuzzField: any payload gives a usable id or an error, and the id is what
// encoding/json reads, which many producers and consumers use.
func FuzzField(f *testing.F) {
	for _, payload := range []string{
		`{"a":{"b":"x"}}`, `{"a":{"b":42}}`, `{"a":{"b":1e3}}`, `{"a.b":"x"}`, `{"a":{"b":"\u00e4\n"}}`, `{"a":{"b":"x"},"a":{"b":"y"}}`, `[`, ``,
		`{"a":{"b":9007199254740993}}`, `{"a":{"b":"\ud800"}}`, `{"\u0061":{"b":"x"}}`,
	} {
		f.Add([]byte(payload))
	}
	field := Field("a.b")
	f.Fuzz(func(t *testing.T, payload []byte) {
		before := bytes.Clone(payload)
		id, err := field.text(&Delivery{Value: payload})
		if !bytes.Equal(payload, before) {
			t.Fatal("the payload was changed")
		}
		if err != nil {
			if len(err.Error()) > 4<<10 {
				t.Fatalf("the error is %d bytes", len(err.Error()))
			}
			return
		}
		if id == "" || len(id) > dedup.MaxID || !utf8.ValidString(id) {
			t.Fatalf("unusable id %q", id)
		}
		var other map[string]json.RawMessage
		if err := json.Unmarshal(payload, &other); err != nil {
			t.Fatalf("id %q out of what encoding/json refuses: %v", id, err)
		}
		var inner map[string]any
		dec := json.NewDecoder(bytes.NewReader(other["a"]))
		dec.UseNumber()
		if err := dec.Decode(&inner); err != nil {
			t.Fatal(err)
		}
		switch v := inner["b"].(type) {
		case string:
			if v != id {
				t.Fatalf("got %q, encoding/json reads %q", id, v)
			}
		case json.Number:
			if v.String() != id {
				t.Fatalf("got %q, encoding/json reads %q", id, v)
			}
		default:
			t.Fatalf("got %q out of a %T", id, v)
		}
	})
}

// FuzzFields: any payload gives a digest or an error, and its canonical form
// has the same digest.
func FuzzFields(f *testing.F) {
	f.Add([]byte(`{"a":1,"b":{"c":[1,2,{"y":1,"x":2}]}}`), "a", "b.c")
	f.Add([]byte(`{"a":"\u2028\u0000","b":1.50}`), "b", "a")
	f.Fuzz(func(t *testing.T, payload []byte, first, second string) {
		g := Fields(first, second)
		if g.Sum == nil {
			return
		}
		sum, err := g.Sum(&Delivery{Value: payload})
		if err != nil {
			return
		}
		again, err := g.Sum(&Delivery{Value: append([]byte(" \n\t"), payload...)})
		if err != nil || again != sum {
			t.Fatalf("spaces before make another digest: %v", err)
		}
		swapped, err := Fields(second, first).Sum(&Delivery{Value: payload})
		if err != nil || first != second && swapped == sum {
			t.Fatalf("another rule made the same digest: %v", err)
		}
	})
}

// FuzzJoin: different parts never make the same id.
func FuzzJoin(f *testing.F) {
	f.Add("a", "b", "ab", "c")
	f.Add("1:1", "1", "1", "1:1")
	join := Join(Header("x"), Header("y"))
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		id := func(x, y string) (string, error) {
			return join.text(&Delivery{Headers: []brokers.Header{{Key: "x", Value: []byte(x)}, {Key: "y", Value: []byte(y)}}})
		}
		first, err := id(a, b)
		if err != nil {
			return
		}
		second, err := id(c, d)
		if err == nil && first == second && (a != c || b != d) {
			t.Fatalf("%q, %q and %q, %q are both %q", a, b, c, d, first)
		}
	})
}

// FuzzHeaders: no header makes an own header visible.
func FuzzHeaders(f *testing.F) {
	f.Add("dl-id", "v", "DL-x")
	f.Fuzz(func(t *testing.T, first, content, second string) {
		var d Delivery
		d.fill(&brokers.Delivery{Lane: &brokers.Lane{}, Headers: []brokers.Header{{Key: first, Value: []byte(content)}, {Key: second}, {Key: first}}})
		for _, h := range d.Headers {
			if strings.HasPrefix(strings.ToLower(h.Key), "dl-") {
				t.Fatalf("%q is visible", h.Key)
			}
		}
		own := Header(first)
		if own.From == nil {
			return
		}
		if _, err := own.text(&d); err == nil && first != second {
			t.Fatal("a header that is there twice is an id")
		}
	})
}

func TestHostileInputIsRefusedInBoundedTimeAndMemory(t *testing.T) {
	manyHeaders := func(n int) []brokers.Header {
		headers := make([]brokers.Header, n)
		for i := range headers {
			headers[i] = brokers.Header{Key: strings.Repeat("h", i%300), Value: []byte("v")}
		}
		return headers
	}
	typed := JSON("s", func(o testOrder) string { return o.ID }, func(context.Context, testOrder) error { return nil })
	field := goodRoute("s")
	field.ID, field.Order, field.Fingerprint = Field("id"), Field("a.b"), Fields("id", "x")
	header := goodRoute("s")
	header.ID = Header("id")
	for name, r := range map[string]*Route{"typed": &typed, "field": &field, "header": &header} {
		r.check(new(faults), "")
		for what, d := range map[string]*Delivery{
			"10 MB of a string":    value(`{"id":"` + strings.Repeat("x", 10<<20) + `"}`),
			"2 MB of a number":     value(`{"id":` + strings.Repeat("1", 2<<20) + `}`),
			"2 MB of open arrays":  value(`{"id":` + strings.Repeat("[", 2<<20)),
			"2 MB of open objects": value(strings.Repeat(`{"id":`, 2<<20/6)),
			"2 MB of fields":       value(`{` + strings.Repeat(`"y":1,`, 2<<20/6) + `"z":1}`),
			"2 MB of garbage":      value(strings.Repeat("\xff\x00{", 2<<20/3)),
			"2 MB of escapes":      value(`{"` + strings.Repeat(`\u0069`, 2<<20/6) + `":1}`),
			"10,000 headers":       {Value: []byte("x"), Headers: manyHeaders(10_000)},
			"over the limit":       value(strings.Repeat(" ", MaxJSON+1)),
		} {
			began := time.Now()
			_, _, _, fault := r.resolve(d)
			if fault == nil {
				t.Errorf("%s: %s has a key", name, what)
				continue
			}
			// Generous for a loaded machine; what grows with the square of the
			// payload takes far longer.
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("%s: %s took %v", name, what, took)
			}
			if len(fault.Error()) > 4<<10 {
				t.Errorf("%s: the error about %s is %d bytes", name, what, len(fault.Error()))
			}
			if d.located != nil {
				t.Errorf("%s: %s is still being located", name, what)
			}
		}
	}
}

// Ten thousand different names make a decoder's set of names large; it must
// not make every following message slow or keep the memory.
func TestAPayloadOfManyNamesLeavesTheNextOnesAlone(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"id":"a"`)
	for i := range 200_000 {
		b.WriteString(`,"n`)
		b.WriteString(strings.Repeat("x", i%7))
		b.WriteString(time.Duration(i).String())
		b.WriteString(`":1`)
	}
	b.WriteString("}")
	small, large := value(benchPayload), value(b.String())
	e, big := Field("order_id"), Field("id")
	quickest := func() time.Duration {
		best := time.Hour
		for range 5 {
			began := time.Now()
			for range 1000 {
				if _, err := e.text(small); err != nil {
					t.Fatal(err)
				}
			}
			best = min(best, time.Since(began))
		}
		return best
	}
	before := quickest()
	if _, err := big.text(large); err != nil {
		t.Fatal(err)
	}
	if after := quickest(); after > 20*before {
		t.Errorf("1,000 small payloads took %v before, and %v afterwards", before, after)
	}
}
