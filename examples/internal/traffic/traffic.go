// Package traffic makes traffic for the example consumers: new orders, repeats
// of earlier ones, and messages that cannot be read.
package traffic

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	mathrand "math/rand/v2"

	"golang.org/x/time/rate"

	"github.com/onceward/onceward/brokers"
)

// Traffic says how much of what is sent.
type Traffic struct {
	Keys bool // a customer is the key of his orders

	count     int
	perSecond float64
	repeats   float64
	bad       float64
}

// Flags adds the flags of the traffic.
func (t *Traffic) Flags(f *flag.FlagSet) {
	f.IntVar(&t.count, "count", 1000, "send `N` messages")
	f.Float64Var(&t.perSecond, "rate", 0, "send `N` messages a second; 0 is as fast as it goes")
	f.Float64Var(&t.repeats, "repeats", 0.2, "`share` of repeats of earlier orders, 0 to 1")
	f.Float64Var(&t.bad, "bad", 0.01, "`share` of messages that cannot be read, 0 to 1")
}

// Check says what is wrong with the flags.
func (t *Traffic) Check() error {
	if t.count < 1 || t.perSecond < 0 || t.repeats < 0 || t.bad < 0 || t.repeats+t.bad > 1 {
		return errors.New("--count must be at least 1, --rate not negative, --repeats and --bad together 0 to 1")
	}
	return nil
}

// Send publishes until all is sent or ctx ends, each message confirmed.
//
// Errors: the broker's, of the first message that it did not take.
func (t *Traffic) Send(ctx context.Context, b brokers.Broker, topic string) (sent int, err error) {
	limit, burst := rate.Inf, 256
	if t.perSecond > 0 {
		limit, burst = rate.Limit(t.perSecond), max(1, min(burst, int(t.perSecond/10)))
	}
	pace := rate.NewLimiter(limit, burst)
	next := t.messages(topic)
	for sent < t.count {
		batch := next(min(burst, t.count-sent))
		if pace.WaitN(ctx, len(batch)) != nil {
			return sent, nil // told to stop
		}
		for _, err := range b.Publish(ctx, batch) {
			if err != nil {
				return sent, err
			}
			sent++
		}
	}
	return sent, nil
}

// messages returns a function that makes the next n messages.
func (t *Traffic) messages(topic string) func(n int) []brokers.Outgoing {
	const remembered = 1000
	run := rand.Text()[:8] // ids of another run are other orders
	var earlier []brokers.Outgoing
	made := 0
	return func(n int) []brokers.Outgoing {
		batch := make([]brokers.Outgoing, n)
		for i := range batch {
			made++
			switch dice := mathrand.Float64(); {
			case dice < t.bad:
				batch[i] = brokers.Outgoing{Topic: topic, Value: []byte(`{"order_id":`)}
			case dice < t.bad+t.repeats && len(earlier) > 0:
				batch[i] = earlier[mathrand.IntN(len(earlier))]
			default:
				batch[i] = t.order(topic, fmt.Sprintf("%s-%d", run, made))
				if len(earlier) < remembered {
					earlier = append(earlier, batch[i])
				} else {
					earlier[mathrand.IntN(remembered)] = batch[i]
				}
			}
		}
		return batch
	}
}

// order is a new order of some customer.
func (t *Traffic) order(topic, id string) brokers.Outgoing {
	customer := fmt.Sprintf("customer-%d", mathrand.IntN(1000))
	text, err := json.Marshal(map[string]any{"order_id": id, "customer_id": customer, "cents": 100 + mathrand.IntN(100_000)})
	if err != nil {
		panic(err) // strings and a number
	}
	m := brokers.Outgoing{Topic: topic, Value: text}
	if t.Keys {
		m.Key = []byte(customer)
	}
	return m
}
