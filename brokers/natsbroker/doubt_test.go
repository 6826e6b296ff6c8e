package natsbroker

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// An operator bounds requests, then pauses the durable, and resumes it.
func TestADurableMayBeEditedAndPausedWhileItIsRead(t *testing.T) {
	url := startServer(t, nil).ClientURL()
	js := operator(t, url)
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

func TestTheFloorOfANewDurableIsWhereItBegins(t *testing.T) {
	url := startServer(t, nil).ClientURL()
	js := operator(t, url)
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
