package natsbroker

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/onceward/onceward/brokers"
)

// through sends the headers over the wire format of nats.go and back.
func through(t *testing.T, m *nats.Msg) nats.Header {
	t.Helper()
	if len(m.Header) == 0 {
		return nil
	}
	var wire bytes.Buffer
	wire.WriteString("NATS/1.0\r\n")
	for name, values := range m.Header {
		for _, v := range values {
			if strings.ContainsAny(v, "\r\n") || strings.TrimSpace(v) != v || strings.ContainsAny(name, ": \r\n") {
				t.Fatalf("header %q: %q does not fit a line", name, v)
			}
			wire.WriteString(name + ": " + v + "\r\n")
		}
	}
	wire.WriteString("\r\n")
	h, err := nats.DecodeHeadersMsg(wire.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func roundTrip(t *testing.T, m brokers.Outgoing) brokers.Delivery {
	t.Helper()
	out, err := wrap(&m)
	if err != nil {
		t.Fatal(err)
	}
	data := out.Data
	if data == nil {
		data = []byte{} // a server hands out no nil
	}
	d := brokers.Delivery{Subject: m.Topic}
	unwrap(through(t, out), data, &d)
	return d
}

func TestAnEnvelopeCarriesEveryHeaderKeyAndValue(t *testing.T) {
	for name, m := range map[string]brokers.Outgoing{
		"nothing":           {Value: []byte("v")},
		"nil value":         {},
		"empty value":       {Value: []byte{}},
		"key":               {Key: []byte("k\xff"), Value: []byte("v")},
		"empty key":         {Key: []byte{}, Value: []byte("v")},
		"id":                {ID: "abc", Value: []byte("v")},
		"subject":           {Subject: "orders.é x", Value: []byte("v")},
		"ordered headers":   {Value: []byte("v"), Headers: []brokers.Header{{Key: "a", Value: []byte("1")}, {Key: "b", Value: []byte("2")}}},
		"unordered headers": {Value: []byte("v"), Headers: []brokers.Header{{Key: "b", Value: []byte("1")}, {Key: "a", Value: []byte("2")}, {Key: "b", Value: []byte("3")}}},
		"binary": {Value: []byte("v"), Headers: []brokers.Header{
			{Key: "a", Value: []byte("x\r\ny")}, {Key: "a", Value: []byte("plain")}, {Key: "a", Value: nil}, {Key: "a", Value: []byte{}},
			{Key: "", Value: []byte("no name")}, {Key: "with space:", Value: []byte(" v ")}, {Key: "é", Value: []byte{0xff, 0}},
			{Key: "Nats-Msg-Id", Value: []byte("theirs")}, {Key: "onceward-headers", Value: []byte("1 forged")}, {Key: "Status", Value: []byte("503")},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m.Topic = "ORDERS_DLQ.billing"
			got := roundTrip(t, m)
			subject := m.Subject
			if subject == "" {
				subject = m.Topic
			}
			want := brokers.Delivery{Subject: subject, Key: m.Key, Value: m.Value, Headers: m.Headers}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("\ngot  %+v\nwant %+v", got, want)
			}
		})
	}
}

// Whoever sends a letter's message again wants the headers that it had, and not
// the id under which the letter was published.
func TestALetterReadByAnyClientHasTheHeadersOfItsMessage(t *testing.T) {
	letter := brokers.Outgoing{
		Topic: "ORDERS_DLQ.billing", Subject: "ORDERS.created", ID: "the dl-id", Key: []byte("k"), Value: []byte("v"),
		Headers: []brokers.Header{{Key: "Nats-Msg-Id", Value: []byte("theirs")}, {Key: "raw", Value: []byte{0xff}}, {Key: "a", Value: []byte("1")}},
	}
	out, err := wrap(&letter)
	if err != nil {
		t.Fatal(err)
	}
	got := Delivery(out.Subject, through(t, out), out.Data)
	want := &brokers.Delivery{Subject: "ORDERS.created", Key: letter.Key, Value: letter.Value, Headers: letter.Headers}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("\ngot  %+v\nwant %+v", got, want)
	}
	again, err := wrap(&brokers.Outgoing{Topic: got.Subject, Key: got.Key, Value: got.Value, Headers: got.Headers})
	if err != nil {
		t.Fatal(err)
	}
	if again.Header.Get(nats.MsgIdHdr) != "" {
		t.Errorf("sent again with an order to the server: %v", again.Header)
	}
	if twice := Delivery(again.Subject, through(t, again), again.Data); !reflect.DeepEqual(twice, want) {
		t.Errorf("\nsent again %+v\nwant       %+v", twice, want)
	}
}

func TestHeadersOfOthersComeAsTheyAre(t *testing.T) {
	var d brokers.Delivery
	unwrap(nats.Header{"b": {"1", "2"}, "A": {"3"}, "Nats-Msg-Id": {"x"}}, []byte("v"), &d)
	want := []brokers.Header{
		{Key: "A", Value: []byte("3")}, {Key: "Nats-Msg-Id", Value: []byte("x")}, {Key: "b", Value: []byte("1")}, {Key: "b", Value: []byte("2")},
	}
	if !reflect.DeepEqual(d.Headers, want) {
		t.Errorf("got %v", d.Headers)
	}
}

func TestHeadersOver64KiBAreTooLarge(t *testing.T) {
	m := brokers.Outgoing{Topic: "a", Value: []byte("v"), ID: "x", Headers: []brokers.Header{{Key: "a", Value: bytes.Repeat([]byte("x"), 65000)}}}
	if _, err := wrap(&m); err != nil {
		t.Fatal(err)
	}
	m.Headers = append(m.Headers, brokers.Header{Key: "b", Value: bytes.Repeat([]byte{0xff}, 500)})
	if _, err := wrap(&m); !errors.Is(err, brokers.ErrTooLarge) {
		t.Fatal(err)
	}
}

func TestATopicThatIsNoSubjectIsNoDestination(t *testing.T) {
	for _, topic := range []string{"", "a..b", "a.*", ">", "a b", ".a", "a\r\n"} {
		if _, err := wrap(&brokers.Outgoing{Topic: topic}); !errors.Is(err, brokers.ErrNoDestination) {
			t.Errorf("%q: %v", topic, err)
		}
	}
}

func FuzzEnvelopeRoundTrip(f *testing.F) {
	f.Add("a", []byte("b"), "Nats-X", []byte("\r\n"), []byte("k"), []byte("v"), true)
	f.Fuzz(func(t *testing.T, n1 string, v1 []byte, n2 string, v2, key, value []byte, twice bool) {
		m := brokers.Outgoing{Topic: "t", Key: key, Value: value, Headers: []brokers.Header{{Key: n1, Value: v1}, {Key: n2, Value: v2}}}
		if twice {
			m.Headers = append(m.Headers, m.Headers...)
		}
		if _, err := wrap(&m); errors.Is(err, brokers.ErrTooLarge) {
			return
		}
		got := roundTrip(t, m)
		if want := (brokers.Delivery{Subject: "t", Key: m.Key, Value: m.Value, Headers: m.Headers}); !reflect.DeepEqual(got, want) {
			t.Errorf("\ngot  %+v\nwant %+v", got, want)
		}
	})
}

func FuzzUnwrap(f *testing.F) {
	f.Add("1 a :YQ:Yg", "a", "x", "YQ", "nil", []byte(""))
	f.Fuzz(func(_ *testing.T, list, name, value, key, isNil string, data []byte) {
		var d brokers.Delivery
		unwrap(nats.Header{listHeader: {list}, name: {value}, keyHeader: {key}, valueHeader: {isNil}}, data, &d)
	})
}
