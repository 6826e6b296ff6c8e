package natsbroker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/internal/natstest"
)

// A mark whose confirmation was lost is ours, not another store's.
func TestAMarkWithoutAnAnswerIsNotTakenForAnothers(t *testing.T) {
	url := natstest.Serve(t).ClientURL()
	g := newGate()
	b := connect(t, Config{URL: url, Create: true, Options: []nats.Option{
		nats.SetCustomDialer(g), nats.ReconnectWait(20 * time.Millisecond), nats.ReconnectJitter(0, 0),
	}})
	s := openSource(t, b, specOf("ORDERS"))
	other := openSource(t, connect(t, Config{URL: url}), specOf("ORDERS"))
	if err := s.Mark(t.Context(), "store a, 1"); err != nil {
		t.Fatal(err)
	}
	for i, mark := range []string{"store a, 2", "store a, 3"} {
		g.shut()
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		err := s.Mark(ctx, mark)
		cancel()
		g.open()
		if err == nil {
			t.Fatal("confirmed without an answer")
		}
		for b.nc.Stats().Reconnects <= uint64(i) {
			time.Sleep(time.Millisecond)
		}
	}
	if err := s.Mark(t.Context(), "store a, 4"); err != nil {
		t.Fatalf("the next mark: %v", err)
	}
	var conflict *brokers.MarkError
	if err := other.Mark(t.Context(), "store b, 1"); !errors.As(err, &conflict) || conflict.Found != "store a, 4" {
		t.Fatalf("another store's mark: %v", err)
	}
}

func TestEachStreamsAndConsumersMarkHasAKeyOfItsOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, stream := range []string{"a", "a_b", "é", "=6Q", "A", strings.Repeat("x", 240)} {
		for _, consumer := range []string{"a", "b", "é", "a_b"} {
			key := markKey(stream, consumer)
			if seen[key] {
				t.Errorf("%q and %q share the key %q", stream, consumer, key)
			}
			seen[key] = true
			for _, c := range key {
				if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./", c) {
					t.Errorf("key %q", key)
				}
			}
		}
	}
}

func TestMarksAreShownToWhoIsNoConsumer(t *testing.T) {
	url := natstest.Serve(t).ClientURL()
	b := connect(t, Config{URL: url, Create: true})
	marks, err := b.ConsumerMarks(t.Context(), "billing", []string{"ORDERS"})
	if err != nil || len(marks) != 0 {
		t.Fatalf("before there is any: %q, %v", marks, err)
	}
	spec := specOf("ORDERS")
	s := openSource(t, b, spec)
	if err := s.Mark(t.Context(), "store a, 1"); err != nil {
		t.Fatal(err)
	}
	marks, err = connect(t, Config{URL: url}).ConsumerMarks(t.Context(), spec.Consumer, []string{"ORDERS", "OTHERS"})
	if err != nil || len(marks) != 1 || marks[0] != "store a, 1" {
		t.Errorf("marks %q, %v", marks, err)
	}
}
