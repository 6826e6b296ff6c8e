package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/natsbroker"
	"github.com/onceward/onceward/examples/internal/service"
	"github.com/onceward/onceward/examples/internal/traffic"
)

// produce sends traffic for the consumer.
func produce(ctx context.Context, p *service.Process) (err error) {
	var at connection
	var t traffic.Traffic
	f := p.Flags()
	at.flags(f)
	t.Flags(f)
	if err := p.Parse(f); err != nil {
		return err
	}
	if err := t.Check(); err != nil {
		return &service.UsageError{Err: err}
	}
	js, err := natsbroker.Connect(ctx, at.config())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, js.Close()) }()
	sent, err := t.Send(ctx, js, at.stream+".created")
	if errors.Is(err, brokers.ErrNoDestination) {
		err = fmt.Errorf("no stream takes %s.created: start the consumer with --create first, or make the stream: %w", at.stream, err)
	}
	fmt.Fprintf(p.Stdout, "%d messages sent to %s\n", sent, at.stream)
	return err
}
