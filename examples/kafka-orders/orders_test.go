package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/examples/internal/programtest"
	"github.com/onceward/onceward/examples/internal/service"
)

func TestMain(m *testing.M) { programtest.Main(m, main) }

// shop is a cluster with the topic, and the other side that orders are posted
// to.
type shop struct {
	t         *testing.T
	addresses string
	client    *kgo.Client
	db        string
	side      *programtest.OtherSide
}

func openShop(t *testing.T) *shop {
	t.Helper()
	return openShopOn(t, kfake.SeedTopics(4, "orders"))
}

func openShopOn(t *testing.T, more ...kfake.Opt) *shop {
	t.Helper()
	cluster, err := kfake.NewCluster(append(more, kfake.NumBrokers(1))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	s := &shop{t: t, addresses: strings.Join(cluster.ListenAddrs(), ","), db: filepath.Join(t.TempDir(), "billing.db"), side: programtest.OpenOtherSide(t)}
	if s.client, err = kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.DefaultProduceTopic("orders")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.client.Close)
	return s
}

func (s *shop) publish(ids ...string) {
	s.t.Helper()
	for _, id := range ids {
		text := fmt.Appendf(nil, `{"order_id":%q,"customer_id":"c","cents":100}`, id)
		if err := s.client.ProduceSync(s.t.Context(), &kgo.Record{Value: text, Key: []byte(id)}).FirstErr(); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *shop) consume(args ...string) *programtest.Program {
	s.t.Helper()
	return programtest.Start(s.t, nil, append([]string{
		"--brokers", s.addresses, "--create", "--db", s.db, "--call", s.side.URL, "--listen", "", "--instance", "one",
	}, args...)...)
}

func TestSIGTERMLetsHandlersFinishAndARestartRunsNothingAgain(t *testing.T) {
	s := openShop(t)
	s.publish("order-1", "slow-1")
	p := s.consume()
	programtest.WaitFor(t, "both handlers", func() bool { return s.side.Calls("order-1") == 1 && s.side.Calls("slow-1") == 1 })
	p.Signal(syscall.SIGTERM)
	p.Stopping()
	close(s.side.Slow)
	p.EndsWith(service.OK, 10*time.Second)
	for _, id := range []string{"order-1", "slow-1"} {
		if state := programtest.Record(t, s.db, id).State; state != dedup.Succeeded {
			t.Errorf("%s is %v", id, state)
		}
	}
	p = s.consume()
	s.publish("order-1", "order-2")
	programtest.WaitFor(t, "the new order", func() bool { return s.side.Calls("order-2") == 1 })
	p.Signal(syscall.SIGTERM)
	p.EndsWith(service.OK, 10*time.Second)
	if s.side.Calls("order-1") != 1 || s.side.Calls("slow-1") != 1 {
		t.Errorf("ran %d and %d times", s.side.Calls("order-1"), s.side.Calls("slow-1"))
	}
}

func TestASecondSignalEndsAtOnce(t *testing.T) {
	s := openShop(t)
	s.publish("slow-1")
	p := s.consume()
	programtest.WaitFor(t, "the handler", func() bool { return s.side.Calls("slow-1") == 1 })
	p.Signal(syscall.SIGTERM)
	p.Stopping()
	time.Sleep(300 * time.Millisecond) // in real time: what comes sooner is the same request
	p.Signal(syscall.SIGTERM)
	p.EndsWith(service.AtOnce, 2*time.Second)
}

// Whoever did the work before has committed how far: history does not run
// again.
func TestANewConsumerTakesOverWhereTheOldGroupStands(t *testing.T) {
	s := openShop(t)
	s.publish("old-1", "old-2", "old-3")
	before, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(s.addresses, ",")...), kgo.ConsumeTopics("orders"), kgo.ConsumerGroup("hand-written"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(),
	)
	if err != nil {
		t.Fatal(err)
	}
	for seen := 0; seen < 3; {
		seen += before.PollFetches(t.Context()).NumRecords()
	}
	if err := before.CommitUncommittedOffsets(t.Context()); err != nil {
		t.Fatal(err)
	}
	before.Close()
	s.publish("new-1", "new-2")
	p := s.consume("--take-over", "hand-written")
	programtest.WaitFor(t, "the new orders", func() bool { return s.side.Calls("new-1") == 1 && s.side.Calls("new-2") == 1 })
	p.Signal(syscall.SIGTERM)
	p.EndsWith(service.OK, 10*time.Second)
	if n := s.side.Calls("old-1") + s.side.Calls("old-2") + s.side.Calls("old-3"); n != 0 {
		t.Errorf("%d orders of the old group ran again", n)
	}
}

