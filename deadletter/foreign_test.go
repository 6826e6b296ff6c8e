package deadletter

import (
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/dedup"
)

const foreignGolden = "../testdata/wire/foreign"

// foreignMessage is a message of a dead-letter topic as others have written it.
func foreignMessage(t *testing.T, name string) *brokers.Delivery {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(foreignGolden, name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	d := undump(t, string(text))
	d.Lane, d.Offset, d.Time = &brokers.Lane{Topic: "orders.dlt", Source: "orders.dlt@1", Partition: 2}, 12, at(30)
	return d
}

func header(name, value string) brokers.Header {
	return brokers.Header{Key: name, Value: []byte(value)}
}

// foreignLetters are what those messages say.
func foreignLetters() map[string]Letter {
	kafka := Source{Topic: "orders", Partition: 3, Offset: 4711, Time: at(0).Truncate(1e9)}
	own := kafka
	own.Time = at(30)
	trace := "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	return map[string]Letter{
		"spring": {
			Error:     "Listener method could not be invoked; nested exception is com.example.CardRefusedException: card 4711 refused",
			ErrorType: "com.example.CardRefusedException", LastFailed: at(30), Source: kafka, Traceparent: trace,
			Stack:   "com.example.CardRefusedException: card 4711 refused\n\tat com.example.Orders.on(Orders.java:17)",
			Headers: []brokers.Header{header("traceparent", trace), header("__TypeId__", "com.example.Order")},
		},
		"spring-retryable": {
			Error: "last", ErrorType: "java.lang.IllegalStateException", Failures: 4, LastFailed: at(30),
			Source: Source{Topic: "orders", Offset: 42, Time: kafka.Time}, Headers: []brokers.Header{header("kafka_offset", "theirs")},
		},
		"spring-broken": {Error: "\ufffd\ufffd [31mred", LastFailed: at(30), Source: Source{Time: at(30)}},
		"watermill": {
			Error: "card refused", LastFailed: at(30), Source: Source{Topic: "orders", Time: at(30)},
			Headers: []brokers.Header{header("_watermill_message_uuid", "5c1f0b5e-3f1a-4c3f-9a57-1a2b3c4d5e6f"), header("correlation_id", "c-1")},
		},
		"connect": {
			Error:     "Converting byte[] to Kafka Connect data failed due to serialization error:",
			ErrorType: "org.apache.kafka.connect.errors.DataException", Source: own, Headers: []brokers.Header{header("source", "shop")},
			Stack: "org.apache.kafka.connect.errors.DataException: Converting byte[]\n" +
				"\tat org.apache.kafka.connect.json.JsonConverter.toConnectData(JsonConverter.java:333)",
		},
		"streams": {
			Error: "total is negative", ErrorType: "java.lang.RuntimeException", Source: own,
			Stack: "java.lang.RuntimeException: total is negative\n\tat com.example.Totals.apply(Totals.java:9)",
		},
		"bare": {Source: Source{Time: at(30)}, Headers: []brokers.Header{header("x", "\x00\xff"), {Key: "x"}}},
	}
}

func TestLettersOfOthersCanBeRead(t *testing.T) {
	letters := foreignLetters()
	files, err := filepath.Glob(foreignGolden + "/*.txt")
	if err != nil || len(files) != len(letters) {
		t.Errorf("%d golden messages, want %d: %v", len(files), len(letters), err)
	}
	for name, want := range letters {
		t.Run(name, func(t *testing.T) {
			d := foreignMessage(t, name)
			want.ID = IDAt("billing", "orders.dlt@1", 2, 12, ReasonTerminal)
			want.Consumer, want.Reason = "billing", ReasonTerminal
			want.BrokerKey, want.Value = d.Key, d.Value
			want.Fingerprint = dedup.Fingerprint{Rule: 1, Sum: sha256.Sum256(d.Value)}
			envelope, _, _ := strings.Cut(name, "-")
			for _, e := range []Envelope{EnvelopeAuto, Envelope(envelope)} {
				got, err := Foreign{Consumer: "billing", Envelope: e}.Read(d)
				if err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("as %s, read (%v):\n%+v\nwant:\n%+v", e, err, got, want)
				}
			}
		})
	}
}

