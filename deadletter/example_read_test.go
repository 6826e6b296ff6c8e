package deadletter_test

import (
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/segmentio/kafka-go"

	"github.com/onceward/onceward/brokers"
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

// On JetStream the letters of one consumer are the messages of the stream
// ORDERS_DLQ under the subject ORDERS_DLQ.billing; data and headers are what
// Decode asks for. What NATS headers cannot hold (a broker's key, and headers
// that are no clean text) stays in the Onceward- headers of the envelope, which
// package natsbroker describes; leave those out when the message is sent again.
func ExampleDecode_jetStream() {
	m := &nats.Msg{Subject: "ORDERS_DLQ.billing", Data: letter().Value, Header: nats.Header{}} // or a jetstream.Msg
	for _, h := range deadletter.Encode(letter(), m.Subject).Headers {
		m.Header[h.Key] = append(m.Header[h.Key], string(h.Value))
	}

	d := &brokers.Delivery{Subject: m.Subject, Value: m.Data}
	for name, values := range m.Header {
		for _, v := range values {
			d.Headers = append(d.Headers, brokers.Header{Key: name, Value: []byte(v)})
		}
	}
	l, err := deadletter.Decode(d)
	fmt.Println(l.Reason, l.Key, err)
	// Output:
	// terminal billing/order.create/ord-1 <nil>
}
