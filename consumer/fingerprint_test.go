package consumer

import (
	"crypto/sha256"
	"strings"
	"testing"

	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
)

func printOf(t *testing.T, g Digest, payload string) dedup.Fingerprint {
	t.Helper()
	r := goodRoute("s")
	r.ID, r.Fingerprint = Field("id"), g
	r.check(new(faults), "")
	_, _, fp, fault := r.resolve(value(payload))
	if fault != nil {
		t.Fatalf("%s: %v", payload, fault)
	}
	return fp
}

func faultOf(r Route, d *Delivery) *keyError {
	_, _, _, fault := r.resolve(d) //nolint:dogsled // only the fault is of interest
	return fault
}

func TestTheDefaultFingerprintIsOfTheRawValue(t *testing.T) {
	a, b := `{"id":"a","x":1}`, `{"x":1,"id":"a"}`
	fp := printOf(t, Digest{}, a)
	if fp.Sum != sha256.Sum256([]byte(a)) || fp.Rule != 1 {
		t.Errorf("got %v", fp)
	}
	if printOf(t, Digest{}, b) == fp {
		t.Error("another order of fields is the same raw value")
	}
}

func TestFieldsAreTheSameInAnyFormOfTheSameContent(t *testing.T) {
	g := Fields("id", "cents", "lines", "a.b")
	base := printOf(t, g, `{"id":"ä","cents":1299,"lines":[{"sku":"x","n":1}],"a":{"b":null,"c":1},"trace":"1"}`)
	for _, same := range []string{
		`{"trace":"2","a":{"c":2,"b":null},"lines":[{"n":1,"sku":"x"}],"cents":1299,"id":"ä"}`,
		"{\n \"id\" : \"\\u00e4\", \"cents\":1299 , \"lines\": [ {\"sku\":\"\\u0078\",\"n\":1} ],\"a\":{\"b\":null}}",
	} {
		if printOf(t, g, same) != base {
			t.Errorf("%s differs", same)
		}
	}
	for _, other := range []string{
		`{"id":"b","cents":1299,"lines":[{"sku":"x","n":1}],"a":{"b":null}}`,
		`{"id":"ä","cents":1299.0,"lines":[{"sku":"x","n":1}],"a":{"b":null}}`,
		`{"id":"ä","cents":"1299","lines":[{"sku":"x","n":1}],"a":{"b":null}}`,
		`{"id":"ä","cents":1299,"lines":[{"sku":"x","n":1}]}`,
		`{"id":"ä","cents":1299,"lines":[{"sku":"x","n":1}],"a":{}}`,
		`{"id":"ä","cents":1299,"lines":[{"sku":"x","n":1},{}],"a":{"b":null}}`,
		`{"id":"ä","cents":1299,"lines":{"sku":"x","n":1},"a":{"b":null}}`,
	} {
		if printOf(t, g, other).Sum == base.Sum {
			t.Errorf("%s is the same", other)
		}
	}
}

func TestLargeNumbersAreNotTheSame(t *testing.T) {
	g := Fields("n")
	if printOf(t, g, `{"id":"a","n":9007199254740993}`) == printOf(t, g, `{"id":"a","n":9007199254740992}`) {
		t.Error("two amounts have one fingerprint")
	}
}

func TestARuleNamesItsFields(t *testing.T) {
	rules := map[uint32]string{dedup.PayloadRule: "raw"}
	for _, g := range []Digest{Fields("id"), Fields("id", "n"), Fields("n", "id"), {Rule: "mine", Sum: func(*Delivery) (s [32]byte, err error) { return s, nil }}} {
		rule := printOf(t, g, `{"id":"a","n":1}`).Rule
		if other, twice := rules[rule]; twice || rule < 1<<31 {
			t.Errorf("%s and %s share number %d", g.Rule, other, rule)
		}
		rules[rule] = g.Rule
	}
	// Numbers are kept with records: they never change.
	if got := ruleNumber("fields/1(order_id, cents)"); got != 3208199623 {
		t.Errorf("got %d", got)
	}
}

func TestFieldsThatAreAllMissingAreNoFingerprint(t *testing.T) {
	r := goodRoute("s")
	r.ID, r.Fingerprint = Field("id"), Fields("order_id", "cents")
	r.check(new(faults), "")
	fault := faultOf(r, value(`{"id":"a","x":"secret"}`))
	if fault == nil || fault.reason != deadletter.ReasonKey || !strings.Contains(fault.Error(), `"order_id", "cents"`) || strings.Contains(fault.Error(), "secret") {
		t.Errorf("got %v", fault)
	}
}

func TestOverlappingPathsAreAllFound(t *testing.T) {
	payload := []byte(`{"a":{"b":{"c":1},"d":"x"},"a.b":2,"e":[{"a":1}]}`)
	var paths []path
	for _, text := range []string{"a", "a.b", "a.b.c", "a.d", `a\.b`, "e", "e.a", "a.x"} {
		p, err := parsePath(text)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, p)
	}
	found := make([][]byte, len(paths))
	if err := lookup(payload, paths, found); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{`{"b":{"c":1},"d":"x"}`, `{"c":1}`, `1`, `"x"`, `2`, `[{"a":1}]`, "", ""} {
		if string(found[i]) != want {
			t.Errorf("%s: got %q, want %q", paths[i].text, found[i], want)
		}
	}
}

func TestAnExtractorWithinAnotherOneFindsItsField(t *testing.T) {
	// The route knows of two fields; the user's own extractor asks for a third.
	r := goodRoute("s")
	inner := Field("c")
	r.ID, r.Order = Field("a"), Extract{Rule: "own", From: func(d *Delivery) (string, error) { return inner.From(d) }}
	r.Fingerprint = Fields("a", "b")
	r.check(new(faults), "")
	d := value(`{"a":"1","b":"2","c":"3"}`)
	key, order, _, fault := r.resolve(d)
	if fault != nil || key.ID != "1" || order != "3" || d.located != nil {
		t.Errorf("got %v, %q, %v", key, order, fault)
	}
}
