package membroker_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/membroker"
)

func TestPublishingFailsAsATestAsks(t *testing.T) {
	b := membroker.New(membroker.Config{Topics: map[string]int{"orders": 1, "other": 1}})
	letter := []brokers.Outgoing{{Topic: "orders", Value: []byte("x")}, {Topic: "other", Value: []byte("y")}}
	b.FailPublish("orders", brokers.ErrUnauthorized)
	if errs := b.Publish(t.Context(), letter); !errors.Is(errs[0], brokers.ErrUnauthorized) || errs[1] != nil {
		t.Fatal(errs)
	}
	b.FailPublish("orders", nil)
	b.LoseConfirmations("orders", 1)
	for _, want := range []error{brokers.ErrUnknownOutcome, nil} {
		if err := b.Publish(t.Context(), letter[:1])[0]; !errors.Is(err, want) {
			t.Fatalf("%v, want %v", err, want)
		}
	}
	if n := len(b.Messages("orders")); n != 2 {
		t.Fatalf("%d stored, want both the unconfirmed and the confirmed one", n)
	}
}

func TestABrokerThatDoesNotAnswerIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := membroker.New(membroker.Config{Topics: map[string]int{"orders": 1}})
		b.Produce("orders", numbers(2)...)
		sp := spec("orders")
		var states []error
		sp.Events.Degraded = func(_ string, err error) { states = append(states, err) }
		s := open(t, b, sp)
		got := receive(t, s, 2)
		b.SetAvailable(false)
		if err := s.Ack(got); err != nil {
			t.Error(err)
		}
		if at := b.Position("billing", "orders", 0); at != 0 {
			t.Errorf("position moved to %d meanwhile", at)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if err := b.Publish(ctx, []brokers.Outgoing{{Topic: "orders"}})[0]; !errors.Is(err, brokers.ErrUnknownOutcome) {
			t.Errorf("published: %v", err)
		}
		if _, err := b.Open(ctx, sp); !errors.Is(err, membroker.ErrUnavailable) {
			t.Errorf("opened: %v", err)
		}
		cancel()
		b.SetAvailable(true)
		synctest.Wait()
		if at := b.Position("billing", "orders", 0); at != 2 {
			t.Errorf("position is %d afterwards", at)
		}
		if len(states) != 2 || !errors.Is(states[0], membroker.ErrUnavailable) || states[1] != nil {
			t.Errorf("reported %v", states)
		}
	})
}

func TestALostPartitionIsNotDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := membroker.New(membroker.Config{Topics: map[string]int{"orders": 2}})
		sp := spec("orders")
		var lost []*brokers.Lane
		sp.Events.Lost = func(lanes []*brokers.Lane, _ error) { lost = append(lost, lanes...) }
		sp.Events.Revoked = func(context.Context, []*brokers.Lane) { t.Error("revoked") }
		s := open(t, b, sp)
		b.Produce("orders", numbers(20)...)
		got := receive(t, s, 20)
		b.Lose("billing", "orders", 1)
		synctest.Wait()
		if len(lost) != 1 || lost[0].Partition != 1 {
			t.Fatalf("lost %v", lost)
		}
		for _, d := range got {
			if err := s.Ack([]*brokers.Delivery{d}); (err != nil) != (d.Lane == lost[0]) {
				t.Errorf("ack of partition %d: %v", d.Lane.Partition, err)
			}
		}
		again := receive(t, s, len(b.Unsettled("billing", "orders")))
		for _, d := range again {
			if d.Lane.Partition != 1 {
				t.Errorf("partition %d again", d.Lane.Partition)
			}
		}
	})
}

func TestACopyThatWaitsIsListed(t *testing.T) {
	b := membroker.New(membroker.Config{Topics: map[string]int{"orders": 1}})
	s := open(t, b, spec("orders"))
	to := b.Destinations("billing", "orders")
	if err := b.Publish(t.Context(), []brokers.Outgoing{{Topic: to.Retry, Value: []byte("x")}, {Topic: to.DeadLetter, Value: []byte("y")}}); err[0] != nil || err[1] != nil {
		t.Fatal(err)
	}
	if w, l := b.Waiting("billing", "orders"), b.Letters("billing", "orders"); len(w) != 1 || len(l) != 1 || string(l[0].Value) != "y" {
		t.Fatalf("waiting %v, letters %v", w, l)
	}
	if err := s.Ack(receive(t, s, 1)); err != nil {
		t.Fatal(err)
	}
	if w := b.Waiting("billing", "orders"); len(w) != 0 {
		t.Fatalf("still waiting: %v", w)
	}
}
