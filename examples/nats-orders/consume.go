package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/onceward/onceward/brokers/natsbroker"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup/boltstore"
)

// consume runs the consumer until ctx ends.
func consume(ctx context.Context, args []string, getenv func(string) string, _, stderr io.Writer) (err error) {
	s, err := readSettings(args, getenv, stderr)
	if err != nil {
		return err
	}
	log := newLogger(stderr)
	health, err := listen(ctx, s.listen, log)
	if err != nil {
		return err
	}
	defer health.close()

	store, err := boltstore.Open(s.db, boltstore.Options{Adopt: s.adopt, Logger: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	js, err := natsbroker.Connect(ctx, s.config())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, js.Close()) }()

	b := &billing{call: s.call, http: &http.Client{Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: s.workers, IdleConnTimeout: time.Minute,
	}}}
	route := consumer.JSON("order.create", func(o Order) string { return o.ID }, b.create)
	route.Order = consumer.Field("customer_id")                             // one customer's orders in their order
	route.Fingerprint = consumer.Fields("order_id", "customer_id", "cents") // what must be equal in a repeat
	route.Retry.MaxFailures = s.retries
	route.Timeout = time.Minute
	c, err := consumer.New(consumer.Config{
		Name: s.name, Broker: js, Topics: []string{s.stream}, StartFrom: s.start, Store: store,
		Workers: s.workers, Drain: s.drain, Logger: log,
	}, route)
	if err != nil {
		return &usageError{err}
	}
	health.of(c)
	return c.Run(ctx)
}
