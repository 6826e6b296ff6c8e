package natsbroker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/internal/natstest"
)

// An operator bounds requests, then pauses the durable, and resumes it.
func TestADurableMayBeEditedAndPausedWhileItIsRead(t *testing.T) {
	url := natstest.Serve(t).ClientURL()
	js := natstest.Client(t, url)
	b := connect(t, Config{URL: url, Create: true})
	spec := specOf("ORDERS")
	var state degradations
	spec.Events.Degraded = state.note
	s := openSource(t, b, spec)
	publishNumbers(t, js, "ORDERS", 0, 10)
	ds := receive(t, s, 10)
	if err := s.Ack(ds); err != nil {
		t.Fatal(err)
	}
	c, err := js.Consumer(t.Context(), "ORDERS", "billing")
	if err != nil {
		t.Fatal(err)
	}
	config := c.CachedInfo().Config
	config.MaxRequestBatch, config.MaxRequestExpires, config.MaxRequestMaxBytes = 7, 3*time.Second, 2<<20
	if _, err := js.UpdateConsumer(t.Context(), "ORDERS", config); err != nil {
		t.Fatal(err)
	}
	publishNumbers(t, js, "ORDERS", 10, 2000) // more than was requested before
	ds = receive(t, s, 1990)
	if err := s.Ack(ds); err != nil {
		t.Fatal(err)
	}
	if _, err := js.PauseConsumer(t.Context(), "ORDERS", "billing", time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	reported := func(paused bool) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			if _, err := s.Floors(t.Context()); err != nil {
				t.Fatal(err)
			}
			state.mu.Lock()
			err := state.state["stream ORDERS"]
			state.mu.Unlock()
			if paused == (err != nil && strings.Contains(err.Error(), "paused")) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("paused %v: %v", paused, err)
			}
		}
	}
	reported(true)
	if _, err := js.ResumeConsumer(t.Context(), "ORDERS", "billing"); err != nil {
		t.Fatal(err)
	}
	reported(false)
	publishNumbers(t, js, "ORDERS", 2000, 2001)
	receive(t, s, 1)
}

// An operator edits the durable so that it could not be opened any more, and
// edits it back.
func TestADurableThatIsEditedForTheWorseIsReported(t *testing.T) {
	url := natstest.Serve(t).ClientURL()
	js := natstest.Client(t, url)
	b := connect(t, Config{URL: url, Create: true})
	for name, edit := range map[string]func(*jetstream.ConsumerConfig){
		"AckWait is 1s":       func(c *jetstream.ConsumerConfig) { c.AckWait = time.Second },
		"after 1 deliveries":  func(c *jetstream.ConsumerConfig) { c.MaxDeliver = 1 },
		"MaxAckPending is 10": func(c *jetstream.ConsumerConfig) { c.MaxAckPending = 10 },
	} {
		t.Run(name, func(t *testing.T) {
			stream := fmt.Sprintf("S%d", time.Now().UnixNano())
			spec := specOf(stream)
			var state degradations
			spec.Events.Degraded = state.note
			s := openSource(t, b, spec)
			c, err := js.Consumer(t.Context(), stream, "billing")
			if err != nil {
				t.Fatal(err)
			}
			good := c.CachedInfo().Config
			bad := good
			edit(&bad)
			for i, config := range []jetstream.ConsumerConfig{bad, good} {
				reported := i == 0
				if _, err := js.UpdateConsumer(t.Context(), stream, config); err != nil {
					t.Fatal(err)
				}
				publishNumbers(t, js, stream, 0, 1) // what comes heals other trouble
				if err := s.Ack(receive(t, s, 1)); err != nil {
					t.Fatal(err)
				}
				for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
					if _, err := s.Floors(t.Context()); err != nil {
						t.Fatal(err)
					}
					state.mu.Lock()
					err := state.state["consumer of stream "+stream]
					state.mu.Unlock()
					said := err != nil && strings.Contains(err.Error(), name) && strings.Contains(err.Error(), "nats consumer edit")
					if said == reported && (err == nil) == !reported {
						break
					}
					if time.Now().After(deadline) {
						t.Fatalf("reported %v: %v", reported, err)
					}
				}
			}
		})
	}
}

// A durable is edited to deliver headers only: nothing without its payload is
// handed on. A message that only looks so comes, later.
func TestNothingIsReadWithoutItsPayload(t *testing.T) {
	url := natstest.Serve(t).ClientURL()
	js := natstest.Client(t, url)
	b := connect(t, Config{URL: url, Create: true, AckWait: 200 * time.Millisecond})
	s := openSource(t, b, specOf("ORDERS"))
	forged := &nats.Msg{Subject: "ORDERS.forged", Header: nats.Header{nats.MsgSize: {"7"}}}
	if _, err := js.PublishMsg(t.Context(), forged); err != nil {
		t.Fatal(err)
	}
	if ds := receive(t, s, 1); ds[0].Subject != forged.Subject || s.Ack(ds) != nil {
		t.Fatalf("received %+v", ds[0])
	}
	s.lanes[0].whole.Store(false)
	c, err := js.Consumer(t.Context(), "ORDERS", "billing")
	if err != nil {
		t.Fatal(err)
	}
	config := c.CachedInfo().Config
	config.HeadersOnly = true
	if _, err := js.UpdateConsumer(t.Context(), "ORDERS", config); err != nil {
		t.Fatal(err)
	}
	publishNumbers(t, js, "ORDERS", 0, 20)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	ds, err := s.Receive(ctx, brokers.Limit{Messages: 20, Bytes: 1 << 20})
	var fault *brokers.StartError
	if len(ds) > 0 || !errors.As(err, &fault) || !strings.Contains(fault.Wrong, "headers only") {
		t.Errorf("received %d messages, %v", len(ds), err)
	}
}

func TestTheFloorOfANewDurableIsWhereItBegins(t *testing.T) {
	url := natstest.Serve(t).ClientURL()
	js := natstest.Client(t, url)
	b := connect(t, Config{URL: url, Create: true})
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"ORDERS.>"}}); err != nil {
		t.Fatal(err)
	}
	publishNumbers(t, js, "ORDERS", 0, 5)
	s := openSource(t, b, specOf("ORDERS"))
	floors, err := s.Floors(t.Context())
	if err != nil || len(floors) != 2 || floors[0].Next != 1 || floors[0].Lag != 5 {
		t.Fatalf("%+v, %v", floors, err)
	}
}
