package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup/boltstore"
)

const (
	scope = "order.create"
	// workers is how many handlers run at once. As many deliveries are
	// unfinished at most, so that a kill can fall between call and record of no
	// more than that.
	workers = 64
	// maxFailures is how often an order may fail before it is dead.
	maxFailures = 4
)

// consumerConfig is what the parent tells the consumer process.
type consumerConfig struct {
	Broker  string // "jetstream" or "kafka"
	Address string // of the broker
	Topic   string // or stream
	Name    string // of the consumer
	Witness string // address of the witness
	File    string // of the store
}

// consume is the consumer process. It is killed without warning, save for the
// last one, which is told to stop.
func consume(text string) int {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	var config consumerConfig
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		log.Error("configuration cannot be read", "error", err)
		return 1
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		if !toldToStop(os.Stdin) {
			os.Exit(1) // the parent is dead
		}
		stop()
	}()
	if err := runConsumer(ctx, config, log); err != nil {
		log.Error("consumer ended", "error", err)
		return 1
	}
	return 0
}

// runConsumer is the main function of a program that uses onceward.
func runConsumer(ctx context.Context, config consumerConfig, log *slog.Logger) (err error) {
	broker, err := connect(ctx, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, broker.Close()) }()
	store, err := boltstore.Open(config.File, boltstore.Options{Logger: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	b := &billing{witness: config.Witness, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: workers}}}
	route := consumer.JSON(scope, func(o order) string { return o.ID }, b.create)
	route.Retry = consumer.Retry{MaxFailures: maxFailures, Initial: 20 * time.Millisecond, Max: 200 * time.Millisecond}
	c, err := consumer.New(consumer.Config{
		Name: config.Name, Broker: broker, Topics: []string{config.Topic}, StartFrom: consumer.Earliest, Store: store,
		Workers: workers, Unfinished: consumer.Limit{Messages: workers}, Logger: log,
	}, route)
	if err != nil {
		return err
	}
	return c.Run(ctx)
}
