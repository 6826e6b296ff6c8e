package main

import (
	"context"
	"errors"

	"github.com/onceward/onceward/brokers/kafkabroker"
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
	f.BoolVar(&at.create, "create", false, "make the topics for letters and for waiting messages where they are missing; the topic itself must be there")
	f.StringVar(&at.instance, "instance", "", "`name` of this process in the group that stays over restarts, so that they move nothing")
	takeOver := f.String("take-over", "", "a new consumer begins where the `group` stands that did its work before")
	set.Flags(f)
	if err := p.Parse(f); err != nil {
		return err
	}
	if *takeOver != "" {
		set.Start = consumer.CommittedBy(*takeOver)
	}
	to, err := at.config()
	if err != nil {
		return &service.UsageError{Err: err}
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
	kafka, err := kafkabroker.Connect(ctx, to)
	if err != nil {
		if ctx.Err() != nil {
			return nil // told to stop before it was connected
		}
		return err
	}
	defer func() { err = errors.Join(err, kafka.Close()) }()

	config := set.Config(at.topic, log)
	config.Broker, config.Store = kafka, store
	c, err := consumer.New(config, billing.New(set.Call, set.Workers).Route(set.MaxFailures))
	if err != nil {
		return &service.UsageError{Err: err}
	}
	return set.Run(ctx, p, c, health)
}
