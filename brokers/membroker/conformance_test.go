package membroker_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/brokertest"
	"github.com/onceward/onceward/brokers/membroker"
)

// connection is one process's: closing it leaves the broker to the others.
type connection struct {
	*membroker.Broker
	opened []string
}

func (c *connection) Open(ctx context.Context, spec brokers.Spec) (brokers.Source, error) {
	c.opened = append(c.opened, spec.Consumer)
	return c.Broker.Open(ctx, spec)
}

func (c *connection) Close() error { return nil }

func TestConformance(t *testing.T) {
	b := membroker.New(membroker.Config{MaxMessageBytes: 1 << 20})
	made := 0
	brokertest.Run(t, brokertest.Harness{
		Connect: func(*testing.T) brokers.Broker { return &connection{Broker: b} },
		Crash: func(_ *testing.T, c brokers.Broker) {
			for _, consumer := range c.(*connection).opened {
				b.Crash(consumer)
			}
		},
		NewTopic: func(_ *testing.T, partitions int) string {
			made++
			name := fmt.Sprintf("topic%d", made)
			b.AddTopic(name, partitions)
			return name
		},
		DeleteTopic: func(_ *testing.T, topic string) { b.RemoveTopic(topic) },
		Produce: func(_ *testing.T, topic string, messages ...brokers.Outgoing) {
			b.Produce(topic, messages...)
		},
		Stored: func(_ *testing.T, destination string) []brokers.Outgoing {
			var all []brokers.Outgoing
			for _, m := range b.Messages(destination) {
				all = append(all, brokers.Outgoing{Topic: m.Topic, Key: m.Key, Value: m.Value, Headers: m.Headers})
			}
			return all
		},
		DropBelow: func(_ *testing.T, topic string, offset int64) { b.DropBelow(topic, 0, offset) },
		LoseConfirmation: func(_ *testing.T, _ brokers.Broker, destination string) func() {
			b.LoseConfirmations(destination, 1)
			return func() {}
		},
		TooLarge: 2 << 20,
		Takeover: 100 * time.Millisecond,
		Lacks: map[brokertest.Capability]string{
			brokertest.Deadline: "positions only, as on Kafka",
			brokertest.IDs:      "stores every publish, as Kafka does",
		},
	})
}
