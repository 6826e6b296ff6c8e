package main

import (
	"context"
	"errors"

	"github.com/onceward/onceward/brokers/natsbroker"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup/boltstore"
	"github.com/onceward/onceward/examples/internal/billing"
	"github.com/onceward/onceward/examples/internal/service"
)

// consume runs the consumer until ctx ends.
func consume(ctx context.Context, p *service.Process) (err error) {
	var at connection
	var set service.Consuming
	f := p.Flags()
	at.flags(f)
	f.BoolVar(&at.create, "create", false, "make the streams (subjects STREAM.>) and the consumer where they are missing; existing ones are never changed")
	f.DurationVar(&at.ackWait, "ack-wait", 0, "`time` after which the server delivers again what a dead process held; 0 is what it has been told before, or 30s")
	set.Flags(f)
	if err := p.Parse(f); err != nil {
		return err
	}
	log := p.Log()
	health, err := service.Listen(ctx, set.Listen, log)
	if err != nil {
		return err
	}
	defer health.Close()

	store, err := boltstore.Open(set.DB, boltstore.Options{Adopt: set.Adopt, Logger: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	js, err := natsbroker.Connect(ctx, at.config())
	if err != nil {
		if ctx.Err() != nil {
			return nil // told to stop before it was connected
		}
		return err
	}
	defer func() { err = errors.Join(err, js.Close()) }()

	config := set.Config(at.stream, log)
	config.Broker, config.Store = js, store
	c, err := consumer.New(config, billing.New(set.Call, set.Workers).Route(set.MaxFailures))
	if err != nil {
		return &service.UsageError{Err: err}
	}
	return set.Run(ctx, p, c, health)
}
