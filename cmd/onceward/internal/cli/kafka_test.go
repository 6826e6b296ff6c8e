package cli_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/kafkabroker"
	"github.com/onceward/onceward/cmd/onceward/internal/cli"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup/boltstore"
)

// The same incident on Kafka: looked at through the broker, sent back through
// the consumer.
func TestAnIncidentOnKafkaIsWorkedOff(t *testing.T) {
	t.Parallel() // it mostly waits
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "orders", "payments"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	address := cluster.ListenAddrs()[0]
	b, err := kafkabroker.Connect(t.Context(), kafkabroker.Config{
		Brokers: []string{address}, Create: true, CommitInterval: 50 * time.Millisecond, WatchInterval: 100 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	log := slog.New(slog.DiscardHandler)
	file := filepath.Join(t.TempDir(), "billing.db")
	store, err := boltstore.Open(file, boltstore.Options{Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	var mended atomic.Bool
	var ran atomic.Int64
	c, err := consumer.New(consumer.Config{
		Name: "billing", Broker: b, Store: store, Topics: []string{"orders"}, StartFrom: consumer.Earliest, Logger: log,
	}, consumer.Route{Scope: "order.create", ID: consumer.Field("order_id"), Run: func(context.Context, *consumer.Delivery) (consumer.Result, error) {
		if ran.Add(1); mended.Load() {
			return consumer.Result("booked"), nil
		}
		return nil, consumer.Terminal(errRefused)
	}})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := c.Admin(consumer.AdminConfig{})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(handler)
	defer web.Close()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	var orders []brokers.Outgoing
	for i := range 9 {
		id := fmt.Sprintf("ord-%d", i)
		orders = append(orders, brokers.Outgoing{Topic: "orders", Key: []byte(id), Value: []byte(order(id, "refuse"))})
	}
	if err := errors.Join(b.Publish(t.Context(), orders)...); err != nil {
		t.Fatal(err)
	}
	via, from := []string{"--via", web.URL}, []string{"--from", "kafka://" + address + "/orders.billing.dlq"}
	for end := time.Now().Add(20 * time.Second); len(listed(t, via)) < 9; {
		if time.Now().After(end) {
			t.Fatal("the letters do not come")
		}
		time.Sleep(50 * time.Millisecond)
	}
	call(t, "dlq", "list", from, "--limit", "2").want(t, cli.Done).says(t, "there are more")
	call(t, "dlq", "groups", from).want(t, cli.Done).shows(t, "9", "terminal")
	call(t, "dlq", "list", "--from", "kafka://"+address+"/shipments.billing.dlq").want(t, cli.Failed).says(t, "shipments.billing.dlq")
	call(t, "dlq", "list", from, "--consumer", "shipping").want(t, cli.Failed).says(t, `"billing"`, `"shipping"`)
	call(t, "doctor", via).want(t, cli.Done)

	// The topic that is read has no letters, though each message could be one.
	read := []string{"--from", "kafka://" + address + "/orders", "--consumer", "billing"}
	call(t, "dlq", "groups", read).want(t, cli.Usage).says(t, "consumer billing reads orders", "its letters lie in orders.billing.dlq")
	call(t, "dlq", "groups", read[:2]).want(t, cli.Done).says(t, "careful: orders has messages that say nothing of a failure")
	call(t, "dlq", "groups", read, "--envelope", "bare").want(t, cli.Done)

	mended.Store(true)
	plan := filepath.Join(t.TempDir(), "plan.jsonl")
	call(t, "dlq", "replay", "plan", "-o", plan, via).want(t, cli.Done).shows(t, "reopen      9")
	call(t, "dlq", "replay", "apply", plan, "--yes", "--canary", "3", via).want(t, cli.Done).shows(t, "9 of 9", "answered")
	call(t, "dlq", "replay", "status", plan, "--wait", "20s", via).want(t, cli.Done).shows(t, "succeeded  9")
	if n := ran.Load(); n != 18 {
		t.Errorf("handlers ran %d times, want 18", n)
	}
	stop()
	if err := errors.Join(<-ended, store.Close()); err != nil {
		t.Fatal(err)
	}
	// With the consumer stopped, the same from its file, and from no other.
	call(t, "dlq", "resolve", nobody, "--reason", "x", "--yes", from, "--store", "bolt:"+file+".new", "--create").want(t, cli.Failed).says(t, "consumed last with store")
	call(t, "dlq", "resolve", nobody, "--reason", "x", "--yes", from, "--store", "bolt:"+file).want(t, cli.Nothing)
	call(t, "dlq", "replay", "status", plan, "--store", "bolt:"+file).want(t, cli.Done).shows(t, "succeeded  9")
	call(t, "dlq", "list", from, "--store", "bolt:"+file, "--state", "resolved").want(t, cli.Done).shows(t, "ord-8")
}

// listed are the dl-ids of a list that may be empty.
func listed(t *testing.T, args ...any) []string {
	t.Helper()
	r := call(t, append([]any{"dlq", "list", "--json"}, args...)...)
	return longID.FindAllString(r.stdout, -1)
}
