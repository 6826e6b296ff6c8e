package deadletter_test

import (
	"encoding/binary"
	"fmt"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/deadletter"
)

// Letters that Spring Kafka has written are read for a consumer that is to
// handle them. The key is found as the consumer's route finds it.
func ExampleForeign() {
	foreign := deadletter.Foreign{
		Consumer: "billing", Scope: "order.create",
		ID: func(d *brokers.Delivery) (string, error) { return string(d.Key), nil },
	}
	l, err := foreign.Read(&brokers.Delivery{
		Lane: &brokers.Lane{Topic: "orders-dlt", Source: "orders-dlt@1"}, Offset: 7,
		Key: []byte("ord-1"), Value: []byte(`{"total":12}`),
		Headers: []brokers.Header{
			{Key: "tenant", Value: []byte("acme")},
			{Key: "kafka_dlt-original-topic", Value: []byte("orders")},
			{Key: "kafka_dlt-original-partition", Value: binary.BigEndian.AppendUint32(nil, 3)},
			{Key: "kafka_dlt-original-offset", Value: binary.BigEndian.AppendUint64(nil, 4711)},
			{Key: "kafka_dlt-exception-message", Value: []byte("card refused")},
		},
	})
	fmt.Println(l.Key, l.Error, err)
	fmt.Println(l.Source.Topic, l.Source.Partition, l.Source.Offset)
	for _, h := range l.Headers {
		fmt.Printf("%s: %s\n", h.Key, h.Value)
	}
	// As Queue.Read it makes the whole topic one of letters.
	_ = deadletter.Queue{Topic: "orders-dlt", Consumer: "billing", Read: foreign.Read}
	// Output:
	// billing/order.create/ord-1 card refused <nil>
	// orders 3 4711
	// tenant: acme
}

func ExamplePattern() {
	fmt.Println(deadletter.Pattern(`card 4711 of "ord-1" refused after 1.5s`))
	fmt.Println(deadletter.Pattern(`card 4712 of "ord-2" refused after 900ms`))
	fmt.Println(deadletter.Pattern(`no row for 5c1f0b5e-3f1a-4c3f-9a57-1a2b3c4d5e6f`))
	// Output:
	// card # of "…" refused after #
	// card # of "…" refused after #
	// no row for #
}
