package main

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/kafkabroker"
	"github.com/onceward/onceward/brokers/natsbroker"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup/boltstore"
)

func init() {
	cases["nats-onceward"] = func(m *meter) { onceward(m, natsBroker(), noop, *n) }
	cases["nats-onceward-poison"] = func(m *meter) { onceward(m, natsBroker(), picky, healthy(*n)) }
	cases["nats-onceward-latency"] = func(m *meter) {
		p := natsPaced(m)
		onceward(m, natsBroker(), p.handle, *n)
		m.after = natsDrop
	}
	cases["kafka-onceward"] = func(m *meter) { onceward(m, kafkaBroker(), noop, *n) }
	cases["kafka-onceward-poison"] = func(m *meter) { onceward(m, kafkaBroker(), picky, healthy(*n)) }
	cases["kafka-onceward-latency"] = func(m *meter) { onceward(m, kafkaBroker(), kafkaPaced(m).handle, *n) }
}

func natsBroker() brokers.Broker {
	b, err := natsbroker.Connect(ctx, natsbroker.Config{URL: *natsURL, Create: true})
	must(err)
	return b
}

func kafkaBroker() brokers.Broker {
	b, err := kafkabroker.Connect(ctx, kafkabroker.Config{Brokers: []string{*kafkaAt}, Create: true})
	must(err)
	return b
}

func noop(context.Context, *consumer.Delivery) (consumer.Result, error) { return nil, nil }

var errBad = errors.New("will never work")

// picky fails on what is marked bad, when asked to.
func picky(_ context.Context, d *consumer.Delivery) (consumer.Result, error) {
	if *fails && d.Header(badHeader) != "" {
		return nil, errBad
	}
	return nil, nil
}

func (p *pacer) handle(_ context.Context, d *consumer.Delivery) (consumer.Result, error) {
	if p.arrived(d.Header(atHeader)) {
		p.m.noted.Add(1)
	}
	return nil, nil
}

// onceward consumes with durable claims and completions, defaults throughout,
// until so many orders are done.
func onceward(m *meter, broker brokers.Broker, handler consumer.Handler, until int) {
	store, err := boltstore.Open(filepath.Join(*dir, "store.db"), boltstore.Options{})
	must(err)
	runs, stop := context.WithCancel(ctx)
	var done atomic.Int64
	paced := *rate > 0
	c, err := consumer.New(consumer.Config{
		Name: freshName(), Broker: broker, Topics: []string{*stream}, StartFrom: consumer.Earliest, Store: store,
		Logger: slog.New(slog.DiscardHandler),
		Observer: func(decisions []consumer.Decision) {
			m.first()
			if m.ended.Load() {
				return // what the end cut short was not asked for
			}
			finished := 0
			for i := range decisions {
				switch d := &decisions[i]; d.Verdict {
				case consumer.Handled:
					finished++
				case consumer.Duplicate:
					finished++
					m.duplicates.Add(1)
				case consumer.Dead:
					if !*fails {
						panic(d.Reason)
					}
					m.dead.Add(1)
				case consumer.Retried, consumer.Waiting, consumer.DuplicateDead:
				default:
					panic(d.Verdict.String())
				}
			}
			if paced { // messages that only warm up do not count
				finished = int(m.noted.Swap(0))
			}
			if done.Add(int64(finished)) >= int64(until) {
				m.last(until)
				stop()
			}
		},
	}, consumer.Route{
		Scope: "order.create",
		ID:    consumer.Field("order_id"),
		Run: func(ctx context.Context, d *consumer.Delivery) (consumer.Result, error) {
			m.first()
			return handler(ctx, d)
		},
		Retry: consumer.Retry{MaxFailures: 4, Initial: 100 * time.Millisecond},
	})
	must(err)
	must(c.Run(runs))
	must(store.Close())
}
