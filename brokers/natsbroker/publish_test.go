package natsbroker

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/internal/natstest"
)

// The connection breaks between a publish and its PubAck.
func TestALostConfirmationIsRepeatedOnlyWithAnID(t *testing.T) {
	url := natstest.Serve(t).ClientURL()
	g := newGate()
	b := connect(t, Config{URL: url, Create: true, Options: []nats.Option{
		nats.SetCustomDialer(g), nats.ReconnectWait(20 * time.Millisecond), nats.ReconnectJitter(0, 0),
	}})
	openSource(t, b, specOf("ORDERS"))
	stream, err := natstest.Client(t, url).Stream(t.Context(), "ORDERS_DLQ")
	if err != nil {
		t.Fatal(err)
	}
	for i, id := range []string{"letter-1", ""} {
		g.shut()
		done := make(chan error, 1)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		go func() {
			done <- b.Publish(ctx, []brokers.Outgoing{{Topic: "ORDERS_DLQ.billing", Value: []byte("x"), ID: id}})[0]
		}()
		for stored := uint64(0); stored <= uint64(i); time.Sleep(5 * time.Millisecond) {
			info, err := stream.Info(ctx)
			if err != nil {
				t.Fatal(err)
			}
			stored = info.State.Msgs
		}
		g.open()
		if err := <-done; (id == "") != errors.Is(err, brokers.ErrUnknownOutcome) || id != "" && err != nil {
			t.Errorf("with the id %q: %v", id, err)
		}
		if info, err := stream.Info(ctx); err != nil || info.State.Msgs != uint64(i)+1 {
			t.Errorf("with the id %q: %d stored, %v", id, info.State.Msgs, err)
		}
	}
}

// A topic that came out of a message neither orders the server about nor ends
// the connection.
func TestATopicIsNoOrderToTheServer(t *testing.T) {
	b := connect(t, Config{URL: natstest.Serve(t).ClientURL(), Create: true})
	openSource(t, b, specOf("ORDERS"))
	for _, topic := range []string{
		"$JS.API.STREAM.DELETE.ORDERS", "$SYS.REQ.SERVER.PING", "ORDERS." + strings.Repeat("x", 5000),
		"ORDERS.x\r\nPUB ORDERS.y 1\r\ny", "ORDERS.*", "",
	} {
		err := b.Publish(t.Context(), []brokers.Outgoing{{Topic: topic, Value: []byte("x")}, {Topic: "ORDERS.after"}})
		if !errors.Is(err[0], brokers.ErrNoDestination) || len(err[0].Error()) > 400 || err[1] != nil {
			t.Errorf("%.40q: %v", topic, err)
		}
	}
}

// More messages than are sent at once, of which some can never be stored.
func TestEachOfManyPublishesHasItsOwnResult(t *testing.T) {
	b := connect(t, Config{URL: natstest.Serve(t).ClientURL(), Create: true})
	openSource(t, b, specOf("ORDERS"))
	messages := make([]brokers.Outgoing, 3*publishAtOnce)
	for i := range messages {
		messages[i] = brokers.Outgoing{Topic: "ORDERS_DLQ.billing", Value: []byte("x")}
		switch {
		case i%100 == 1:
			messages[i].Topic = "no subject"
		case i%500 == 2:
			messages[i].Value = make([]byte, 2<<20)
		}
	}
	for i, err := range b.Publish(t.Context(), messages) {
		var want error
		switch {
		case i%100 == 1:
			want = brokers.ErrNoDestination
		case i%500 == 2:
			want = brokers.ErrTooLarge
		}
		if !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("%d: %v, want %v", i, err, want)
		}
		if err != nil && !strings.Contains(err.Error(), messages[i].Topic) {
			t.Errorf("%d: %v does not name its topic", i, err)
		}
	}
	if n := len(b.slots); n != 0 {
		t.Errorf("%d publishes are still counted", n)
	}
}

// What a message was once told to the server with is data when it is sent
// again: it neither deduplicates nor wipes nor is refused nor expires, also
// where the stream allows all of that.
func TestHeadersOfAMessageAreNoOrdersWhenItIsSentAgain(t *testing.T) {
	url := natstest.Serve(t).ClientURL()
	js := natstest.Client(t, url)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "ORDERS_RETRY", Subjects: []string{"ORDERS_RETRY.>"}, Retention: jetstream.WorkQueuePolicy, AllowRollup: true, AllowMsgTTL: true,
	}); err != nil {
		t.Fatal(err)
	}
	b := connect(t, Config{URL: url, Create: true})
	s := openSource(t, b, specOf("ORDERS"))
	old := []brokers.Header{
		{Key: "Nats-Expected-Last-Msg-Id", Value: []byte("never")}, {Key: "Nats-Expected-Last-Sequence", Value: []byte("99")},
		{Key: "Nats-Expected-Last-Subject-Sequence", Value: []byte("98")}, {Key: "Nats-Expected-Stream", Value: []byte("OTHER")},
		{Key: "Nats-Msg-Id", Value: []byte("job-1")}, {Key: "Nats-Rollup", Value: []byte("all")}, {Key: "Nats-TTL", Value: []byte("1s")},
		{Key: "nats-rollup", Value: []byte("sub")}, {Key: "x", Value: []byte("1")},
	}
	publish := func(id, value string) {
		t.Helper()
		if err := b.Publish(t.Context(), []brokers.Outgoing{{Topic: "ORDERS_RETRY.billing", Value: []byte(value), Headers: old, ID: id}})[0]; err != nil {
			t.Errorf("%s: %v", value, err)
		}
	}
	publish("job-1", "first")
	publish("job-2", "second")
	publish("", "third")
	publish("job-2", "again") // of the same job: it is stored already
	stream, err := js.Stream(t.Context(), "ORDERS_RETRY")
	if err != nil {
		t.Fatal(err)
	}
	if n := stream.CachedInfo().State.Msgs; n != 3 {
		t.Errorf("%d are stored, want 3", n)
	}
	for sequence := range uint64(3) {
		m, err := stream.GetMsg(t.Context(), sequence+1)
		if err != nil {
			t.Fatal(err)
		}
		for name := range m.Header {
			if strings.EqualFold(name[:min(5, len(name))], "nats-") && name != nats.MsgIdHdr {
				t.Errorf("%s is sent as %s", m.Data, name)
			}
		}
	}
	var got []string
	for _, d := range receive(t, s, 3) {
		got = append(got, string(d.Value))
		if !reflect.DeepEqual(d.Headers, old) {
			t.Errorf("%s has the headers %q", d.Value, d.Headers)
		}
	}
	if strings.Join(got, " ") != "first second third" {
		t.Errorf("received %v", got)
	}
}
