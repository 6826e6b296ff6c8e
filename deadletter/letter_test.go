package deadletter

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/dedup"
)

// ownSize is what a letter's own headers weigh.
func ownSize(headers []brokers.Header) (size int) {
	for _, h := range headers {
		if IsOwnHeader(h.Key) {
			size += len(h.Key) + len(h.Value)
		}
	}
	return size
}

// worst is a letter whose every text is as long and as hostile as it can be.
func worst(r *rand.Rand) Letter {
	nasty := func(n int) string {
		alphabet := []string{"\x00", "\n", "\r", "\x1b[31m", "\"", "\\", "=", "<script>", "ä", "\u202e", "\U0001f600", "\xff", "\u2028", " ", "x"}
		var b strings.Builder
		for b.Len() < n {
			b.WriteString(alphabet[r.IntN(len(alphabet))])
		}
		return b.String()
	}
	id := strings.ToValidUTF8(nasty(2000), "")
	for len(id) > dedup.MaxID || !utf8.ValidString(id) {
		id = id[:len(id)-1]
	}
	return Letter{
		ID: strings.Repeat("f", 128), Consumer: strings.Repeat("c", 128), Reason: ReasonCrashLoop,
		Error: nasty(64 << 10), ErrorType: nasty(5000), Stack: nasty(100 << 10), Failures: 1 << 30, Crashes: 1 << 30,
		FirstFailed: at(1), LastFailed: at(2),
		Key: dedup.Key{Consumer: strings.Repeat("c", 128), Scope: strings.Repeat("ä", 64), ID: id},
		Run: 1<<32 - 1, Fingerprint: dedup.Fingerprint{Rule: 1<<32 - 1}, AppVersion: nasty(5000), Traceparent: nasty(5000),
		ReplayJob: nasty(5000), ReplayCount: 1 << 30,
		Source: Source{Topic: strings.Repeat("t", 255), Identity: nasty(500), Subject: nasty(2000), JetStream: true, Offset: 1<<63 - 1, Time: at(3)},
		Value:  []byte("payload"), BrokerKey: []byte("key"),
	}
}

func TestALettersOwnHeadersKeepToTheirBudget(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 30 {
		l := worst(r)
		o := Encode(l, "dlq")
		if size := ownSize(o.Headers); size > MaxHeaders {
			t.Fatalf("%d bytes of own headers", size)
		}
		if string(o.Value) != "payload" || string(o.Key) != "key" {
			t.Fatal("key or payload changed")
		}
		got, err := Decode(received(o))
		if err != nil {
			t.Fatal(err)
		}
		if got.Key != l.Key || got.Source != l.Source && len(l.Source.Identity) <= maxIdentity && len(l.Source.Subject) <= maxSubject {
			t.Fatalf("got %+v %+v, want %+v %+v", got.Key, got.Source, l.Key, l.Source)
		}
		for _, h := range o.Headers {
			if !utf8.Valid(h.Value) || bytes.ContainsAny(h.Value, "\x00\x1b\r\n") {
				t.Fatalf("%s is not one clean line: %q", h.Key, h.Value)
			}
		}
	}
}

func TestTheStackGoesBeforeTheMessageIsCut(t *testing.T) {
	l := samples()["decode-panic"]
	l.Error = strings.Repeat("message ", 127)
	l.Stack = strings.Repeat("main.f()\n", 400)
	find := func(o brokers.Outgoing, name string) string {
		for _, h := range o.Headers {
			if h.Key == name {
				return string(h.Value)
			}
		}
		return ""
	}
	o := Encode(l, "dlq")
	if find(o, hStack) == "" || len(find(o, hError)) < 1000 {
		t.Fatal("both fit and are not there")
	}
	l.Source.JetStream, l.Source.Subject, l.Source.Identity = true, strings.Repeat("s", 2048), strings.Repeat("i", 512)
	l.Key = dedup.Key{Consumer: "billing", Scope: strings.Repeat("s", 128), ID: strings.Repeat("i", 1024)}
	if o = Encode(l, "dlq"); find(o, hStack) != "" || len(find(o, hError)) < 1000 {
		t.Errorf("stack is %d bytes, message %d", len(find(o, hStack)), len(find(o, hError)))
	}
}

func TestALongStackOrMessageNeverLosesTheLetter(t *testing.T) {
	l := samples()["terminal"]
	l.Error = strings.Repeat("line one\nline two\n", 10_000)
	l.Stack = strings.Repeat("goroutine 1 [running]:\n\t/app/main.go:1\n", 3000)
	got, err := Decode(received(Encode(l, "dlq")))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(got.Error, "line one line two line one") || !strings.HasSuffix(got.Error, "…") || len(got.Error) > MaxError {
		t.Errorf("message is %d bytes: %.60q", len(got.Error), got.Error)
	}
	if !strings.HasPrefix(got.Stack, "goroutine 1 [running]:\n\t/app/main.go:1\n") || len(got.Stack) > MaxStack {
		t.Errorf("stack is %d bytes: %.60q", len(got.Stack), got.Stack)
	}
}

