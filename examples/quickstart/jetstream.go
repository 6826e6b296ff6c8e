package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/natsbroker"
)

const (
	stream  = "ORDERS"
	durable = "billing"
	subject = stream + ".created"
	// ackWait is short, so that what a killed process held comes again soon.
	// In production it is longer than any pause of a process.
	ackWait = 2 * time.Second
)

// jetStream is a NATS server in this process, on a port of its own, with its
// files in a folder.
type jetStream struct {
	server *server.Server
	nc     *nats.Conn
	js     jetstream.JetStream
	sent   int
}

var _ broker = (*jetStream)(nil)

// startJetStream starts the server and makes the stream. It blocks until the
// server answers.
func startJetStream(ctx context.Context, dir string) (*jetStream, error) {
	s, err := server.NewServer(&server.Options{
		ServerName: "quickstart", Host: "127.0.0.1", Port: server.RANDOM_PORT,
		JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true,
	})
	if err != nil {
		return nil, fmt.Errorf("NATS server: %w", err)
	}
	b := &jetStream{server: s}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		b.close()
		return nil, errors.New("NATS server does not answer within 10 s")
	}
	if b.nc, err = nats.Connect(s.ClientURL(), nats.MaxReconnects(-1)); err == nil {
		if b.js, err = jetstream.New(b.nc); err == nil {
			_, err = b.js.CreateStream(ctx, jetstream.StreamConfig{Name: stream, Subjects: []string{stream + ".>"}, Storage: jetstream.FileStorage})
		}
	}
	if err != nil {
		b.close()
		return nil, fmt.Errorf("NATS server: %w", err)
	}
	return b, nil
}

func connectJetStream(ctx context.Context, c consumerConfig) (brokers.Broker, error) {
	return natsbroker.Connect(ctx, natsbroker.Config{URL: c.Address, Create: true, AckWait: ackWait})
}

func (b *jetStream) consumer() consumerConfig {
	return consumerConfig{Broker: "jetstream", Address: b.server.ClientURL(), Topic: stream, Name: durable}
}

func (b *jetStream) publish(ctx context.Context, messages []message) error {
	const chunk = 1000 // well under what the client lets wait for its confirmation
	for len(messages) > 0 {
		part := messages[:min(chunk, len(messages))]
		messages = messages[len(part):]
		confirmed := make([]jetstream.PubAckFuture, 0, len(part))
		for i := range part {
			f, err := b.js.PublishAsync(subject, part[i].payload)
			if err != nil {
				return fmt.Errorf("publish: %w", err)
			}
			confirmed = append(confirmed, f)
		}
		for _, f := range confirmed {
			select {
			case ack := <-f.Ok():
				if b.sent++; ack.Sequence != uint64(b.sent) {
					return fmt.Errorf("publish: message %d has sequence %d", b.sent, ack.Sequence)
				}
			case err := <-f.Err():
				return fmt.Errorf("publish: %w", err)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}

func (b *jetStream) held(ctx context.Context) (int, error) {
	consumer, err := b.js.Consumer(ctx, stream, durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return b.sent, nil // the consumer has not been there yet
	}
	if err != nil {
		return 0, err
	}
	info := consumer.CachedInfo() // asked for just now
	held := int(info.NumPending) + info.NumAckPending
	waiting, err := b.js.Stream(ctx, stream+"_RETRY") // settled copies leave it
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return held, nil
	}
	if err != nil {
		return 0, err
	}
	return held + int(waiting.CachedInfo().State.Msgs), nil
}

func (b *jetStream) letters(ctx context.Context) ([]letter, error) {
	dead, err := b.js.Stream(ctx, stream+"_DLQ")
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []letter
	state := dead.CachedInfo().State
	for sequence := state.FirstSeq; sequence <= state.LastSeq; sequence++ {
		m, err := dead.GetMsg(ctx, sequence)
		if err != nil {
			return nil, fmt.Errorf("letter %d: %w", sequence, err)
		}
		l := letter{ID: m.Header.Get("dl-id"), Reason: m.Header.Get("dl-reason"), Index: -1, Headers: map[string]string{}, Payload: string(m.Data)}
		for name, values := range m.Header {
			l.Headers[name] = strings.Join(values, ", ")
		}
		if source, err := strconv.Atoi(l.Headers["dl-source-sequence"]); err == nil && m.Header.Get("dl-source-stream") == stream {
			l.Index = source - 1
		}
		all = append(all, l)
	}
	return all, nil
}

func (b *jetStream) close() {
	if b.nc != nil {
		b.nc.Close()
	}
	b.server.Shutdown()
	b.server.WaitForShutdown()
}
