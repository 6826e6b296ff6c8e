package cli_test

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/kafkabroker"
	"github.com/onceward/onceward/cmd/onceward/internal/cli"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup/boltstore"
)

// A team that has letters of Spring Kafka looks at them, and sends them to its
// first consumer of onceward.
func TestLettersOfSpringAreWorkedOff(t *testing.T) {
	t.Parallel() // it mostly waits
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders", "orders-dlt", "orders.billing.retry", "orders.billing.dlq"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	address := cluster.ListenAddrs()[0]
	b, err := kafkabroker.Connect(t.Context(), kafkabroker.Config{Brokers: []string{address}, CommitInterval: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	springed := func(key, value, message string) brokers.Outgoing {
		return brokers.Outgoing{Topic: "orders-dlt", Key: []byte(key), Value: []byte(value), Headers: []brokers.Header{
			{Key: "tenant", Value: []byte("acme")},
			{Key: "kafka_dlt-original-topic", Value: []byte("orders")},
			{Key: "kafka_dlt-original-partition", Value: make([]byte, 4)},
			{Key: "kafka_dlt-original-offset", Value: binary.BigEndian.AppendUint64(nil, 7)},
			{Key: "kafka_dlt-exception-cause-fqcn", Value: []byte("com.example.CardRefusedException")},
			{Key: "kafka_dlt-exception-message", Value: []byte(message)},
		}}
	}
	errs := b.Publish(t.Context(), []brokers.Outgoing{
		springed("a", order("ord-1", "fine"), "card 4711 refused"), springed("b", order("ord-2", "fine"), "card 4712 refused"), springed("c", "no json", "broken"),
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}

	from := []string{"--from", "kafka://" + address + "/orders-dlt"}
	golden(t, "foreign-groups.jsonl", call(t, "dlq", "groups", "--json", from).want(t, cli.Done).stdout)
	call(t, "dlq", "list", "--envelope", "watermill", from).want(t, cli.Done).shows(t, "not in this envelope")
	store := filepath.Join(t.TempDir(), "billing.db")
	args := append(slices.Clone(from), "--store", "bolt:"+store, "--consumer", "billing", "--source", "orders", "--id-from", "field:order_id", "--scope", "order.create")
	call(t, "dlq", "list", args).want(t, cli.Failed).says(t, "--create")
	args = append(args, "--create")
	golden(t, "foreign-list.jsonl", call(t, "dlq", "list", "--json", args).want(t, cli.Done).stdout)
	plan := filepath.Join(t.TempDir(), "plan.jsonl")
	call(t, "dlq", "replay", "plan", "-o", plan, args).want(t, cli.Done).shows(t, "send", "refuse")
	// Read by another rule the letters would have other keys, and none is sent.
	call(t, "dlq", "replay", "apply", plan, "--yes", from, "--store", "bolt:"+store, "--envelope", "bare").want(t, cli.Partly).shows(t, "not read as when the plan was made")
	// The plan knows how they were read.
	call(t, "dlq", "replay", "apply", plan, "--yes", from, "--store", "bolt:"+store).want(t, cli.Partly).shows(t, "sent", "refused")
	call(t, "dlq", "replay", "apply", plan, "--yes", from, "--store", "bolt:"+store).want(t, cli.Partly)

	// The consumer that they are for.
	seen := make(chan *consumer.Delivery, 10)
	log := slog.New(slog.DiscardHandler)
	s, err := boltstore.Open(store, boltstore.Options{Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	c, err := consumer.New(consumer.Config{
		Name: "billing", Broker: b, Store: s, Topics: []string{"orders"}, StartFrom: consumer.Earliest, Logger: log,
	}, consumer.Route{Scope: "order.create", ID: consumer.Field("order_id"), Run: func(_ context.Context, d *consumer.Delivery) (consumer.Result, error) {
		seen <- d
		return nil, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	for range 2 {
		select {
		case d := <-seen:
			if len(d.Headers) != 1 || d.Header("tenant") != "acme" || len(d.BrokerKey) != 1 {
				t.Errorf("%s came with headers %v and key %q", d.Key, d.Headers, d.BrokerKey)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("no letter came back")
		}
	}
	time.Sleep(200 * time.Millisecond) // nothing tells from outside that a second copy does not come
	stop()
	if err := errors.Join(<-ended, s.Close()); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 0 {
		t.Error("a letter came twice")
	}
	call(t, "dlq", "replay", "status", plan, "--store", "bolt:"+store).want(t, cli.Partly).shows(t, "succeeded  2", "refused    1")
	// The one that is no order is given up.
	id := ids(t, args)[0]
	call(t, "dlq", "discard", id, "--reason", "no order", "--yes", args).want(t, cli.Done)
	call(t, "dlq", "groups", args).want(t, cli.Nothing)
}
