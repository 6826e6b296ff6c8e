package deadletter_test

import (
	"errors"
	"fmt"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
)

func letter() deadletter.Letter {
	key := dedup.Key{Consumer: "billing", Scope: "order.create", ID: "ord-1"}
	return deadletter.Letter{
		ID: deadletter.ID(key, 7), Consumer: "billing", Reason: deadletter.ReasonTerminal,
		Error: "card refused", Key: key, Run: 1,
		Source: deadletter.Source{Topic: "orders", Partition: 3, Offset: 4711},
		Value:  []byte(`{"order_id":"ord-1"}`),
	}
}

func ExampleDecode() {
	written := deadletter.Encode(letter(), "orders.billing.dlq")
	// The broker hands it out again.
	d := &brokers.Delivery{Key: written.Key, Value: written.Value, Headers: written.Headers}

	l, err := deadletter.Decode(d)
	if errors.Is(err, deadletter.ErrNotLetter) {
		return // somebody else's message
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(l.Reason, l.Key, l.Error)
	fmt.Printf("%s\n", l.Value)
	// Output:
	// terminal billing/order.create/ord-1 card refused
	// {"order_id":"ord-1"}
}

func ExampleEncode() {
	for _, h := range deadletter.Encode(letter(), "orders.billing.dlq").Headers {
		fmt.Printf("%s: %s\n", h.Key, h.Value)
	}
	// Output:
	// dl-version: 1
	// dl-id: 167a48962261855c1090e98cacdb41af
	// dl-consumer: billing
	// dl-reason: terminal
	// dl-scope: order.create
	// dl-key: ord-1
	// dl-run: 1
	// dl-source-topic: orders
	// dl-source-partition: 3
	// dl-source-offset: 4711
	// dl-error: card refused
}

func ExamplePointer() {
	written := deadletter.Pointer(letter(), "orders.billing.dlq")
	l, err := deadletter.Decode(&brokers.Delivery{Value: written.Value, Headers: written.Headers})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("left out: %s, %d bytes at %s/%d/%d\n", l.Omitted(), l.Size, l.Source.Topic, l.Source.Partition, l.Source.Offset)
	// Output:
	// left out: value, 20 bytes at orders/3/4711
}
