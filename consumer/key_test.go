package consumer

import (
	"strings"
	"testing"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/deadletter"
)

func value(payload string) *Delivery { return &Delivery{Value: []byte(payload)} }

func TestAFieldIsTheTextOfAStringOrNumber(t *testing.T) {
	for _, c := range []struct{ name, field, payload, want string }{
		{"string", "id", `{"id":"ord-1"}`, "ord-1"},
		{"number", "id", `{"id":42}`, "42"},
		{"number as string is the same id", "id", `{"id":"42"}`, "42"},
		{"number beyond 2^53 stays itself", "id", `{"id":9007199254740993}`, "9007199254740993"},
		{"number by its text", "id", `{"id":42.0}`, "42.0"},
		{"negative exponent", "id", `{"id":-1.5E+10}`, "-1.5E+10"},
		{"nested", "invoice.no", `{"x":{"no":"wrong"},"invoice":{"a":[1,{"no":"wrong"}],"no":"right"}}`, "right"},
		{"dot in a name", `invoice\.no`, `{"invoice":{"no":"wrong"},"invoice.no":"right"}`, "right"},
		{"backslash in a name", `a\\b`, `{"a\\b":"right"}`, "right"},
		{"escaped name", "id", `{"\u0069d":"right"}`, "right"},
		{"escaped value", "id", `{"id":"a\u00e4\n\"b"}`, "aä\n\"b"},
		{"spaces", "id", " {\n\t\"id\" : \"a\" } \n", "a"},
		{"space inside", "id", `{"id":" a "}`, " a "},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := Field(c.field)
			got, err := e.text(value(c.payload))
			if err != nil || got != c.want {
				t.Fatalf("got %q, %v; want %q", got, err, c.want)
			}
		})
	}
}

