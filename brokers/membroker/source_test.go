package membroker_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/membroker"
)

func spec(topics ...string) brokers.Spec {
	return brokers.Spec{
		Consumer: "billing", Topics: topics, StartFrom: brokers.Start{Kind: brokers.StartEarliest},
		Unfinished: brokers.Limit{Messages: 1000, Bytes: 1 << 20}, Drain: time.Second,
	}
}

func open(t *testing.T, b *membroker.Broker, s brokers.Spec) brokers.Source {
	t.Helper()
	source, err := b.Open(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { source.Close(context.Background()) })
	return source
}

var all = brokers.Limit{Messages: 1000, Bytes: 1 << 20}

func receive(t *testing.T, s brokers.Source, n int) []*brokers.Delivery {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var got []*brokers.Delivery
	for len(got) < n {
		more, err := s.Receive(ctx, all)
		if err != nil {
			t.Fatalf("after %d of %d: %v", len(got), n, err)
		}
		got = append(got, more...)
	}
	if len(got) != n {
		t.Fatalf("received %d, want %d", len(got), n)
	}
	return got
}

func numbers(n int) []brokers.Outgoing {
	out := make([]brokers.Outgoing, n)
	for i := range out {
		out[i] = brokers.Outgoing{Key: []byte(strconv.Itoa(i)), Value: []byte(strconv.Itoa(i))}
	}
	return out
}

func TestThePositionStopsAtAnUnsettledMessage(t *testing.T) {
	b := membroker.New(membroker.Config{Topics: map[string]int{"orders": 1}})
	b.Produce("orders", numbers(5)...)
	s := open(t, b, spec("orders"))
	got := receive(t, s, 5)
	s.Ack([]*brokers.Delivery{got[0], got[1], got[3], got[4]})
	if at := b.Position("billing", "orders", 0); at != 2 {
		t.Fatalf("position is %d, want 2", at)
	}
	b.Crash("billing")
	if _, err := s.Receive(t.Context(), all); !errors.Is(err, membroker.ErrCrashed) {
		t.Fatalf("receive after a crash: %v", err)
	}
	if again := receive(t, open(t, b, spec("orders")), 3); again[0].Offset != 2 {
		t.Fatalf("begins at %d, want 2", again[0].Offset)
	}
}

func TestADeferredDeliveryComesWhenItIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := membroker.New(membroker.Config{Topics: map[string]int{"orders": 1}})
		b.Produce("orders", numbers(2)...)
		s := open(t, b, spec("orders"))
		got := receive(t, s, 2)
		began := time.Now()
		s.Defer(got[:1], 2*time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour)
		defer cancel()
		again, err := s.Receive(ctx, all)
		if err != nil || again[0].Offset != got[0].Offset || time.Since(began) != 2*time.Hour {
			t.Fatalf("got %v, %v after %v", again, err, time.Since(began))
		}
	})
}

func TestARevokedPartitionIsDrainedAndAcksUntilThenCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := membroker.New(membroker.Config{Topics: map[string]int{"orders": 1}})
		b.Produce("orders", numbers(3)...)
		sp := spec("orders")
		var s brokers.Source
		var got []*brokers.Delivery
		sp.Events.Revoked = func(context.Context, []*brokers.Lane) {
			time.Sleep(100 * time.Millisecond)
			if err := s.Ack(got[:2]); err != nil {
				t.Error(err)
			}
		}
		s = open(t, b, sp)
		got = receive(t, s, 3)
		b.Revoke("billing", "orders")
		time.Sleep(time.Second)
		if err := s.Ack(got[2:]); err == nil {
			t.Error("an ack after the end counts")
		}
		if at := b.Position("billing", "orders", 0); at != 2 {
			t.Errorf("position is %d, want 2", at)
		}
		if again := receive(t, s, 1); again[0].Lane == got[0].Lane || again[0].Offset != 2 {
			t.Errorf("got offset %d of the same lane: %v", again[0].Offset, again[0].Lane == got[0].Lane)
		}
	})
}

func TestMembersShareThePartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := membroker.New(membroker.Config{Topics: map[string]int{"orders": 5}})
		s1 := open(t, b, spec("orders"))
		synctest.Wait()
		s2 := open(t, b, spec("orders"))
		synctest.Wait()
		count := func(s brokers.Source) (n int) {
			floors, _ := s.Floors(t.Context())
			return len(floors)
		}
		if n, m := count(s1), count(s2); n != 5 || m != 5 { // 5 of the topic and 5 of the retry topic
			t.Fatalf("lanes: %d and %d", n, m)
		}
		s2.Close(t.Context())
		synctest.Wait()
		if n := count(s1); n != 10 {
			t.Fatalf("after one left: %d lanes", n)
		}
	})
}

func TestADeletedTopicIsLostAndReported(t *testing.T) {
	b := membroker.New(membroker.Config{Topics: map[string]int{"orders": 1}})
	b.Produce("orders", numbers(1)...)
	sp := spec("orders")
	lost := make(chan error, 1)
	sp.Events.Lost = func(_ []*brokers.Lane, cause error) { lost <- cause }
	s := open(t, b, sp)
	receive(t, s, 1)
	b.RemoveTopic("orders")
	var fault *brokers.StartError
	if _, err := s.Receive(t.Context(), all); !errors.As(err, &fault) {
		t.Fatalf("receive: %v", err)
	}
	if cause := <-lost; !errors.As(cause, &fault) {
		t.Fatalf("lost: %v", cause)
	}
}

func TestARedeliveryIsHandedOutBesideTheFirst(t *testing.T) {
	b := membroker.New(membroker.Config{Topics: map[string]int{"orders": 1}})
	b.Produce("orders", numbers(2)...)
	s := open(t, b, spec("orders"))
	got := receive(t, s, 2)
	if n := b.Redeliver("billing", "orders", 0, 1); n != 1 {
		t.Fatalf("redelivered %d", n)
	}
	twin := receive(t, s, 1)
	s.Ack(got)
	s.Ack(twin)
	if at := b.Position("billing", "orders", 0); at != 2 {
		t.Fatalf("position is %d, want 2", at)
	}
}

func BenchmarkReceiveAndAck(bm *testing.B) {
	b := membroker.New(membroker.Config{Topics: map[string]int{"orders": 4}})
	b.Produce("orders", numbers(bm.N)...)
	s, err := b.Open(context.Background(), spec("orders"))
	if err != nil {
		bm.Fatal(err)
	}
	bm.ReportAllocs()
	bm.ResetTimer()
	for n := 0; n < bm.N; {
		got, err := s.Receive(context.Background(), brokers.Limit{Messages: 500, Bytes: 1 << 20})
		if err != nil {
			bm.Fatal(err)
		}
		n += len(got)
		s.Ack(got)
	}
	s.Close(context.Background())
}
