package kafkabroker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/cluster"
)

// connecting bounds Connect where its context does not.
const connecting = 10 * time.Second

// Broker is a connection to one cluster. Make it with [Connect].
type Broker interface {
	brokers.Broker
	brokers.Browser
}

type broker struct {
	cfg       Config
	cluster   *cluster.Cluster
	publisher *publisher
}

// Connect reaches a Kafka cluster, of version 2.4 or newer.
//
// It blocks until one broker has answered, at most until ctx ends and at most
// 10 s. The cluster may go away afterwards: everything recovers by itself.
//
// Errors: a [*brokers.StartError] for a wrong configuration, refused
// credentials, a certificate that is not trusted, or a peer that is not Kafka;
// any other error is transient. None contains a secret.
func Connect(ctx context.Context, cfg Config) (Broker, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	b := &broker{cfg: cfg, cluster: cluster.New(cluster.Config{
		Seeds: cfg.Brokers, ClientID: cfg.ClientID, TLS: cfg.TLS, SASL: cfg.SASL, Dial: cfg.Dial,
		MaxData: cfg.MaxBatchBytes + maxAsk,
	})}
	b.publisher = newPublisher(b.cluster, cfg)
	if err := b.reach(ctx); err != nil {
		b.cluster.Close()
		return nil, err
	}
	return b, nil
}

// reach asks until somebody answers.
func (b *broker) reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, connecting)
	defer cancel()
	var last error
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		_, err := b.cluster.Metadata(ctx, nil)
		if old := b.cluster.TooOld(); old != "" {
			return &brokers.StartError{What: "connect to Kafka", Wrong: old, Mend: "Kafka 2.4 or newer is needed"}
		}
		if err == nil {
			return nil
		}
		if found := b.cluster.Diagnose(ctx, err); found != nil {
			err = found
		}
		if fault := b.terminal("connect to Kafka", err); fault != nil {
			return fault
		}
		if last == nil || !errors.Is(err, context.DeadlineExceeded) {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("connect to Kafka at %s: %w", strings.Join(b.cfg.Brokers, ", "), last)
		case <-time.After(pause):
		}
	}
}

// terminal is the start error for a fault that no retry mends, or nil.
func (b *broker) terminal(what string, err error) error {
	if !cluster.Terminal(err) {
		return nil
	}
	return &brokers.StartError{
		What: what, Wrong: fmt.Sprintf("the cluster at %s refuses", strings.Join(b.cfg.Brokers, ", ")), Err: err,
		Mend: "check addresses, TLS and SASL of the configuration",
	}
}

// Destinations implements [brokers.Broker].
func (b *broker) Destinations(consumer, topic string) brokers.Destinations {
	return brokers.Destinations{DeadLetter: topic + "." + consumer + ".dlq", Retry: topic + "." + consumer + ".retry"}
}

// Publish implements [brokers.Broker].
func (b *broker) Publish(ctx context.Context, messages []brokers.Outgoing) []error {
	return b.publisher.publish(ctx, messages)
}

// Close implements [brokers.Broker].
func (b *broker) Close() error {
	b.cluster.Close()
	return nil
}
