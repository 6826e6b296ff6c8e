package natsbroker_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/natsbroker"
)

// embedded starts a server in the process; yours runs elsewhere.
func embedded() (url string, stop func(), err error) {
	dir, err := os.MkdirTemp("", "natsbroker")
	if err != nil {
		return "", nil, err
	}
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true,
	})
	if err != nil {
		return "", nil, err
	}
	go s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		return "", nil, fmt.Errorf("server does not come up")
	}
	return s.ClientURL(), func() {
		s.Shutdown()
		s.WaitForShutdown()
		os.RemoveAll(dir)
	}, nil
}

func ExampleConnect() {
	url, stop, err := embedded()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	ctx := context.Background()
	js, err := natsbroker.Connect(ctx, natsbroker.Config{URL: url, Create: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer js.Close()
	// A consumer does the rest: consumer.Config{Broker: js, Topics: []string{"ORDERS"}, …}
	source, err := js.Open(ctx, brokers.Spec{
		Consumer: "billing", Topics: []string{"ORDERS"}, StartFrom: brokers.Start{Kind: brokers.StartEarliest},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer source.Close(ctx)
	if err := js.Publish(ctx, []brokers.Outgoing{{Topic: "ORDERS.created", Value: []byte(`{"id":"o-1"}`)}})[0]; err != nil {
		fmt.Println(err)
		return
	}
	deliveries, err := source.Receive(ctx, brokers.Limit{Messages: 10, Bytes: 1 << 20})
	if err != nil {
		fmt.Println(err)
		return
	}
	d := deliveries[0]
	fmt.Printf("%d %s %s\n", d.Offset, d.Subject, d.Value)
	fmt.Println(js.Destinations("billing", "ORDERS").DeadLetter)
	fmt.Println(source.Ack(deliveries))
	// Output:
	// 1 ORDERS.created {"id":"o-1"}
	// ORDERS_DLQ.billing
	// <nil>
}

// Without Create, what is missing is named with the command that makes it.
func ExampleBroker_Open() {
	url, stop, err := embedded()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	ctx := context.Background()
	js, err := natsbroker.Connect(ctx, natsbroker.Config{URL: url})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer js.Close()
	_, err = js.Open(ctx, brokers.Spec{
		Consumer: "billing", Topics: []string{"ORDERS"}, StartFrom: brokers.Start{Kind: brokers.StartEarliest},
	})
	fmt.Println(err)
	// Output:
	// open stream "ORDERS": it does not exist: nats: API error: code=404 err_code=10059 description=stream not found (set Create, or: nats stream add ORDERS --subjects='ORDERS.>' --storage=file --retention=limits --discard=old --replicas=1 --defaults)
}

// The letters of a consumer, the first page of them.
func ExampleBroker_Browse() {
	url, stop, err := embedded()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	ctx := context.Background()
	js, err := natsbroker.Connect(ctx, natsbroker.Config{URL: url, Create: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer js.Close()
	source, err := js.Open(ctx, brokers.Spec{
		Consumer: "billing", Topics: []string{"ORDERS"}, StartFrom: brokers.Start{Kind: brokers.StartEarliest},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer source.Close(ctx)
	to := js.Destinations("billing", "ORDERS")
	for _, value := range []string{"first", "second", "third"} {
		if err := js.Publish(ctx, []brokers.Outgoing{{Topic: to.DeadLetter, Key: []byte("c-1"), Value: []byte(value)}})[0]; err != nil {
			fmt.Println(err)
			return
		}
	}
	n := 0
	for d, err := range js.Browse(ctx, to.DeadLetter, brokers.From{}) {
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
	// 1 of 3: c-1 first
	// 2 of 3: c-1 second
}
