package consumer

import (
	"context"
	"testing"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/membroker"
	"github.com/onceward/onceward/dedup/memstore"
)

// A batch of a lane that ends while it is handed on: what runs for the same
// ordering key on another lane keeps its successors.
func TestALateBatchOfAnEndedLaneLeavesTheOrderAlone(t *testing.T) {
	c, err := New(Config{
		Name: "billing", Broker: membroker.New(membroker.Config{}), Topics: []string{"orders"}, StartFrom: Earliest, Store: memstore.New(),
	}, Route{Scope: "order.create", ID: Field("no"), Run: func(context.Context, *Delivery) (Result, error) { return nil, nil }})
	if err != nil {
		t.Fatal(err)
	}
	p := c.pipeline
	live, over := &brokers.Lane{Topic: "orders", Retry: true}, &brokers.Lane{Topic: "orders"}
	p.laneOf(over).ended = true
	one := func(l *brokers.Lane) []task {
		return []task{{d: &brokers.Delivery{Lane: l}, route: &c.routes[0], order: 7}}
	}
	first, late, second := one(live), one(over), one(live)
	for _, tasks := range [][]task{first, late, second} {
		p.arrive(tasks)
	}
	if first[0].phase != pending || late[0].phase != gone || second[0].phase != queued {
		t.Errorf("phases %d, %d, %d: the second must queue behind the first", first[0].phase, late[0].phase, second[0].phase)
	}
	if first[0].next != &second[0] {
		t.Error("the second is behind nothing")
	}
}

func TestWaitingForABusyKeyIsNeverWithoutAPause(t *testing.T) {
	p, _ := pipelineOfOneWorker(t)
	for _, left := range []time.Duration{0, 1, 2, time.Microsecond, time.Millisecond, time.Second, time.Hour} {
		for range 100 {
			if wait := p.poll(left); wait < time.Millisecond || wait > 5*time.Second {
				t.Errorf("asks again after %v with %v left", wait, left)
			}
		}
	}
}
