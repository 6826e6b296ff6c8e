package deadletter_test

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/segmentio/kafka-go"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/natsbroker"
	"github.com/onceward/onceward/deadletter"
)

// A letter is read with any client. Of a message of kafka-go, Key, Value and
// Headers are what Decode asks for.
func ExampleDecode_kafka() {
	written := deadletter.Encode(letter(), "orders.billing.dlq")
	m := kafka.Message{Value: written.Value} // as a Reader of orders.billing.dlq gives it
	for _, h := range written.Headers {
		m.Headers = append(m.Headers, kafka.Header{Key: h.Key, Value: h.Value})
	}

	d := &brokers.Delivery{Key: m.Key, Value: m.Value}
	for _, h := range m.Headers {
		d.Headers = append(d.Headers, brokers.Header{Key: h.Key, Value: h.Value})
	}
	l, err := deadletter.Decode(d)
	fmt.Println(l.Reason, l.Key, err)
	// Output:
	// terminal billing/order.create/ord-1 <nil>
}

// stored is a letter as the stream ORDERS_DLQ has it. The message had a
// Nats-Msg-Id; the letter's own is its dl-id.
func stored() *nats.Msg {
	l := letter()
	m := &nats.Msg{Subject: "ORDERS_DLQ.billing", Data: l.Value, Header: nats.Header{"Nats-Msg-Id": {l.ID}}}
	text := base64.RawURLEncoding.EncodeToString
	list := []string{"1", ":" + text([]byte("Nats-Msg-Id")) + ":" + text([]byte("theirs"))}
	for _, h := range deadletter.Encode(l, m.Subject).Headers {
		m.Header[h.Key] = append(m.Header[h.Key], string(h.Value))
		list = append(list, h.Key)
	}
	m.Header["Onceward-Headers"] = []string{strings.Join(list, " ")}
	return m
}

// On JetStream the letters of one consumer are the messages of the stream
// ORDERS_DLQ under the subject ORDERS_DLQ.billing. What NATS headers cannot hold
// stays in an envelope: a broker's key, headers that are no clean text, and
// those that would be an order to the server. natsbroker.Delivery opens it, so
// that what is sent again has the headers of the message.
func ExampleDecode_jetStream() {
	m := stored() // a jetstream.Msg has methods of these names
	l, err := deadletter.Decode(natsbroker.Delivery(m.Subject, m.Header, m.Data))
	fmt.Println(l.Reason, l.Key, err)
	for _, h := range l.Headers {
		fmt.Printf("%s: %s\n", h.Key, h.Value)
	}
	// Output:
	// terminal billing/order.create/ord-1 <nil>
	// Nats-Msg-Id: theirs
}
