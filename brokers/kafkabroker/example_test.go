package kafkabroker_test

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/kafkabroker"
)

// A consumer does this by itself: it needs only what Connect returns.
func ExampleConnect() {
	cluster, err := kfake.NewCluster(kfake.SeedTopics(1, "orders"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	if err := readOne(cluster.ListenAddrs()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// orders/0 at 0: 42 created
	// orders.billing.dlq
}

func readOne(addresses []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	broker, err := kafkabroker.Connect(ctx, kafkabroker.Config{Brokers: addresses, Create: true})
	if err != nil {
		return err
	}
	defer broker.Close()
	order := brokers.Outgoing{Topic: "orders", Key: []byte("42"), Value: []byte("created")}
	if err := broker.Publish(ctx, []brokers.Outgoing{order})[0]; err != nil {
		return err
	}

	source, err := broker.Open(ctx, brokers.Spec{
		Consumer: "billing", Topics: []string{"orders"}, StartFrom: brokers.Start{Kind: brokers.StartEarliest},
		Unfinished: brokers.Limit{Messages: 1000, Bytes: 64 << 20}, LongestWait: time.Hour,
	})
	if err != nil {
		return err
	}
	deliveries, err := source.Receive(ctx, brokers.Limit{Messages: 100, Bytes: 1 << 20})
	if err != nil {
		return err
	}
	for _, d := range deliveries {
		fmt.Printf("%s/%d at %d: %s %s\n", d.Lane.Topic, d.Lane.Partition, d.Offset, d.Key, d.Value)
	}
	if err := source.Ack(deliveries); err != nil {
		return err
	}
	fmt.Println(broker.Destinations("billing", "orders").DeadLetter)
	return source.Close(ctx)
}

// The letters of a consumer, the first page of them.
func ExampleBroker_Browse() {
	cluster, err := kfake.NewCluster(kfake.SeedTopics(1, "orders.billing.dlq"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	broker, err := kafkabroker.Connect(ctx, kafkabroker.Config{Brokers: cluster.ListenAddrs()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer broker.Close()
	letters := broker.Destinations("billing", "orders").DeadLetter
	for _, value := range []string{"first", "second", "third"} {
		if err := broker.Publish(ctx, []brokers.Outgoing{{Topic: letters, Key: []byte("c-1"), Value: []byte(value)}})[0]; err != nil {
			fmt.Println(err)
			return
		}
	}
	n := 0
	for d, err := range broker.Browse(ctx, letters, brokers.From{}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%d of %d: %s %s\n", d.Offset, d.Lane.Backlog, d.Key, d.Value)
		if n++; n == 2 {
			break
		}
	}
	// Output:
	// 0 of 3: c-1 first
	// 1 of 3: c-1 second
}
