package natsbroker

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/brokertest"
	"github.com/onceward/onceward/internal/natstest"
)

func TestConformance(t *testing.T) {
	s := natstest.Serve(t)
	js := natstest.Client(t, s.ClientURL())
	made := 0
	gates := map[brokers.Broker]*gate{}
	brokertest.Run(t, brokertest.Harness{
		Connect: func(t *testing.T) brokers.Broker {
			g := newGate()
			b := connect(t, Config{
				URL: s.ClientURL(), Create: true, AckWait: time.Second,
				Options: []nats.Option{nats.SetCustomDialer(g), nats.ReconnectWait(50 * time.Millisecond)},
			})
			gates[b] = g
			return b
		},
		Crash: func(_ *testing.T, b brokers.Broker) {
			gates[b].mu.Lock()
			gates[b].cut()
			gates[b].mu.Unlock()
			b.Close()
		},
		NewTopic: func(t *testing.T, _ int) string {
			made++
			name := fmt.Sprintf("TOPIC%d", made)
			if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{name + ".>"}}); err != nil {
				t.Fatal(err)
			}
			return name
		},
		DeleteTopic: func(t *testing.T, topic string) {
			if err := js.DeleteStream(t.Context(), topic); err != nil {
				t.Fatal(err)
			}
		},
		Produce: func(t *testing.T, topic string, messages ...brokers.Outgoing) {
			for _, m := range messages {
				msg := &nats.Msg{Subject: topic + ".x", Data: m.Value, Header: nats.Header{}}
				for _, h := range m.Headers {
					msg.Header.Add(h.Key, string(h.Value))
				}
				if _, err := js.PublishMsgAsync(msg, jetstream.WithStallWait(time.Minute)); err != nil {
					t.Fatal(err)
				}
			}
			<-js.PublishAsyncComplete()
		},
		Stored: func(t *testing.T, destination string) []brokers.Outgoing {
			name, _, _ := strings.Cut(destination, ".")
			stream, err := js.Stream(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			var all []brokers.Outgoing
			for seq := uint64(1); ; seq++ {
				m, err := stream.GetMsg(t.Context(), seq, jetstream.WithGetMsgSubject(destination))
				if errors.Is(err, jetstream.ErrMsgNotFound) {
					return all
				}
				if err != nil {
					t.Fatal(err)
				}
				seq = m.Sequence
				var d brokers.Delivery
				data := m.Data
				if data == nil {
					data = []byte{}
				}
				unwrap(m.Header, data, &d)
				all = append(all, brokers.Outgoing{Topic: m.Subject, Key: d.Key, Value: d.Value, Headers: d.Headers})
			}
		},
		DropBelow: func(t *testing.T, topic string, offset int64) {
			stream, err := js.Stream(t.Context(), topic)
			if err != nil {
				t.Fatal(err)
			}
			if err := stream.Purge(t.Context(), jetstream.WithPurgeSequence(uint64(offset))); err != nil {
				t.Fatal(err)
			}
		},
		LoseConfirmation: func(_ *testing.T, b brokers.Broker, _ string) func() {
			gates[b].shut()
			return gates[b].open
		},
		TooLarge: 2 << 20,
		Takeover: time.Second,
		Lacks: map[brokertest.Capability]string{
			brokertest.Rebalance:     "the server deals the messages of a stream out to all that ask",
			brokertest.BinaryHeaders: "headers are lines of text, and clients do not tell in which order names came",
			brokertest.Keys:          "messages have a subject and no key, and always a value",
		},
	})
}
