package consumer

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/membroker"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/memstore"
)

// pipelineOfOneWorker is a pipeline that nobody runs, and makes owned tasks.
func pipelineOfOneWorker(t *testing.T) (p *pipeline, one func() *task) {
	t.Helper()
	c, err := New(Config{
		Name: "billing", Broker: membroker.New(membroker.Config{}), Topics: []string{"orders"}, StartFrom: Earliest, Store: memstore.New(),
	}, Route{Scope: "order.create", ID: Field("no"), Run: func(context.Context, *Delivery) (Result, error) { return nil, nil }})
	if err != nil {
		t.Fatal(err)
	}
	p = c.pipeline
	p.base, p.work.current, p.next = t.Context(), make([]*task, 1), &commit{}
	l := p.laneOf(&brokers.Lane{Topic: "orders"})
	return p, func() *task {
		return &task{d: &brokers.Delivery{Lane: l.Lane}, lane: l, route: &c.routes[0], owned: true, fence: 1}
	}
}

// A worker takes a task between the loop's look at the workers and its decision
// to run a suspect: the suspect is not alone yet.
func TestASuspectIsNotMarkedAloneBesideATaskThatWasJustTaken(t *testing.T) {
	p, one := pipelineOfOneWorker(t)
	look := func() { p.finish, p.handed, p.busy = p.work.take(p.finish[:0]) }
	marks := func() (n int) {
		for _, op := range p.next.ops {
			if op.Kind == dedup.Alone {
				n++
			}
		}
		return n
	}

	p.readied = []*task{one()}
	p.now = time.Now()
	p.dispatch()
	look()
	neighbour := p.work.exchange(0, nil) // now it runs
	p.suspects = []*task{one()}
	for range 3 {
		p.collectAlone()
		look()
	}
	if marks() != 0 {
		t.Fatal("marked alone beside a handler that runs")
	}
	p.work.mu.Lock()
	p.work.done, p.work.current[0], p.work.busy = append(p.work.done, neighbour), nil, 0
	p.work.mu.Unlock()
	look()
	p.collectAlone()
	if marks() != 1 {
		t.Error("not marked when nothing runs any more")
	}
}

// A suspect is handed to the workers, and taken back before one of them begins,
// since the store fails: it is still the one to run alone.
func TestASuspectThatIsTakenBackIsStillTheNextToRun(t *testing.T) {
	p, one := pipelineOfOneWorker(t)
	suspect, other := one(), one()
	p.suspects = []*task{suspect}
	p.now = time.Now()
	p.collectAlone()
	p.collectAlone()
	p.markedAlone(suspect, &dedup.Answer{Kind: dedup.Done})
	p.readied = []*task{other}
	p.dispatch()
	if p.handed != 1 {
		t.Fatalf("%d handed over", p.handed)
	}
	p.storeFailed(errors.New("no space left on device"))
	p.storeTries = 0 // it works again
	if !p.aloneReady() || p.startRoom() != 0 || len(p.readied) != 1 || p.readied[0] != other {
		t.Errorf("alone is ready: %v; %d may start beside it; readied %d", p.aloneReady(), p.startRoom(), len(p.readied))
	}
	p.dispatch()
	if got := p.work.exchange(0, nil); got != suspect {
		t.Error("another task starts in place of the suspect")
	}
}
