package membroker_test

import (
	"context"
	"fmt"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/membroker"
)

func ExampleNew() {
	ctx := context.Background()
	b := membroker.New(membroker.Config{Topics: map[string]int{"orders": 1}})
	b.Produce("orders",
		brokers.Outgoing{Key: []byte("c-1"), Value: []byte("first")},
		brokers.Outgoing{Key: []byte("c-1"), Value: []byte("second")},
	)
	// A consumer does this; a test of a handler needs only New and Produce.
	source, err := b.Open(ctx, brokers.Spec{
		Consumer: "billing", Topics: []string{"orders"}, StartFrom: brokers.Start{Kind: brokers.StartEarliest},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer source.Close(ctx)
	deliveries, err := source.Receive(ctx, brokers.Limit{Messages: 10, Bytes: 1 << 20})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, d := range deliveries {
		fmt.Printf("%d %s\n", d.Offset, d.Value)
	}
	_ = source.Ack(deliveries[:1])
	fmt.Println("position", b.Position("billing", "orders", 0), "unsettled", len(b.Unsettled("billing", "orders")))
	// Output:
	// 0 first
	// 1 second
	// position 1 unsettled 1
}

// What an ack that never reached the broker looks like to a consumer.
func ExampleBroker_Crash() {
	ctx := context.Background()
	b := membroker.New(membroker.Config{Topics: map[string]int{"orders": 1}})
	b.Produce("orders", brokers.Outgoing{Value: []byte("paid")})
	spec := brokers.Spec{Consumer: "billing", Topics: []string{"orders"}, StartFrom: brokers.Start{Kind: brokers.StartEarliest}}
	for range 2 {
		source, err := b.Open(ctx, spec)
		if err != nil {
			fmt.Println(err)
			return
		}
		deliveries, err := source.Receive(ctx, brokers.Limit{Messages: 1, Bytes: 1})
		fmt.Printf("%s %v\n", deliveries[0].Value, err)
		b.Crash("billing")
	}
	// Output:
	// paid <nil>
	// paid <nil>
}

// What an operator sees of a topic whose oldest messages retention has removed.
func ExampleBroker_Browse() {
	b := membroker.New(membroker.Config{Topics: map[string]int{"orders": 1}})
	for _, value := range []string{"first", "second", "third"} {
		b.Produce("orders", brokers.Outgoing{Value: []byte(value)})
	}
	b.DropBelow("orders", 0, 1)
	for d, err := range b.Browse(context.Background(), "orders", brokers.From{}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%d %s\n", d.Offset, d.Value)
	}
	// Output:
	// 1 second
	// 2 third
}
