package deadletter

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/dedup"
)

var update = flag.Bool("update", false, "write the golden letters anew; never over those of a release")

const golden = "../testdata/wire/letters"

func at(second int) time.Time { return time.Date(2026, 3, 1, 10, 0, second, 123456000, time.UTC) }

// samples are letters as they come back from Decode.
func samples() map[string]Letter {
	key := dedup.Key{Consumer: "billing", Scope: "order.create", ID: "ord-1"}
	fp := dedup.Fingerprint{Rule: 1, Sum: [32]byte{0xab, 31: 0xcd}}
	kafka := Source{Topic: "orders", Identity: "orders@k3Jq", Partition: 3, Offset: 4711, Time: at(0)}
	jetstream := Source{Topic: "ORDERS", Identity: "ORDERS@2026-01-01T00:00:00Z", Subject: "orders.eu.created", Offset: 42, JetStream: true, Time: at(0)}
	hostile := dedup.Key{Consumer: "billing", Scope: "order.create", ID: "\"quoted\"\r\ndl-id: forged\x00\u202e ä "}
	return map[string]Letter{
		"terminal": {
			ID: ID(key, 7), Consumer: "billing", Reason: ReasonTerminal, Error: "card refused", ErrorType: "*billing.RefusedError",
			Key: key, Run: 1, Fingerprint: fp, Source: kafka, AppVersion: "v1.4.0",
			BrokerKey: []byte("ord-1"), Value: []byte(`{"order_id":"ord-1"}`),
			Headers: []brokers.Header{
				{Key: "traceparent", Value: []byte("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")},
				{Key: "x", Value: []byte{0, 0xff}}, {Key: "x", Value: nil}, {Key: "", Value: []byte{}},
			},
			Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		},
		"exhausted-jetstream": {
			ID: ID(key, 9), Consumer: "billing", Reason: ReasonExhausted, Error: "connection refused", ErrorType: "*net.OpError",
			Failures: 10, FirstFailed: at(1), LastFailed: at(59), Key: key, Run: 2, Fingerprint: fp, Source: jetstream,
			ReplayJob: "job-2026-03-01", ReplayCount: 1, Value: []byte(`{}`),
		},
		"crash-loop": {
			ID: ID(key, 8), Consumer: "billing", Reason: ReasonCrashLoop, Crashes: 3, Key: key, Run: 1, Fingerprint: fp, Source: jetstream, Value: []byte("x"),
		},
		"decode-panic": {
			ID: IDAt("billing", kafka.Identity, 3, 4711, ReasonDecode), Consumer: "billing", Reason: ReasonDecode, Error: "decode: panic: boom", ErrorType: "panic(string)",
			Stack: "goroutine 1 [running]:\nmain.decode(0x1)\n\t/app/main.go:17 +0x1d \\ end", Source: kafka,
			BrokerKey: []byte{}, Value: []byte{0xff, 0xfe},
		},
		"key-tombstone": {
			ID: IDAt("billing", kafka.Identity, 3, 4711, ReasonKey), Consumer: "billing", Reason: ReasonKey, Error: `id: field "order_id" is missing; there are: none`,
			Source: kafka, BrokerKey: []byte("k"), Value: nil,
		},
		"conflict": {
			ID: ConflictID(key, 7, fp), Consumer: "billing", Reason: ReasonConflict, Key: key, Run: 1, Fingerprint: fp, Source: kafka, Value: []byte{},
		},
		"too-old": {
			ID: IDAt("billing", kafka.Identity, 3, 4711, ReasonTooOld), Consumer: "billing", Reason: ReasonTooOld, Key: key, Fingerprint: fp, Source: kafka, Value: []byte("x"),
		},
		"in-doubt-hostile-key": {
			ID: ID(hostile, 7), Consumer: "billing", Reason: ReasonInDoubt, Key: hostile, Run: 1, Fingerprint: fp, Source: kafka, Value: []byte("x"),
		},
	}
}

// dump is a message as a person can read it and undump can read it back.
func dump(o brokers.Outgoing) string {
	var b strings.Builder
	bytesOrNil := func(v []byte) string {
		if v == nil {
			return "nil"
		}
		return strconv.Quote(string(v))
	}
	fmt.Fprintf(&b, "key %s\nvalue %s\n", bytesOrNil(o.Key), bytesOrNil(o.Value))
	for _, h := range o.Headers {
		fmt.Fprintf(&b, "header %q %s\n", h.Key, bytesOrNil(h.Value))
	}
	return b.String()
}

func undump(t *testing.T, text string) *brokers.Delivery {
	t.Helper()
	unquote := func(s string) []byte {
		if s == "nil" {
			return nil
		}
		u, err := strconv.Unquote(s)
		if err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		return []byte(u)
	}
	d := &brokers.Delivery{}
	for l := range strings.Lines(text) {
		kind, rest, _ := strings.Cut(strings.TrimSuffix(l, "\n"), " ")
		switch kind {
		case "key":
			d.Key = unquote(rest)
		case "value":
			d.Value = unquote(rest)
		case "header":
			name, err := strconv.QuotedPrefix(rest)
			if err != nil {
				t.Fatal(err)
			}
			d.Headers = append(d.Headers, brokers.Header{Key: string(unquote(name)), Value: unquote(rest[len(name)+1:])})
		}
	}
	return d
}

func received(o brokers.Outgoing) *brokers.Delivery {
	return &brokers.Delivery{Key: o.Key, Value: o.Value, Headers: o.Headers}
}

func TestLettersOfEveryReleaseCanBeRead(t *testing.T) {
	letters := samples()
	big := letters["terminal"]
	big.Value = bytes.Repeat([]byte("x"), 2<<20)
	for name, l := range letters {
		t.Run(name, func(t *testing.T) { checkGolden(t, name, Encode(l, "dlq"), l) })
	}
	t.Run("pointer", func(t *testing.T) {
		want := big
		want.Value, want.Pointer, want.Size, want.omitted = nil, true, 2<<20, "value"
		want.SHA256 = "6932fd31e5daf4739b9fa78ff777b2831b0995cc1d0b0093cac80601902013bc"
		checkGolden(t, "pointer", Pointer(big, "dlq"), want)
	})
	files, err := filepath.Glob(golden + "/*.txt")
	if err != nil || len(files) != len(letters)+1 {
		t.Errorf("%d golden letters, want %d: %v", len(files), len(letters)+1, err)
	}
}

func checkGolden(t *testing.T, name string, o brokers.Outgoing, want Letter) {
	file := filepath.Join(golden, name+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(dump(o)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != dump(o) {
		t.Errorf("written now:\n%swritten before:\n%s", dump(o), text)
	}
	got, err := Decode(undump(t, string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read:\n%+v\nwant:\n%+v", got, want)
	}
}
