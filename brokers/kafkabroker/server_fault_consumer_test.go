//go:build servers

package kafkabroker_test

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward/brokers/kafkabroker"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup/memstore"
)

// refused is how many messages there are to each that needs a letter.
const refused = 50

// clerk is a whole consumer of the traffic: it refuses some messages, so that
// letters must be kept while no broker takes them.
type clerk struct {
	t      *testing.T
	c      *consumer.Consumer
	letter string // the topic
	stop   context.CancelFunc
	ended  chan error

	mu   sync.Mutex
	runs map[int64]int
}

func newClerk(t *testing.T, cfg kafkabroker.Config, topic string) *clerk {
	t.Helper()
	k := &clerk{t: t, runs: map[int64]int{}, ended: make(chan error, 1)}
	b := connect(t, cfg)
	const name = "clerk"
	k.letter = b.Destinations(name, topic).DeadLetter
	c, err := consumer.New(consumer.Config{
		Name: name, Broker: b, Topics: []string{topic}, StartFrom: consumer.Earliest, Store: memstore.New(),
		Logger: slog.New(slog.DiscardHandler),
	}, consumer.Route{
		Scope: "work.do",
		ID:    consumer.Extract{Rule: "number", From: func(d *consumer.Delivery) (string, error) { return strconv.FormatInt(id(d.Value), 10), nil }},
		Run: func(_ context.Context, d *consumer.Delivery) (consumer.Result, error) {
			n := id(d.Value)
			k.mu.Lock()
			k.runs[n]++
			k.mu.Unlock()
			if n%refused == 0 {
				return nil, consumer.Terminal(errors.New("refused"))
			}
			return nil, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	k.c, k.stop = c, cancel
	go func() { k.ended <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-k.ended
	})
	return k
}

// finish expects that each message that was stored was handled, once, and that
// each that was refused has a letter, under one id.
func (k *clerk) finish(o *other, stored map[int64]int32) {
	k.t.Helper()
	defer func() {
		if k.t.Failed() {
			k.t.Logf("the consumer says %+v", k.c.Status())
			select {
			case err := <-k.ended:
				k.ended <- err
				k.t.Logf("the consumer has ended: %v", err)
			default:
			}
		}
	}()
	open := func() (n int) {
		k.mu.Lock()
		defer k.mu.Unlock()
		for id := range stored {
			if k.runs[id] == 0 {
				n++
			}
		}
		return n
	}
	began := time.Now()
	eventually(k.t, "the consumer handles all that was stored", func() bool { return open() == 0 })
	k.t.Logf("a consumer was done %v later", time.Since(began).Round(time.Millisecond))
	var letters map[int64]map[string]bool
	unwritten := func() (n int) {
		letters = map[int64]map[string]bool{}
		for _, r := range o.records(k.t, k.letter) {
			no := id(r.Value)
			if letters[no] == nil {
				letters[no] = map[string]bool{}
			}
			for _, h := range r.Headers {
				if h.Key == "dl-id" {
					letters[no][string(h.Value)] = true
				}
			}
		}
		for no := range stored {
			if no%refused == 0 && len(letters[no]) == 0 {
				n++
			}
		}
		return n
	}
	eventually(k.t, "each refused message has its letter", func() bool { return unwritten() == 0 })
	for no, ids := range letters {
		if len(ids) != 1 {
			k.t.Errorf("the letters of %d have %d ids", no, len(ids))
		}
	}
	k.stop()
	k.ended <- <-k.ended
	k.mu.Lock()
	defer k.mu.Unlock()
	again := 0
	for _, n := range k.runs {
		again += n - 1
	}
	k.t.Logf("a consumer handled %d, %d again, and wrote letters of %d", len(k.runs), again, len(letters))
	if again > 0 {
		k.t.Errorf("%d messages were handled again", again)
	}
}
