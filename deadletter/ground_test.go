package deadletter_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/kafkabroker"
	"github.com/onceward/onceward/brokers/membroker"
	"github.com/onceward/onceward/brokers/natsbroker"
	"github.com/onceward/onceward/internal/memnet"
	"github.com/onceward/onceward/internal/natstest"
)

// browsing is what an adapter's Connect gives.
type browsing interface {
	brokers.Broker
	brokers.Browser
}

// ground is a broker that a test has for itself.
type ground struct {
	topic, publish string // publish is a subject, on JetStream
	connect        func() (browsing, error)
	// drop removes what lies below an offset, as retention does.
	drop func(topic string, partition int32, below int64) error
	// setBack lets consumer "billing", which does not run, begin at the first
	// message again.
	setBack func() error
	// rest stops the server for a while, where it would have much to do while
	// days pass.
	rest func(time.Duration)
	mem  *membroker.Broker // nil elsewhere
}

// grounds are reached through sockets; those inside can be in a bubble. dir is
// for the files of a server.
var (
	grounds = map[string]func(t *testing.T) ground{"membroker": memGround, "JetStream": natsGround, "Kafka": kafkaGround}
	insides = map[string]func(t *testing.T, dir string) ground{
		"membroker": func(t *testing.T, _ string) ground { return memGround(t) }, "JetStream": natsInside, "Kafka": kafkaInside,
	}
)

// stays is a connection that lasts as long as its broker.
type stays struct{ *membroker.Broker }

func (stays) Close() error { return nil }

func memGround(*testing.T) ground {
	b := membroker.New(membroker.Config{Topics: map[string]int{"orders": 2}})
	return ground{
		topic: "orders", publish: "orders", connect: func() (browsing, error) { return stays{b}, nil }, rest: time.Sleep, mem: b,
		drop: func(topic string, partition int32, below int64) error {
			b.DropBelow(topic, partition, below)
			return nil
		},
		setBack: func() error { // the same messages, where nobody has a position
			was := b
			b = membroker.New(membroker.Config{Topics: map[string]int{"orders": 2}})
			for _, m := range was.Messages("orders") {
				b.Produce("orders", brokers.Outgoing{Partition: &m.Partition, Key: m.Key, Value: m.Value, Headers: m.Headers})
			}
			return nil
		},
	}
}

func natsGround(t *testing.T) ground {
	s := natstest.Serve(t, func(o *server.Options) { o.MaxPayload = 2 << 20 })
	return natsAt(t, natsbroker.Config{URL: s.ClientURL(), AckWait: 2 * time.Second})
}

func natsInside(t *testing.T, dir string) ground {
	s := natstest.Inside(t, dir)
	g := natsAt(t, natsbroker.Config{URL: "nats://inside:4222", Options: []nats.Option{nats.InProcessServer(s)}})
	g.rest = func(d time.Duration) {
		s.Stop()
		time.Sleep(d)
		s.Start()
	}
	return g
}

func natsAt(t *testing.T, cfg natsbroker.Config) ground {
	cfg.Create = true
	beside := func(do func(jetstream.JetStream) error) error {
		b, err := natsbroker.Connect(t.Context(), cfg)
		if err != nil {
			return err
		}
		js, err := jetstream.New(b.Conn())
		if err == nil {
			err = do(js)
		}
		return errors.Join(err, b.Close())
	}
	if err := beside(func(js jetstream.JetStream) error {
		_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"ORDERS.>"}})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return ground{
		topic: "ORDERS", publish: "ORDERS.created",
		connect: func() (browsing, error) { return natsbroker.Connect(t.Context(), cfg) },
		setBack: func() error {
			return beside(func(js jetstream.JetStream) error { return js.DeleteConsumer(t.Context(), "ORDERS", "billing") })
		},
		drop: func(topic string, _ int32, below int64) error {
			return beside(func(js jetstream.JetStream) error {
				name, _, _ := strings.Cut(topic, ".")
				stream, err := js.Stream(t.Context(), name)
				if err != nil {
					return err
				}
				return stream.Purge(t.Context(), jetstream.WithPurgeSequence(uint64(below)))
			})
		},
	}
}

func kafkaGround(t *testing.T) ground {
	return kafkaAt(t, kafkabroker.Config{CommitInterval: 50 * time.Millisecond, WatchInterval: 100 * time.Millisecond}, net.Listen)
}

func kafkaInside(t *testing.T, _ string) ground {
	network := memnet.New()
	return kafkaAt(t, kafkabroker.Config{Dial: network.DialContext}, network.Listen)
}

func kafkaAt(t *testing.T, cfg kafkabroker.Config, listen func(network, address string) (net.Listener, error)) ground {
	const partitions = 3
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, "orders"), kfake.ListenFn(listen))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	cfg.Brokers, cfg.Create = cluster.ListenAddrs(), true
	return ground{
		topic: "orders", publish: "orders",
		connect: func() (browsing, error) { return kafkabroker.Connect(t.Context(), cfg) }, rest: time.Sleep,
		drop: func(topic string, partition int32, below int64) error {
			req, of, at := kmsg.NewPtrDeleteRecordsRequest(), kmsg.NewDeleteRecordsRequestTopic(), kmsg.NewDeleteRecordsRequestTopicPartition()
			at.Partition, at.Offset = partition, below
			of.Topic, of.Partitions = topic, append(of.Partitions, at)
			req.Topics, req.TimeoutMillis = append(req.Topics, of), 5000
			got, err := asked(t.Context(), cfg, req)
			if err != nil {
				return err
			}
			return kerr.ErrorForCode(got.Topics[0].Partitions[0].ErrorCode)
		},
		setBack: func() error {
			req, of := kmsg.NewPtrOffsetCommitRequest(), kmsg.NewOffsetCommitRequestTopic()
			for partition := range int32(partitions) {
				at := kmsg.NewOffsetCommitRequestTopicPartition()
				at.Partition = partition
				of.Partitions = append(of.Partitions, at)
			}
			of.Topic = "orders"
			req.Group, req.Topics = "billing", append(req.Topics, of)
			got, err := asked(t.Context(), cfg, req, kgo.MaxVersions(kversion.V3_0_0())) // later ones know topics by their ids
			if err != nil {
				return err
			}
			return kerr.ErrorForCode(got.Topics[0].Partitions[0].ErrorCode)
		},
	}
}

// asked is the answer to a request of a plain client.
func asked[R any](ctx context.Context, cfg kafkabroker.Config, req interface {
	RequestWith(ctx context.Context, r kmsg.Requestor) (R, error)
}, options ...kgo.Opt) (none R, err error) {
	options = append(options, kgo.SeedBrokers(cfg.Brokers...))
	if cfg.Dial != nil {
		options = append(options, kgo.Dialer(cfg.Dial))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return none, err
	}
	defer client.Close()
	return req.RequestWith(ctx, client)
}
