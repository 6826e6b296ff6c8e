package consumer

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
)

type testOrder struct {
	ID      string `json:"id"`
	Cents   int64  `json:"cents"`
	Nested  struct{ A, B string }
	Wait    time.Duration
	Ignored string `json:"-"`
}

func TestATypedRouteDecodesFindsTheIDAndRuns(t *testing.T) {
	var ran testOrder
	r := JSON("order.create", func(o testOrder) string { return o.ID }, func(_ context.Context, o testOrder) error {
		ran = o
		return nil
	})
	r.consumer = "billing"
	d := value(`{"id":"a","cents":9007199254740993,"Wait":5,"nested":{"a":"1"},"unknown":[1,2]}`)
	key, order, fp, fault := r.resolve(d)
	if fault != nil {
		t.Fatal(fault)
	}
	if key.ID != "a" || key.Scope != "order.create" || key.Consumer != "billing" || d.Key != key || order != "a" || fp.Rule != dedup.PayloadRule {
		t.Errorf("got %v, %q, %v", key, order, fp)
	}
	if result, err := r.Run(context.Background(), d); result != nil || err != nil {
		t.Errorf("got %q, %v", result, err)
	}
	if ran.ID != "a" || ran.Cents != 9007199254740993 || ran.Wait != 5 || ran.Nested.A != "1" {
		t.Errorf("ran with %+v", ran)
	}
	if _, ok := d.Decoded.(*testOrder); !ok {
		t.Errorf("decoded is a %T", d.Decoded)
	}
}

func TestWhatATypedRouteCannotReadIsALetter(t *testing.T) {
	r := JSON("order.create", func(o testOrder) string { return o.ID }, func(context.Context, testOrder) error { return nil })
	for _, c := range []struct {
		name, payload string
		reason        deadletter.Reason
		says          string
	}{
		{"garbage", "\x00secret", deadletter.ReasonDecode, "JSON"},
		{"breaks off", `{"id":"secret"`, deadletter.ReasonDecode, "JSON"},
		{"more behind", `{"id":"secret"}{}`, deadletter.ReasonDecode, "JSON"},
		{"empty", ``, deadletter.ReasonDecode, "empty"},
		{"array", `["secret"]`, deadletter.ReasonDecode, "the payload does not fit: an array into consumer.testOrder"},
		{"wrong type", `{"id":"a","cents":"secret"}`, deadletter.ReasonDecode, `field "/cents" does not fit: a string into int64`},
		{"out of range", `{"id":"a","cents":99999999999999999999}`, deadletter.ReasonDecode, `field "/cents" does not fit: a number into int64`},
		{"invalid UTF-8", "{\"id\":\"\xff\"}", deadletter.ReasonDecode, "UTF-8"},
		{"too deep", `{"id":"a","x":` + strings.Repeat("[", 20_000), deadletter.ReasonDecode, "depth"},
		{"twice", `{"id":"secret","id":"secret"}`, deadletter.ReasonKey, `field "/id" occurs twice`},
		{"twice in another case", `{"id":"secret","ID":"secret"}`, deadletter.ReasonKey, "occurs twice"},
		{"twice in what is ignored", `{"id":"a","x":{"y":1,"y":2}}`, deadletter.ReasonKey, "occurs twice"},
		{"no id", `{"cents":5,"secretless":1}`, deadletter.ReasonKey, `id of consumer.testOrder is empty; there are: "cents", "secretless"`},
		{"null", `null`, deadletter.ReasonKey, "is empty"},
		{"blank id", `{"id":"  "}`, deadletter.ReasonKey, "is blank"},
		{"oversized id", `{"id":"` + strings.Repeat("s", 1025) + `"}`, deadletter.ReasonKey, "1025 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, _, fault := r.resolve(value(c.payload))
			if fault == nil || fault.reason != c.reason || !strings.Contains(fault.Error(), c.says) {
				t.Fatalf("got %v, want a %s letter that says %q", fault, c.reason, c.says)
			}
			if text := fault.Error(); strings.Contains(text, "secret\"") || len(text) > 1024 {
				t.Errorf("the error shows a value, or is %d bytes: %.200s", len(text), text)
			}
		})
	}
}

