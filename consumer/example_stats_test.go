package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/membroker"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup/memstore"
)

func ExampleConsumer_Stats() {
	broker := membroker.New(membroker.Config{Topics: map[string]int{"orders": 1}})
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	c, err := consumer.New(consumer.Config{
		Name: "billing", Broker: broker, Topics: []string{"orders"}, StartFrom: consumer.Earliest, Store: memstore.New(),
		Logger: slog.New(slog.DiscardHandler),
		Observer: func(ds []consumer.Decision) {
			if ds[0].Verdict == consumer.Dead {
				stop()
			}
		},
	}, consumer.JSON("order.create", order.ID, func(context.Context, order) error {
		return consumer.Terminal(errors.New("no such customer"))
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	broker.Produce("orders", brokers.Outgoing{Value: []byte(`{"no":"o-7","cents":1}`)})
	if err := c.Run(ctx); err != nil {
		fmt.Println(err)
		return
	}
	s, err := c.Stats(context.Background())
	fmt.Println("open:", s.Open, "held:", s.Held, "by reason:", s.Reasons, err)
	// Output: open: 1 held: 0 by reason: map[terminal:1] <nil>
}
