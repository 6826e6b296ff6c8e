package consumer_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/membroker"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup/memstore"
)

// BenchmarkPipeline is what the runner itself costs a message: broker and
// store are in memory, the handler does nothing.
func BenchmarkPipeline(b *testing.B) {
	broker := membroker.New(membroker.Config{Topics: map[string]int{topic: 4}})
	messages := make([]brokers.Outgoing, b.N)
	for i := range messages {
		messages[i] = brokers.Outgoing{Value: fmt.Appendf(nil, `{"no":"order-%012d","cents":1999,"customer":"c-17","items":[{"sku":"abc","n":2},{"sku":"def","n":1}],"note":"%060d"}`, i, i)}
	}
	broker.Produce(topic, messages...)
	left := b.N
	done := make(chan struct{})
	c, err := consumer.New(consumer.Config{
		Name: "bench", Broker: broker, Topics: []string{topic}, StartFrom: consumer.Earliest, Store: memstore.New(),
		Unfinished: consumer.Limit{Messages: 8192}, Logger: slog.New(slog.DiscardHandler),
		Observer: func(ds []consumer.Decision) {
			if left -= len(ds); left == 0 {
				close(done)
			}
		},
	}, consumer.Route{
		Scope: "order.create", ID: consumer.Field("no"),
		Run: func(context.Context, *consumer.Delivery) (consumer.Result, error) { return nil, nil },
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	b.ReportAllocs()
	b.ResetTimer()
	begun := time.Now()
	go func() { ended <- c.Run(ctx) }()
	<-done
	b.ReportMetric(float64(b.N)/time.Since(begun).Seconds(), "msg/s")
	b.StopTimer()
	stop()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
}