func TestWhatIsNoIDIsRefusedWithThePathAndTheFieldsThatWereThere(t *testing.T) {
	var many strings.Builder
	many.WriteString("{")
	for i := range 100 {
		many.WriteString(`"` + strings.Repeat("n", 300) + string(rune('0'+i%10)) + strings.Repeat("x", i) + `":1,`)
	}
	many.WriteString(`"z":1}`)
	for _, c := range []struct {
		name, payload string
		reason        deadletter.Reason
		says          []string
	}{
		{"missing", `{"a":"secret","b":{"id":1}}`, deadletter.ReasonKey, []string{`"id"`, "missing", `"a", "b"`}},
		{"null", `{"id":null}`, deadletter.ReasonKey, []string{`"id"`, "null"}},
		{"boolean", `{"id":true,"a":1}`, deadletter.ReasonKey, []string{`"id"`, "boolean", `"a"`}},
		{"object", `{"id":{"a":"secret"}}`, deadletter.ReasonKey, []string{`"id"`, "object"}},
		{"array", `{"id":["secret"]}`, deadletter.ReasonKey, []string{`"id"`, "array"}},
		{"empty", `{"id":""}`, deadletter.ReasonKey, []string{"field id", "empty"}},
		{"blank", `{"id":" \t\u00a0"}`, deadletter.ReasonKey, []string{"field id", "blank"}},
		{"oversized", `{"id":"` + strings.Repeat("s", 1025) + `"}`, deadletter.ReasonKey, []string{"1025 bytes", "1024"}},
		{"oversized number", `{"id":` + strings.Repeat("1", 1025) + `}`, deadletter.ReasonKey, []string{"1025 bytes"}},
		{"twice", `{"id":"secret","id":"secret"}`, deadletter.ReasonKey, []string{"id", "twice"}},
		{"twice by an escape", `{"id":"secret","\u0069d":"secret"}`, deadletter.ReasonKey, []string{"id", "twice"}},
		{"twice elsewhere", `{"id":"a","b":{"c":1,"c":2}}`, deadletter.ReasonKey, []string{"c", "twice"}},
		{"no object", `["id"]`, deadletter.ReasonKey, []string{"array"}},
		{"no names", `{}`, deadletter.ReasonKey, []string{"missing", "none"}},
		{"many long names", many.String(), deadletter.ReasonKey, []string{"missing", "…"}},
		{"garbage", `{"id":"secret`, deadletter.ReasonDecode, []string{"JSON"}},
		{"not JSON", "\x00\x01secret", deadletter.ReasonDecode, []string{"JSON"}},
		{"breaks off behind the field", `{"id":"secret","a":`, deadletter.ReasonDecode, []string{"JSON"}},
		{"more behind", `{"id":"secret"} {}`, deadletter.ReasonDecode, []string{"JSON", "more"}},
		{"invalid UTF-8", "{\"id\":\"secret\xff\"}", deadletter.ReasonDecode, []string{"UTF-8"}},
		{"half a surrogate", `{"id":"secret\ud800"}`, deadletter.ReasonDecode, []string{"JSON"}},
		{"blank payload", "  \n", deadletter.ReasonDecode, []string{"JSON"}},
		{"empty payload", "", deadletter.ReasonDecode, []string{"empty"}},
		{"too deep", `{"a":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `,"id":"a"}`, deadletter.ReasonDecode, []string{"depth"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Route{Scope: "s", consumer: "c", ID: Field("id")}
			d := value(c.payload)
			key, _, _, err := r.resolve(d)
			if err == nil {
				t.Fatalf("got key %v", key)
			}
			if err.reason != c.reason {
				t.Errorf("reason %q, want %q: %v", err.reason, c.reason, err)
			}
			for _, s := range c.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%q does not say %q", err, s)
				}
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("%q shows a value", err)
			}
			if len(err.Error()) > 2<<10 {
				t.Errorf("the error is %d bytes long", len(err.Error()))
			}
		})
	}
}

func TestATombstoneIsNoJSON(t *testing.T) {
	for _, r := range []Route{
		{Scope: "s", consumer: "c", ID: Field("id")},
		JSON("s", func(struct{}) string { return "a" }, nil),
	} {
		_, _, _, err := r.resolve(&Delivery{})
		if err == nil || err.reason != deadletter.ReasonDecode || !strings.Contains(err.Error(), "tombstone") {
			t.Fatalf("got %v", err)
		}
	}
}

func TestATombstoneWithABrokerKeyHasAKey(t *testing.T) {
	r := Route{Scope: "s", consumer: "c", ID: BrokerKey()}
	key, _, _, err := r.resolve(&Delivery{BrokerKey: []byte("k")})
	if err != nil || key.ID != "k" {
		t.Fatalf("got %v, %v", key, err)
	}
}

func TestJoinedPartsNeverCollide(t *testing.T) {
	join := Join(Header("a"), Header("b"))
	id := func(a, b string) string {
		d := &Delivery{Headers: []brokers.Header{{Key: "a", Value: []byte(a)}, {Key: "b", Value: []byte(b)}}}
		text, err := join.text(d)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	if got := id("acme", "2024/17"); got != "4:acme,7:2024/17" {
		t.Errorf("got %q", got)
	}
	seen := map[string]string{}
	parts := []string{"1", "11", "1:1", "1,1", "1:1,1", ",", ":", "1:1,1:1", "3:1:1,1:1"}
	for _, a := range parts {
		for _, b := range parts {
			if other, twice := seen[id(a, b)]; twice {
				t.Errorf("%q and %q collide with %s", a, b, other)
			}
			seen[id(a, b)] = a + " and " + b
		}
	}
}

func TestAJoinNamesThePartThatIsMissing(t *testing.T) {
	e := Join(Header("tenant"), Field("invoice.no"))
	if e.Rule != "join(header tenant, field invoice.no)" {
		t.Errorf("rule %q", e.Rule)
	}
	_, err := e.text(value(`{"invoice":{"no":"1"}}`))
	if err == nil || !strings.Contains(err.Error(), `"tenant" is missing`) {
		t.Errorf("got %v", err)
	}
	_, err = e.text(&Delivery{Value: []byte(`{"invoice":{"no":""}}`), Headers: []brokers.Header{{Key: "tenant", Value: []byte("a")}}})
	if err == nil || !strings.Contains(err.Error(), "invoice.no is empty") {
		t.Errorf("got %v", err)
	}
}

func TestAHeaderIsAnIDOnlyWhenItIsThereOnce(t *testing.T) {
	h := func(pairs ...string) *Delivery {
		d := &Delivery{}
		for i := 0; i < len(pairs); i += 2 {
			d.Headers = append(d.Headers, brokers.Header{Key: pairs[i], Value: []byte(pairs[i+1])})
		}
		return d
	}
	e := Header("id")
	if got, err := e.text(h("x", "1", "id", "a")); err != nil || got != "a" {
		t.Errorf("got %q, %v", got, err)
	}
	for _, d := range []*Delivery{h(), h("ID", "a"), h("id", ""), h("id", "a", "id", "a"), h("id", "\xff"), {Headers: []brokers.Header{{Key: "id"}}}} {
		if got, err := e.text(d); err == nil {
			t.Errorf("%v: got %q", d.Headers, got)
		}
	}
	_, err := e.text(h("ID", "secret"))
	if !strings.Contains(err.Error(), `"ID"`) || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
}

func TestABrokerKeyMustBeThereAndBeText(t *testing.T) {
	e := BrokerKey()
	for _, key := range [][]byte{nil, {}, {0xff}} {
		if got, err := e.text(&Delivery{BrokerKey: key}); err == nil {
			t.Errorf("%q: got %q", key, got)
		}
	}
}

func TestOwnHeadersAreRemovedInAnyCase(t *testing.T) {
	from := &brokers.Delivery{Lane: &brokers.Lane{Topic: "t", Partition: 3}, Offset: 7, Headers: []brokers.Header{
		{Key: "a", Value: []byte("1")}, {Key: "dl-reason"}, {Key: "DL-Key"}, {Key: "a", Value: []byte("2")}, {Key: "Dl-"}, {Key: "dlx"}, {Key: "d"},
	}}
	var d Delivery
	d.fill(from)
	var names []string
	for _, h := range d.Headers {
		names = append(names, h.Key+string(h.Value))
	}
	if got := strings.Join(names, " "); got != "a1 a2 dlx d" {
		t.Errorf("left %q", got)
	}
	if len(from.Headers) != 7 {
		t.Error("the delivery's own headers were changed")
	}
	from.Headers = from.Headers[:1]
	if n := testing.AllocsPerRun(100, func() { d.fill(from) }); n != 0 {
		t.Errorf("%v allocations without own headers", n)
	}
}

func TestTheOrderIsTheBrokersKeyElseTheID(t *testing.T) {
	r := Route{Scope: "s", consumer: "c", ID: Field("id")}
	d := value(`{"id":"a","customer":"k"}`)
	if _, order, _, _ := r.resolve(d); order != "a" {
		t.Errorf("got %q", order)
	}
	d.BrokerKey = []byte("b")
	if _, order, _, _ := r.resolve(d); order != "b" {
		t.Errorf("got %q", order)
	}
	r.Order = Field("customer")
	if _, order, _, _ := r.resolve(d); order != "k" {
		t.Errorf("got %q", order)
	}
	r.Order = Field("nothing")
	if _, _, _, err := r.resolve(d); err == nil || err.reason != deadletter.ReasonKey {
		t.Errorf("got %v", err)
	}
}

func TestTheFirstRouteThatMatchesWins(t *testing.T) {
	routes := []Route{
		{Scope: "a", Match: HeaderIs("type", "a")},
		{Scope: "b", Match: SubjectIs("orders.*.paid")},
		{Scope: "c", Match: TopicIs("x", "y")},
	}
	typed := func(v string) []brokers.Header { return []brokers.Header{{Key: "type", Value: []byte(v)}} }
	for _, c := range []struct {
		d    Delivery
		want string
	}{
		{Delivery{Headers: typed("a"), Subject: "orders.1.paid"}, "a"},
		{Delivery{Headers: typed("b"), Subject: "orders.1.paid"}, "b"},
		{Delivery{Topic: "y"}, "c"},
		{Delivery{Topic: "z", Headers: typed("secret")}, ""},
	} {
		r, err := selectRoute(routes, &c.d)
		switch {
		case c.want == "" && (err == nil || err.reason != deadletter.ReasonKey || strings.Contains(err.Error(), "secret")):
			t.Errorf("got %v, %v", r, err)
		case c.want != "" && (err != nil || r.Scope != c.want):
			t.Errorf("got %v, %v; want %s", r, err, c.want)
		}
	}
}

func TestSubjectsMatchAsInNATS(t *testing.T) {
	for _, c := range []struct {
		pattern, subject string
		want             bool
	}{
		{"a.b", "a.b", true},
		{"a.b", "a", false},
		{"a.b", "a.b.c", false},
		{"a.*", "a.b", true},
		{"a.*", "a", false},
		{"a.*", "a.b.c", false},
		{"*.b", "a.b", true},
		{"a.>", "a.b.c", true},
		{"a.>", "a", false},
		{">", "a", true},
		{">", "", false},
		{"a.*.c", "a.b.c", true},
		{"a.*.c", "a..c", false},
	} {
		if got := SubjectIs(c.pattern).Is(&Delivery{Subject: c.subject}); got != c.want {
			t.Errorf("%q over %q: %v", c.pattern, c.subject, got)
		}
	}
}

func TestAPanicOfAUsersFunctionIsALetterWithItsStack(t *testing.T) {
	panics := func(*Delivery) (string, error) { panic("boom") }
	for _, c := range []struct {
		name   string
		r      Route
		reason deadletter.Reason
	}{
		{"decode", Route{Decode: func(*Delivery) (any, error) { panic("boom") }, ID: BrokerKey()}, deadletter.ReasonDecode},
		{"id", Route{ID: Extract{From: panics}}, deadletter.ReasonKey},
		{"order", Route{ID: BrokerKey(), Order: Extract{From: panics}}, deadletter.ReasonKey},
		{"fingerprint", Route{ID: BrokerKey(), Fingerprint: Digest{Rule: "r", Sum: func(*Delivery) ([32]byte, error) { panic("boom") }}}, deadletter.ReasonKey},
	} {
		_, _, _, err := c.r.resolve(&Delivery{BrokerKey: []byte("k")})
		if err == nil || err.reason != c.reason || !strings.Contains(err.Error(), c.name+": panic: boom") || len(err.stack) == 0 {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
	_, err := selectRoute([]Route{{Scope: "s", Match: Match{Is: func(*Delivery) bool { panic("boom") }}}}, &Delivery{})
	if err == nil || err.reason != deadletter.ReasonKey || len(err.stack) == 0 {
		t.Errorf("match: got %v", err)
	}
}