func TestForgedHeadersOfTheOriginalNeverReachTheLetter(t *testing.T) {
	l := samples()["terminal"]
	l.Headers = append(l.Headers, brokers.Header{Key: "dl-reason", Value: []byte("forged")}, brokers.Header{Key: "DL-ID", Value: []byte("forged")})
	seen := map[string]int{}
	for _, h := range Encode(l, "dlq").Headers {
		if IsOwnHeader(h.Key) {
			seen[strings.ToLower(h.Key)]++
		}
		if string(h.Value) == "forged" {
			t.Errorf("%s is forged", h.Key)
		}
	}
	for name, n := range seen {
		if n != 1 {
			t.Errorf("%s is there %d times", name, n)
		}
	}
}

func TestTwentyRoundsLeaveTheHeadersAsTheyWere(t *testing.T) {
	l := samples()["terminal"]
	var size int
	for round := range 20 {
		o := Encode(l, "dlq")
		n := 0
		traces := 0
		for _, h := range o.Headers {
			n += len(h.Key) + len(h.Value)
			if h.Key == "traceparent" {
				traces++
			}
		}
		if round == 0 {
			size = n
		}
		if n != size || traces != 1 {
			t.Fatalf("round %d: %d bytes of headers, %d at first; %d traceparents", round, n, size, traces)
		}
		// The broker hands the letter out; its message is sent back, fails
		// again and is written about again.
		read, err := Decode(received(o))
		if err != nil {
			t.Fatal(err)
		}
		replayed := &brokers.Delivery{Key: read.BrokerKey, Value: read.Value, Headers: append(read.Headers, brokers.Header{Key: "dl-replay-job", Value: []byte("j")})}
		l.BrokerKey, l.Value, l.Headers = replayed.Key, replayed.Value, replayed.Headers
	}
}

func TestAPointerSaysWhatItLeftOut(t *testing.T) {
	l := samples()["exhausted-jetstream"]
	l.Value = bytes.Repeat([]byte("v"), 1<<20)
	sum := sha256.Sum256(l.Value)
	l.Headers = []brokers.Header{{Key: "big", Value: make([]byte, 5<<10)}}
	l.BrokerKey = make([]byte, 2<<10)
	o := Pointer(l, "dlq")
	if o.Value == nil || len(o.Value) > 0 {
		t.Errorf("value %q: a nil value deletes in a compacted topic", o.Value)
	}
	total := len(o.Key)
	for _, h := range o.Headers {
		total += len(h.Key) + len(h.Value)
	}
	if total > MaxHeaders {
		t.Errorf("a pointer of %d bytes", total)
	}
	got, err := Decode(received(o))
	if err != nil {
		t.Fatal(err)
	}
	if !got.Pointer || got.Omitted() != "value headers key" || got.Value != nil || got.Size != 1<<20 || got.SHA256 != hex.EncodeToString(sum[:]) {
		t.Errorf("got %+v", got)
	}
	if got.Source != l.Source || got.Key != l.Key {
		t.Errorf("got %+v", got)
	}
	again, err := Decode(received(Pointer(got, "dlq")))
	if err != nil || again.SHA256 != got.SHA256 || again.Size != got.Size {
		t.Errorf("a pointer to a pointer: %+v, %v", again, err)
	}
}

