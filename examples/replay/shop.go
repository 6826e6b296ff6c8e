package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup"
)

// scope is the action that orders are about.
const scope = "order.create"

// order is a message.
type order struct {
	ID    string `json:"order_id"`
	Cause cause  `json:"cause"` // why it dies, while that is not mended
	Cents int    `json:"cents"`
}

// cause is why an order dies; empty for one that does not.
type cause string

const (
	customer cause = "customer" // not known: refused for good
	service  cause = "service"  // away: failures are used up
	version  cause = "version"  // of the payload, which cannot be read
	bank     cause = "bank"     // did not answer: in doubt
	twice    cause = "twice"    // the id of another order
)

// causeOf spreads the causes over the letters.
func causeOf(i int) cause {
	return [...]cause{customer, service, version, customer, bank, service, customer, version, twice, customer}[i%10]
}

// messages are the orders that die, and as many that do not: a service that is
// away for a few is no outage.
func messages(letters int) []brokers.Outgoing {
	var all []brokers.Outgoing
	add := func(o order) {
		text, _ := json.Marshal(o) // of a struct of texts and numbers
		if o.Cause == version {
			text = append([]byte("v2 "), text...)
		}
		all = append(all, brokers.Outgoing{Key: []byte(o.ID), Value: text})
	}
	for i := range letters {
		id := fmt.Sprintf("ord-%d", i)
		c := causeOf(i)
		good := order{ID: fmt.Sprintf("good-%d", i), Cents: 100}
		if c == twice {
			good.ID = id
		}
		add(good)
		add(order{ID: id, Cause: c, Cents: 200})
	}
	return all
}

// shop is the consumer's side: its handler, and who counts what it does.
type shop struct {
	broker brokers.Broker
	store  dedup.Store
	topic  string
	name   string

	mu      sync.Mutex
	mended  bool
	effects map[string]int // by order
}

// mend takes the causes away.
func (s *shop) mend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mended = true
}

// charged says whether the bank's books have the order.
func (s *shop) charged(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.effects[id]
}

// create handles an order.
func (s *shop) create(_ context.Context, d *consumer.Delivery) (consumer.Result, error) {
	o := d.Decoded.(*order)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.mended {
		switch o.Cause {
		case customer:
			return nil, consumer.Terminal(fmt.Errorf("customer of order %s is not known", o.ID))
		case service:
			return nil, errors.New("shipping does not answer")
		case bank:
			if len(o.ID)%2 == 0 {
				s.effects[o.ID]++ // it did, and the answer was lost
			}
			return nil, consumer.InDoubt(errors.New("the bank does not answer"))
		}
	}
	s.effects[o.ID]++
	return nil, nil
}

func (s *shop) decode(d *consumer.Delivery) (any, error) {
	s.mu.Lock()
	mended := s.mended
	s.mu.Unlock()
	text := d.Value
	if mended {
		text = bytes.TrimPrefix(text, []byte("v2 "))
	}
	o := new(order)
	return o, json.Unmarshal(text, o)
}

// consume runs the consumer until stop is called.
func (s *shop) consume(ctx context.Context) (stop func() error, err error) {
	c, err := consumer.New(consumer.Config{
		Name: s.name, Broker: s.broker, Topics: []string{s.topic}, StartFrom: consumer.Earliest, Store: s.store,
		Logger: slog.New(slog.DiscardHandler),
	}, consumer.Route{
		Scope: scope, Decode: s.decode, Run: s.create,
		ID: consumer.Extract{Rule: "order_id", From: func(d *consumer.Delivery) (string, error) { return d.Decoded.(*order).ID, nil }},
		Retry: consumer.Retry{
			MaxFailures: 2, Initial: 10 * time.Millisecond,
		},
	})
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- c.Run(running) }()
	return func() error { cancel(); return <-ended }, nil
}

// askTheBank decides the orders in doubt that its books have, and leaves the
// others to somebody who can find out more.
func (s *shop) askTheBank(ctx context.Context) (decided int, err error) {
	var ops []dedup.Op
	for r, err := range s.store.Scan(ctx, s.name) {
		if err != nil {
			return 0, err
		}
		if r.State == dedup.InDoubt && s.charged(r.Key.ID) > 0 {
			ops = append(ops, dedup.Op{Kind: dedup.Reconcile, Key: r.Key, Operator: &dedup.OperatorOp{
				Seen: r.Seen(),
				Who:  "ann", Why: "the bank's books have it", To: dedup.Success,
			}})
		}
	}
	answers, err := dedup.Apply(ctx, s.store, ops)
	if err != nil {
		return 0, err
	}
	for i := range answers {
		if answers[i].Kind != dedup.Done {
			return 0, fmt.Errorf("order %s could not be decided: %v %w", ops[i].Key.ID, answers[i].Kind, answers[i].Err)
		}
	}
	return len(ops), nil
}
