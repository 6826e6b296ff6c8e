package main

import (
	"context"

	"github.com/onceward/onceward/brokers"
)

// broker is what the proof needs of a broker beside what onceward uses of it:
// its own eyes on what was sent, what is still held and what is dead.
type broker interface {
	// consumer is what the consumer process must know of the broker.
	consumer() consumerConfig
	// publish stores the messages in order, so that the one at index i has the
	// place that a [letter] calls i.
	publish(ctx context.Context, messages []message) error
	// held is how many messages the consumer's durable has not settled, waiting
	// copies included.
	held(ctx context.Context) (int, error)
	// letters reads every dead letter, repeated ones too.
	letters(ctx context.Context) ([]letter, error)
	// close ends the broker, and returns when its files are closed.
	close()
}

// letter is a dead letter as it lies at the broker.
type letter struct {
	ID      string            `json:"dl_id"`
	Reason  string            `json:"dl_reason"`
	Index   int               `json:"-"` // of its message; -1 when it names none
	Headers map[string]string `json:"headers"`
	Payload string            `json:"payload"`
}

// startBroker starts what the options name, or connects to it.
func startBroker(ctx context.Context, o *options, f *folder) (broker, error) {
	if o.kafka == "" {
		return startJetStream(ctx, f.in("nats"))
	}
	return startKafka(ctx, o.kafka)
}

// connect is the consumer's side: what a program of a user's own does.
func connect(ctx context.Context, c consumerConfig) (brokers.Broker, error) {
	if c.Broker == "kafka" {
		return connectKafka(ctx, c)
	}
	return connectJetStream(ctx, c)
}
