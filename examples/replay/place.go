package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/kafkabroker"
	"github.com/onceward/onceward/brokers/natsbroker"
	"github.com/onceward/onceward/deadletter"
)

// place is where the orders lie: what every process must know.
type place struct {
	Kafka   bool
	Address string
	Topic   string // or stream
	Publish string // topic or subject
	Name    string // of the consumer
}

// connection is what an adapter's Connect gives.
type connection interface {
	brokers.Broker
	brokers.Browser
}

func (p place) connect(ctx context.Context) (connection, error) {
	if p.Kafka {
		return kafkabroker.Connect(ctx, kafkabroker.Config{
			Brokers: strings.Split(p.Address, ","), Create: true, InstanceID: "replay", CommitInterval: 100 * time.Millisecond,
		})
	}
	return natsbroker.Connect(ctx, natsbroker.Config{URL: p.Address, Create: true, AckWait: 2 * time.Second})
}

// queue is the consumer's letters.
func (p place) queue(b brokers.Broker, s deadletter.Store) *deadletter.Queue {
	return &deadletter.Queue{
		Topic: b.Destinations(p.Name, p.Topic).DeadLetter, Consumer: p.Name, Broker: b.(connection), Store: s,
	}
}

// startedBroker is one that the run has started, or topics that it has made.
type startedBroker interface {
	place() place
	close()
}

func startBroker(ctx context.Context, o options, folder string) (startedBroker, error) {
	if o.kafka == "" {
		return startJetStream(ctx, folder)
	}
	return startKafka(ctx, o.kafka)
}

type jetStream struct{ server *server.Server }

func startJetStream(ctx context.Context, folder string) (*jetStream, error) {
	s, err := server.NewServer(&server.Options{
		ServerName: "replay", Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: folder, NoSigs: true, NoLog: true,
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
	if err := b.makeStream(ctx); err != nil {
		b.close()
		return nil, fmt.Errorf("NATS server: %w", err)
	}
	return b, nil
}

func (b *jetStream) makeStream(ctx context.Context) error {
	nc, err := nats.Connect(b.server.ClientURL())
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"ORDERS.>"}})
	return err
}

func (b *jetStream) place() place {
	return place{Address: b.server.ClientURL(), Topic: "ORDERS", Publish: "ORDERS.created", Name: "billing"}
}

func (b *jetStream) close() {
	b.server.Shutdown()
	b.server.WaitForShutdown()
}

// kafkaTopics are topics of this run's own in a cluster.
type kafkaTopics struct {
	cluster *kfake.Cluster // nil when it is somebody else's
	at      place
	client  *kafka.Client
}

func startKafka(ctx context.Context, addresses string) (*kafkaTopics, error) {
	b := &kafkaTopics{}
	if addresses == "embedded" {
		var err error
		if b.cluster, err = kfake.NewCluster(kfake.NumBrokers(1)); err != nil {
			return nil, fmt.Errorf("Kafka cluster: %w", err)
		}
		addresses = strings.Join(b.cluster.ListenAddrs(), ",")
	}
	topic := "onceward-replay-" + strings.ToLower(rand.Text()[:8])
	b.at = place{Kafka: true, Address: addresses, Topic: topic, Publish: topic, Name: topic + "-billing"}
	b.client = &kafka.Client{Addr: kafka.TCP(strings.Split(addresses, ",")...), Timeout: 30 * time.Second}
	made, err := b.client.CreateTopics(ctx, &kafka.CreateTopicsRequest{
		Topics: []kafka.TopicConfig{{Topic: topic, NumPartitions: 4, ReplicationFactor: -1}},
	})
	if err == nil {
		err = made.Errors[topic]
	}
	if err != nil {
		b.close()
		return nil, fmt.Errorf("Kafka at %s: %w", addresses, err)
	}
	return b, nil
}

func (b *kafkaTopics) place() place { return b.at }

// close removes what was made in a cluster of somebody else's.
func (b *kafkaTopics) close() {
	if b.cluster != nil {
		b.cluster.Close()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	// What cannot be removed is named after this program.
	_, _ = b.client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{
		b.at.Topic, b.at.Topic + "." + b.at.Name + ".dlq", b.at.Topic + "." + b.at.Name + ".retry",
	}})
	_, _ = b.client.DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{b.at.Name}})
}