func TestTrafficIsHandled(t *testing.T) {
	s := openShop(t)
	producer := programtest.Start(t, nil, "produce", "--brokers", s.addresses, "--count", "300", "--bad", "0")
	producer.EndsWith(service.OK, 20*time.Second)
	if out := producer.Stdout.String(); out != "300 messages sent to orders\n" {
		t.Errorf("said %q", out)
	}
	p := s.consume()
	programtest.WaitFor(t, "the orders", func() bool { return len(s.side.All()) > 150 })
	p.Signal(syscall.SIGTERM)
	p.EndsWith(service.OK, 30*time.Second)
	for id, n := range s.side.All() {
		if n != 1 {
			t.Errorf("%s ran %d times", id, n)
		}
	}
}

// On a fresh cluster each command says what is missing, and the first of the two
// in the readme makes the topic.
func TestTheTopicIsMadeWhereTheProducerIsTold(t *testing.T) {
	s := openShopOn(t)
	for _, args := range [][]string{{"produce"}, {"--create", "--listen", "", "--db", s.db}} {
		p := programtest.Start(t, nil, append(args, "--brokers", s.addresses)...)
		p.EndsWith(service.Failed, 30*time.Second)
		if log := p.Stderr.String(); !strings.Contains(log, "kafka-topics") || !strings.Contains(log, "--create --topic orders") {
			t.Errorf("%v: %s", args, log)
		}
	}
	for range 2 { // it is there the second time
		p := programtest.Start(t, nil, "produce", "--brokers", s.addresses, "--create", "--count", "10", "--bad", "0")
		p.EndsWith(service.OK, 20*time.Second)
	}
	p := s.consume()
	programtest.WaitFor(t, "the orders", func() bool { return len(s.side.All()) > 5 })
	p.Signal(syscall.SIGTERM)
	p.EndsWith(service.OK, 30*time.Second)
}

func TestExitStatusesAreAsDocumented(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(secret, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		args   []string
		status int
		says   string
	}{
		{"help", []string{"--help"}, service.OK, "KAFKA_ORDERS_"},
		{"help on health", []string{"--help"}, service.OK, "/readyz"},
		{"help on statuses", []string{"--help"}, service.OK, "130 a second signal"},
		{"an unknown flag", []string{"--unknown"}, service.Usage, "unknown"},
		{"an unknown mechanism", []string{"--sasl", "md5", "--sasl-password-file", secret}, service.Usage, "scram-sha-256"},
		{"no password", []string{"--sasl", "plain"}, service.Usage, "--sasl-password-file"},
		{"no certificates", []string{"--ca", secret}, service.Usage, "PEM"},
		{"no cluster", []string{"--brokers", "127.0.0.1:1", "--listen", "", "--sasl", "plain", "--sasl-user", "u", "--sasl-password-file", secret}, service.Failed, "127.0.0.1:1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := programtest.Start(t, nil, c.args...)
			p.EndsWith(c.status, 30*time.Second)
			log := p.Stderr.String()
			if !strings.Contains(log, c.says) {
				t.Errorf("said %q, want something with %q", log, c.says)
			}
			if strings.Contains(log, "s3cret") {
				t.Errorf("a password is in the log: %s", log)
			}
		})
	}
}
