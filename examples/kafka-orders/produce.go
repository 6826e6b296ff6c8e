package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/kafkabroker"
	"github.com/onceward/onceward/examples/internal/service"
	"github.com/onceward/onceward/examples/internal/traffic"
)

// produce sends traffic for the consumer.
func produce(ctx context.Context, p *service.Process) (err error) {
	var at connection
	t := traffic.Traffic{Keys: true}
	f := p.Flags()
	at.flags(f)
	f.BoolVar(&at.create, "create", false, "make the topic where it is missing, with 4 partitions")
	t.Flags(f)
	if err := p.Parse(f); err != nil {
		return err
	}
	to, err := at.config()
	if err := errors.Join(err, t.Check()); err != nil {
		return &service.UsageError{Err: err}
	}
	kafka, err := kafkabroker.Connect(ctx, to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kafka.Close()) }()
	if at.create {
		if err := makeTopic(ctx, to, at.topic); err != nil {
			return err
		}
	}
	sent, err := t.Send(ctx, kafka, at.topic)
	if errors.Is(err, brokers.ErrNoDestination) {
		err = fmt.Errorf("there is no topic %s: produce --create makes it, or kafka-topics --create --topic %s --partitions %d: %w", at.topic, at.topic, partitions, err)
	}
	fmt.Fprintf(p.Stdout, "%d messages sent to %s\n", sent, at.topic)
	return err
}