func TestAMessageThatIsNotInItsEnvelopeIsRefused(t *testing.T) {
	bare := foreignMessage(t, "bare")
	for _, e := range Envelopes() {
		_, err := Foreign{Consumer: "billing", Envelope: e}.Read(bare)
		switch e {
		case EnvelopeAuto, EnvelopeBare:
			if err != nil {
				t.Errorf("%s: %v", e, err)
			}
		case EnvelopeOnceward:
			if !errors.Is(err, ErrNotLetter) {
				t.Errorf("%s: %v, want ErrNotLetter", e, err)
			}
		default:
			if !errors.Is(err, ErrNotForeign) {
				t.Errorf("%s: %v, want ErrNotForeign", e, err)
			}
		}
	}
	if _, err := (Foreign{Consumer: "billing", Envelope: "sprung"}).Read(bare); err == nil || errors.Is(err, ErrNotForeign) {
		t.Errorf("an unknown envelope: %v", err)
	}
}

func TestAnOwnLetterStaysItselfAmongForeignOnes(t *testing.T) {
	want := samples()["terminal"]
	got, err := Foreign{Consumer: "other", Scope: "s", ID: func(*brokers.Delivery) (string, error) { return "wrong", nil }}.Read(received(Encode(want, "dlq")))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read (%v):\n%+v\nwant:\n%+v", err, got, want)
	}
	broken := received(Encode(want, "dlq"))
	broken.Headers = append(broken.Headers, header("dl-id", "second"))
	if _, err := (Foreign{Consumer: "other"}).Read(broken); err == nil {
		t.Error("a broken letter of onceward was read as a foreign one")
	}
}

func TestTheKeyOfAForeignLetterIsFoundInTheMessageAlone(t *testing.T) {
	seen := func(d *brokers.Delivery) (string, error) {
		if slices.ContainsFunc(d.Headers, func(h brokers.Header) bool { return h.Key == "kafka_dlt-original-topic" }) {
			t.Error("the envelope is shown to whoever looks for the key")
		}
		if len(d.Key) == 0 {
			return "", errors.New("there is none")
		}
		return string(d.Key), nil
	}
	f := Foreign{Consumer: "billing", Scope: "order.create", ID: seen}
	l, err := f.Read(foreignMessage(t, "spring"))
	if want := (dedup.Key{Consumer: "billing", Scope: "order.create", ID: "ord-7"}); err != nil || l.Key != want {
		t.Errorf("key %v (%v), want %v", l.Key, err, want)
	}
	l, err = f.Read(foreignMessage(t, "watermill"))
	if err == nil || l.Key != (dedup.Key{}) || l.ID == "" {
		t.Errorf("without a key: %+v, %v", l, err)
	}
}

func TestAForeignLetterOnJetStreamIsFromASubject(t *testing.T) {
	d := foreignMessage(t, "watermill")
	d.Subject = "poison"
	l, err := Foreign{Consumer: "billing", Topic: "ORDERS"}.Read(d)
	if want := (Source{Topic: "ORDERS", Subject: "orders", JetStream: true, Time: at(30)}); err != nil || l.Source != want {
		t.Errorf("source %+v (%v), want %+v", l.Source, err, want)
	}
}

// FuzzForeign feeds forged envelopes: whatever comes, it is read, and what is
// read keeps to what a letter may say.
func FuzzForeign(f *testing.F) {
	for name := range foreignLetters() {
		text, err := os.ReadFile(filepath.Join(foreignGolden, name+".txt"))
		if err != nil {
			f.Fatal(err)
		}
		var flat []byte
		for l := range strings.Lines(string(text)) {
			flat = append(append(flat, strings.TrimPrefix(l, "header ")...), 0)
		}
		f.Add(flat)
	}
	f.Add([]byte("kafka_dlt-original-topic\x00orders\x00kafka_dlt-original-offset\x00\xff\xff\xff\xff\xff\xff\xff\xff\x00"))
	f.Fuzz(func(t *testing.T, flat []byte) {
		d := &brokers.Delivery{Key: flat, Value: []byte("v"), Offset: 1}
		for len(flat) > 0 {
			var name, value []byte
			name, flat = untilZero(flat)
			value, flat = untilZero(flat)
			if h := string(name); !IsOwnHeader(h) {
				d.Headers = append(d.Headers, brokers.Header{Key: h, Value: value})
			}
		}
		l, err := Foreign{Consumer: "billing"}.Read(d)
		if err != nil {
			t.Fatal(err)
		}
		if len(l.Headers) > len(d.Headers) || l.Source.Offset < 0 || l.Source.Partition < 0 || l.Failures < 0 {
			t.Fatalf("read %+v", l)
		}
		// It can be written as one of onceward's own, but for the place.
		l.Source.Topic = "t"
		if _, err := Decode(received(Encode(l, "dlq"))); err != nil {
			t.Fatal(err)
		}
	})
}
