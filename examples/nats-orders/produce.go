package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"

	"golang.org/x/time/rate"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/natsbroker"
)

// traffic is what produce sends.
type traffic struct {
	connection
	count     int
	perSecond float64
	repeats   float64
	bad       float64
}

// produce sends orders: new ones, repeats of earlier ones, and some that
// cannot be read.
func produce(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) (err error) {
	t := &traffic{}
	f := newFlags("nats-orders produce", stderr)
	t.flags(f)
	f.IntVar(&t.count, "count", 1000, "`N` messages")
	f.Float64Var(&t.perSecond, "rate", 0, "`N` messages a second; 0 is as fast as it goes")
	f.Float64Var(&t.repeats, "repeats", 0.2, "`share` of repeats of earlier orders, 0 to 1")
	f.Float64Var(&t.bad, "bad", 0.01, "`share` of messages that cannot be read, 0 to 1")
	if err := parse(f, args, getenv); err != nil {
		return err
	}
	if t.count < 1 || t.perSecond < 0 || t.repeats < 0 || t.bad < 0 || t.repeats+t.bad > 1 {
		return &usageError{errors.New("--count must be at least 1, --rate not negative, --repeats and --bad together 0 to 1")}
	}
	js, err := natsbroker.Connect(ctx, t.config())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, js.Close()) }()
	sent, err := t.send(ctx, js)
	fmt.Fprintf(stdout, "%d messages sent to %s\n", sent, t.stream)
	return err
}

// send publishes until all is sent or ctx ends, each message confirmed.
func (t *traffic) send(ctx context.Context, js brokers.Broker) (sent int, err error) {
	limit, burst := rate.Inf, 256
	if t.perSecond > 0 {
		limit, burst = rate.Limit(t.perSecond), max(1, min(burst, int(t.perSecond/10)))
	}
	pace := rate.NewLimiter(limit, burst)
	next := t.messages()
	for sent < t.count {
		batch := next(min(burst, t.count-sent))
		if err := pace.WaitN(ctx, len(batch)); err != nil {
			return sent, nil // told to stop
		}
		for i, err := range js.Publish(ctx, batch) {
			switch {
			case errors.Is(err, brokers.ErrNoDestination):
				return sent, fmt.Errorf("no stream takes %s: start the consumer with --create first, or make the stream: %w", batch[i].Topic, err)
			case err != nil:
				return sent, err
			}
			sent++
		}
	}
	return sent, nil
}

// messages returns a function that makes the next n messages.
func (t *traffic) messages() func(n int) []brokers.Outgoing {
	const remembered = 1000
	run := rand.Text()[:8] // ids of another run are other orders
	var earlier [][]byte
	made := 0
	return func(n int) []brokers.Outgoing {
		batch := make([]brokers.Outgoing, n)
		for i := range batch {
			made++
			batch[i] = brokers.Outgoing{Topic: t.stream + ".created"}
			switch dice := mathrand.Float64(); {
			case dice < t.bad:
				batch[i].Value = []byte(`{"order_id":`)
			case dice < t.bad+t.repeats && len(earlier) > 0:
				batch[i].Value = earlier[mathrand.IntN(len(earlier))]
			default:
				o := Order{ID: fmt.Sprintf("%s-%d", run, made), Customer: fmt.Sprintf("customer-%d", mathrand.IntN(1000)), Cents: 100 + mathrand.Int64N(100_000)}
				batch[i].Value, _ = json.Marshal(o) // strings and a number
				if len(earlier) < remembered {
					earlier = append(earlier, batch[i].Value)
				} else {
					earlier[mathrand.IntN(remembered)] = batch[i].Value
				}
			}
		}
		return batch
	}
}