func TestAResultIsKeptAsJSON(t *testing.T) {
	type receipt struct {
		No string `json:"no"`
	}
	r := JSONResult("order.pay", func(o testOrder) string { return o.ID }, func(_ context.Context, o testOrder) (receipt, error) {
		if o.Cents < 0 {
			return receipt{No: "half"}, errors.New("refused")
		}
		return receipt{No: "r-" + o.ID}, nil
	})
	run := func(payload string) (Result, error) {
		d := value(payload)
		if _, _, _, fault := r.resolve(d); fault != nil {
			t.Fatal(fault)
		}
		return r.Run(context.Background(), d)
	}
	if result, err := run(`{"id":"a"}`); string(result) != `{"no":"r-a"}` || err != nil {
		t.Errorf("got %s, %v", result, err)
	}
	if result, err := run(`{"id":"a","cents":-1}`); result != nil || err == nil {
		t.Errorf("got %s, %v", result, err)
	}
}

func TestAResultThatCannotBeWrittenIsInDoubt(t *testing.T) {
	r := JSONResult("s", func(o testOrder) string { return o.ID }, func(context.Context, testOrder) (float64, error) { return math.NaN(), nil })
	d := value(`{"id":"a"}`)
	r.resolve(d)
	_, err := r.Run(context.Background(), d)
	if class, _ := outcomeOf(err, ClassifyDefault); class != ClassInDoubt {
		t.Errorf("got %v: %v", class, err)
	}
}

type panickyResult struct{}

func (panickyResult) MarshalJSON() ([]byte, error) { panic("no receipt") }

func TestAResultThatPanicsIsInDoubtAndNoFailure(t *testing.T) {
	r := JSONResult("s", func(o testOrder) string { return o.ID }, func(context.Context, testOrder) (panickyResult, error) { return panickyResult{}, nil })
	d := value(`{"id":"a"}`)
	r.resolve(d)
	_, err := r.Run(t.Context(), d)
	if class, _ := outcomeOf(err, ClassifyDefault); class != ClassInDoubt || !strings.Contains(err.Error(), "no receipt") {
		t.Errorf("%v: %v", class, err)
	}
}

func TestAnyDecoderTakesThePlaceOfJSON(t *testing.T) {
	type pair struct{ id, text string }
	decode := func(b []byte) (*pair, error) {
		id, text, ok := strings.Cut(string(b), "|")
		if !ok {
			return nil, errors.New("no bar")
		}
		return &pair{id, text}, nil
	}
	var ran string
	r := DecodedResult("s", decode, func(p *pair) string { return p.id }, func(_ context.Context, p *pair) (string, error) {
		ran = p.text
		return "done", nil
	})
	d := value("a|hello")
	key, _, _, fault := r.resolve(d)
	if fault != nil || key.ID != "a" {
		t.Fatalf("got %v, %v", key, fault)
	}
	if result, err := r.Run(context.Background(), d); ran != "hello" || string(result) != `"done"` || err != nil {
		t.Errorf("got %s, %v, ran with %q", result, err, ran)
	}
	if _, _, _, fault = r.resolve(value("nothing")); fault == nil || fault.reason != deadletter.ReasonDecode {
		t.Errorf("got %v", fault)
	}
	if _, _, _, fault = r.resolve(value("|x")); fault == nil || fault.reason != deadletter.ReasonKey {
		t.Errorf("got %v", fault)
	}
	plain := Decoded[*pair]("s", nil, func(p *pair) string { return p.id }, nil)
	if _, _, _, fault = plain.resolve(d); fault == nil || fault.reason != deadletter.ReasonDecode {
		t.Errorf("got %v", fault)
	}
}

func TestAnExchangedDecoderOfAnotherTypeIsTold(t *testing.T) {
	r := JSON("s", func(o testOrder) string { return o.ID }, func(context.Context, testOrder) error { return nil })
	r.Decode = func(*Delivery) (any, error) { return 7, nil }
	if _, _, _, fault := r.resolve(value("x")); fault == nil || !strings.Contains(fault.Error(), "gave a int") {
		t.Errorf("got %v", fault)
	}
	r.ID = BrokerKey()
	d := &Delivery{BrokerKey: []byte("k"), Value: []byte("x")}
	if _, _, _, fault := r.resolve(d); fault != nil {
		t.Fatal(fault)
	}
	_, err := r.Run(context.Background(), d)
	if class, _ := outcomeOf(err, ClassifyDefault); class != ClassTerminal {
		t.Errorf("got %v: %v", class, err)
	}
}
