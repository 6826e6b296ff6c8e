package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/membroker"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup/memstore"
)

type Order struct {
	No    string `json:"order_id"`
	Cents int    `json:"cents"`
}

func (o Order) ID() string { return o.No }

type Receipt struct {
	No string `json:"no"`
}

// runOver runs the routes over payloads until n deliveries are decided. A real
// program connects to natsbroker or kafkabroker and opens boltstore or another
// store instead.
func runOver(n int, payloads []string, routes ...consumer.Route) {
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	broker := membroker.New(membroker.Config{Topics: map[string]int{"orders": 1}})
	for _, p := range payloads {
		broker.Produce("orders", brokers.Outgoing{Value: []byte(p)})
	}
	c, err := consumer.New(consumer.Config{
		Name: "billing", Broker: broker, Topics: []string{"orders"}, StartFrom: consumer.Earliest, Store: memstore.New(),
		Logger: slog.New(slog.DiscardHandler),
		Observer: func(decided []consumer.Decision) {
			for _, d := range decided {
				fmt.Println(strings.TrimSpace(fmt.Sprint(d.Verdict, " ", d.Key.ID, " ", d.Reason)))
				if n--; n == 0 {
					stop()
				}
			}
		},
	}, routes...)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := c.Run(ctx); err != nil {
		fmt.Println(err)
	}
}

func ExampleJSON() {
	create := func(_ context.Context, o Order) error {
		fmt.Println("create", o.No)
		return nil
	}
	runOver(3, []string{
		`{"order_id":"ord-1","cents":1299}`,
		`{"order_id":"ord-1","cents":1299}`, // the client sent it again
		`{"cents":1299}`,                    // no id: a letter, not a record that all such messages share
	}, consumer.JSON("order.create", Order.ID, create))
	// Unordered output:
	// create ord-1
	// handled ord-1
	// duplicate ord-1
	// dead  key
}

func ExampleJSONResult() {
	pay := consumer.JSONResult("order.pay", Order.ID, func(_ context.Context, o Order) (Receipt, error) {
		return Receipt{No: "r-" + o.No}, nil
	})
	pay.Fingerprint = consumer.Fields("order_id", "cents")
	pay.Retry.MaxFailures = 5
	pay.OnDuplicate = func(_ context.Context, _ *consumer.Delivery, stored consumer.Result) {
		fmt.Printf("answered with %s\n", stored)
	}
	runOver(2, []string{
		`{"order_id":"ord-1","cents":1299,"sent":"10:00"}`,
		`{"order_id":"ord-1","cents":1299,"sent":"10:05"}`,
	}, pay)
	// Output:
	// handled ord-1
	// answered with {"no":"r-ord-1"}
	// duplicate ord-1
}

func ExampleDecoded() {
	// Any decoder takes the place of JSON: Protobuf, Avro, or lines of text.
	type line struct{ id, text string }
	decode := func(payload []byte) (line, error) {
		id, text, ok := strings.Cut(string(payload), " ")
		if !ok {
			return line{}, errors.New("no space between id and text")
		}
		return line{id, text}, nil
	}
	route := consumer.Decoded("note.add", decode, func(l line) string { return l.id }, func(_ context.Context, l line) error {
		fmt.Println("note", l.text)
		return nil
	})
	runOver(1, []string{"n-1 buy milk"}, route)
	// Output:
	// note buy milk
	// handled n-1
}

func ExampleRoute() {
	route := consumer.Route{
		Scope: "invoice.sent",
		Match: consumer.HeaderIs("type", "invoice"), // first match wins; none: a key letter
		ID:    consumer.Join(consumer.Header("tenant"), consumer.Field("invoice.no")),
		Run: func(_ context.Context, d *consumer.Delivery) (consumer.Result, error) {
			return nil, nil
		},
	}
	id, err := route.ID.From(&consumer.Delivery{
		Headers: []brokers.Header{{Key: "type", Value: []byte("invoice")}, {Key: "tenant", Value: []byte("acme")}},
		Value:   []byte(`{"invoice":{"no":"2024/17"}}`),
	})
	fmt.Println(route.ID.Rule)
	fmt.Println(id, err)
	// Output:
	// join(header tenant, field invoice.no)
	// 4:acme,7:2024/17 <nil>
}

func ExampleField() {
	id := consumer.Field("order.no")
	for _, payload := range []string{`{"order":{"no":9007199254740993}}`, `{"order":{"No":"7"},"cents":5}`} {
		fmt.Println(id.From(&consumer.Delivery{Value: []byte(payload)}))
	}
	// Output:
	// 9007199254740993 <nil>
	//  field "order.no" is missing; there are: "order", "cents"
}

func ExampleTerminal() {
	errRefused := errors.New("card refused")
	fails := map[string]error{
		"ord-1": consumer.Terminal(errRefused),
		"ord-2": fmt.Errorf("not for billing: %w", consumer.Skip),
		"ord-3": consumer.InDoubt(errors.New("charge timed out")),
	}
	route := consumer.JSON("order.pay", Order.ID, func(_ context.Context, o Order) error { return fails[o.No] })
	runOver(3, []string{`{"order_id":"ord-1"}`, `{"order_id":"ord-2"}`, `{"order_id":"ord-3"}`}, route)
	// Unordered output:
	// dead ord-1 terminal
	// skipped ord-2
	// doubtful ord-3 in-doubt
}

func ExampleClassify() {
	errClosed := errors.New("account closed")
	route := consumer.JSON("order.pay", Order.ID, func(context.Context, Order) error { return errClosed })
	route.Classify = consumer.Classify(func(err error) consumer.Class {
		if errors.Is(err, errClosed) {
			return consumer.ClassTerminal
		}
		return consumer.Unclassified
	}, consumer.ClassifyDefault)
	fmt.Println(route.Classify(errClosed), route.Classify(context.DeadlineExceeded))
	// Output:
	// terminal retryable
}

func ExampleConfigError() {
	_, err := consumer.New(consumer.Config{Name: "billing", Workers: -1, StartFrom: consumer.Earliest, Topics: []string{"orders"}},
		consumer.JSON("order.create", Order.ID, func(context.Context, Order) error { return nil }))
	fmt.Println(err)
	// Output:
	// consumer "billing": 3 faults in its configuration:
	// 	Config.Broker is nil; right would be: a broker, such as natsbroker.Connect gives
	// 	Config.Store is nil; right would be: a store, such as boltstore.Open gives
	// 	Config.Workers is -1; right would be: 1 to 10000; 0 for the default 16
}