func TestWhatIsNoLetterIsToldApart(t *testing.T) {
	letter := Encode(samples()["terminal"], "dlq").Headers
	with := func(name, value string) []brokers.Header {
		var headers []brokers.Header
		for _, h := range letter {
			if h.Key != name {
				headers = append(headers, h)
			}
		}
		if value != "" {
			headers = append(headers, brokers.Header{Key: name, Value: []byte(value)})
		}
		return headers
	}
	if _, err := Decode(&brokers.Delivery{}); !errors.Is(err, ErrNotLetter) {
		t.Errorf("got %v", err)
	}
	if _, err := Decode(&brokers.Delivery{Headers: with(hVersion, "")}); !errors.Is(err, ErrNotLetter) {
		t.Errorf("got %v", err)
	}
	for _, c := range []struct{ header, value string }{
		{hVersion, "2"},
		{hID, ""},
		{hID, strings.Repeat("x", 129)},
		{hConsumer, ""},
		{hConsumer, "\"a"},
		{hReason, ""},
		{hReason, "secret"},
		{hFailures, "-1"},
		{hFailures, "secret"},
		{hFailures, "99999999999"},
		{hFirstFailed, "secret"},
		{hLastFailed, "2026-03-01"},
		{hKey, ""},
		{hKey, strings.Repeat("s", 1025)},
		{hKey, "\"secret"},
		{hKey, "=!!"},
		{hKey, "\"plain\""},
		{hKey, "\x00"},
		{hKey, "\xff"},
		{hScope, "\"\\n\""},
		{hRun, "4294967296"},
		{hFingerprint, "1:secret"},
		{hFingerprint, "1:" + strings.Repeat("z", 64)},
		{hFingerprint, "0:" + strings.Repeat("0", 64)},
		{hTopic, ""},
		{hStream, "secret"},
		{hOffset, "9223372036854775808"},
		{hPartition, "2147483648"},
		{hTime, "secret"},
		{hError, "a\nb"},
		{hError, strings.Repeat("s", 1025)},
		{hStack, strings.Repeat("s", 9000)},
		{hPointer, "secret"},
	} {
		_, err := Decode(&brokers.Delivery{Headers: with(c.header, c.value)})
		if _, ok := errors.AsType[*FormatError](err); !ok {
			t.Errorf("%s=%.20q: got %v", c.header, c.value, err)
			continue
		}
		if strings.Contains(err.Error(), "secret") || len(err.Error()) > 256 {
			t.Errorf("the error shows a value, or is long: %v", err)
		}
	}
	for _, name := range []string{hID, "DL-Id"} {
		_, err := Decode(&brokers.Delivery{Headers: append(with("", ""), brokers.Header{Key: name, Value: []byte("x")})})
		if err == nil || !strings.Contains(err.Error(), "twice") {
			t.Errorf("a second %s: %v", name, err)
		}
	}
	if _, err := Decode(&brokers.Delivery{Headers: with("dl-of-a-later-version", "x")}); err != nil {
		t.Errorf("an unknown header: %v", err)
	}
}

func TestHeaderNamesMayBeInAnyCase(t *testing.T) {
	want := samples()["terminal"]
	d := received(Encode(want, "dlq"))
	for i := range d.Headers {
		if IsOwnHeader(d.Headers[i].Key) {
			d.Headers[i].Key = strings.ToUpper(d.Headers[i].Key)
		}
	}
	got, err := Decode(d)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestTenThousandHeadersAreReadInBoundedTime(t *testing.T) {
	l := samples()["terminal"]
	for range 10_000 {
		l.Headers = append(l.Headers, brokers.Header{Key: "h", Value: []byte("v")})
	}
	got, err := Decode(received(Encode(l, "dlq")))
	if err != nil || len(got.Headers) != len(l.Headers) {
		t.Fatalf("%d headers, %v", len(got.Headers), err)
	}
	d := &brokers.Delivery{Headers: []brokers.Header{{Key: hVersion, Value: []byte("1")}}}
	for range 10_000 {
		d.Headers = append(d.Headers, brokers.Header{Key: "dl-xx", Value: []byte("v")})
	}
	if _, err := Decode(d); err == nil {
		t.Error("forged")
	}
}

func TestIDsOfDifferentIncidentsDiffer(t *testing.T) {
	key := func(c, s, id string) dedup.Key { return dedup.Key{Consumer: c, Scope: s, ID: id} }
	fp := dedup.Fingerprint{Rule: 1}
	ids := []string{
		ID(key("a", "b", "c"), 1), ID(key("a", "b", "c"), 2), ID(key("ab", "", "c"), 1), ID(key("a", "bc", ""), 1), ID(key("", "ab", "c"), 1),
		ConflictID(key("a", "b", "c"), 1, fp), ConflictID(key("a", "b", "c"), 1, dedup.Fingerprint{Rule: 2}), ConflictID(key("a", "b", "c"), 2, fp),
		IDAt("a", "b", 1, 2, ReasonKey), IDAt("a", "b", 2, 1, ReasonKey), IDAt("ab", "", 1, 2, ReasonKey), IDAt("a", "b", 1, 2, ReasonDecode), IDAt("a", "c", 1, 2, ReasonKey),
	}
	seen := map[string]int{}
	for i, id := range ids {
		if other, twice := seen[id]; twice {
			t.Errorf("ids %d and %d are the same", other, i)
		}
		seen[id] = i
		if len(id) != 32 {
			t.Errorf("%q", id)
		}
	}
	// Letters and notes outlive releases: an id never changes.
	if got := ID(key("billing", "order.create", "ord-1"), 7); got != "167a48962261855c1090e98cacdb41af" {
		t.Errorf("got %s", got)
	}
}

func BenchmarkEncode(b *testing.B) {
	l := samples()["terminal"]
	b.ReportAllocs()
	for b.Loop() {
		Encode(l, "dlq")
	}
}

func BenchmarkDecode(b *testing.B) {
	d := received(Encode(samples()["terminal"], "dlq"))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(d); err != nil {
			b.Fatal(err)
		}
	}
}
