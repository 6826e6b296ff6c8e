package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/boltstore"
	"github.com/onceward/onceward/examples/internal/billing"
	"github.com/onceward/onceward/examples/internal/service"
)

// The programs under test are this test binary, as processes of their own.
func TestMain(m *testing.M) {
	if os.Getenv("KAFKA_ORDERS_TEST") != "" {
		main()
	}
	os.Exit(m.Run())
}

// shop is a cluster with the topic, and the other side that orders are posted
// to, which keeps "slow" ones until they are let go.
type shop struct {
	t         *testing.T
	addresses string
	client    *kgo.Client
	db        string
	url       string
	slow      chan struct{}

	mu    sync.Mutex
	calls map[string]int
}

func openShop(t *testing.T) *shop {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	s := &shop{t: t, addresses: strings.Join(cluster.ListenAddrs(), ","), db: filepath.Join(t.TempDir(), "billing.db"), slow: make(chan struct{}), calls: map[string]int{}}
	if s.client, err = kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.DefaultProduceTopic("orders")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.client.Close)
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var order billing.Order
		if err := json.NewDecoder(r.Body).Decode(&order); err != nil {
			t.Error(err)
		}
		s.mu.Lock()
		s.calls[order.ID]++
		s.mu.Unlock()
		if strings.HasPrefix(order.ID, "slow") {
			select {
			case <-s.slow:
			case <-r.Context().Done():
			}
		}
	}))
	t.Cleanup(other.Close)
	s.url = other.URL
	return s
}

func (s *shop) count(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[id]
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

func (s *shop) state(id string) dedup.State {
	s.t.Helper()
	store, err := boltstore.Open(s.db, boltstore.Options{ReadOnly: true})
	if err != nil {
		s.t.Fatal(err)
	}
	defer store.Close()
	records, err := store.Lookup(s.t.Context(), []dedup.Key{{Consumer: "billing", Scope: "order.create", ID: id}})
	if err != nil {
		s.t.Fatal(err)
	}
	return records[0].State
}

func (s *shop) consume(args ...string) *program {
	s.t.Helper()
	return start(s.t, append([]string{
		"--brokers", s.addresses, "--create", "--db", s.db, "--call", s.url, "--listen", "", "--instance", "one",
	}, args...)...)
}

// program is a running kafka-orders.
type program struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdout output
	stderr output
	ended  chan struct{}
}

// output is what a process has written so far.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func start(t *testing.T, args ...string) *program {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &program{t: t, cmd: exec.CommandContext(context.WithoutCancel(t.Context()), self, args...), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), "KAFKA_ORDERS_TEST=1")
	p.cmd.Dir = t.TempDir()
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = p.cmd.Wait(); close(p.ended) }()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // mostly it has ended
		<-p.ended
		if t.Failed() {
			t.Logf("output of %v:\n%s%s", args, p.stdout.String(), p.stderr.String())
		}
	})
	return p
}

func (p *program) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// endsWith waits for the end and demands the exit status.
func (p *program) endsWith(status int, within time.Duration) {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(within):
		p.t.Fatalf("still runs after %v", within)
	}
	if got := p.cmd.ProcessState.ExitCode(); got != status {
		p.t.Fatalf("exit status %d, want %d", got, status)
	}
}

func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited 30 s for %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestSIGTERMLetsHandlersFinishAndARestartRunsNothingAgain(t *testing.T) {
	s := openShop(t)
	s.publish("order-1", "slow-1")
	p := s.consume()
	waitFor(t, "both handlers", func() bool { return s.count("order-1") == 1 && s.count("slow-1") == 1 })
	p.signal(syscall.SIGTERM)
	waitFor(t, "the drain to begin", func() bool { return strings.Contains(p.stderr.String(), "stopping") })
	close(s.slow)
	p.endsWith(service.OK, 10*time.Second)
	for _, id := range []string{"order-1", "slow-1"} {
		if state := s.state(id); state != dedup.Succeeded {
			t.Errorf("%s is %v", id, state)
		}
	}
	p = s.consume()
	s.publish("order-1", "order-2")
	waitFor(t, "the new order", func() bool { return s.count("order-2") == 1 })
	p.signal(syscall.SIGTERM)
	p.endsWith(service.OK, 10*time.Second)
	if s.count("order-1") != 1 || s.count("slow-1") != 1 {
		t.Errorf("ran %d and %d times", s.count("order-1"), s.count("slow-1"))
	}
}

func TestASecondSignalEndsAtOnce(t *testing.T) {
	s := openShop(t)
	s.publish("slow-1")
	p := s.consume()
	waitFor(t, "the handler", func() bool { return s.count("slow-1") == 1 })
	p.signal(syscall.SIGTERM)
	waitFor(t, "the drain to begin", func() bool { return strings.Contains(p.stderr.String(), "stopping") })
	p.signal(syscall.SIGTERM)
	p.endsWith(service.AtOnce, 2*time.Second)
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
	waitFor(t, "the new orders", func() bool { return s.count("new-1") == 1 && s.count("new-2") == 1 })
	p.signal(syscall.SIGTERM)
	p.endsWith(service.OK, 10*time.Second)
	if n := s.count("old-1") + s.count("old-2") + s.count("old-3"); n != 0 {
		t.Errorf("%d orders of the old group ran again", n)
	}
}

func TestTrafficIsHandled(t *testing.T) {
	s := openShop(t)
	producer := start(t, "produce", "--brokers", s.addresses, "--count", "300", "--bad", "0")
	producer.endsWith(service.OK, 20*time.Second)
	if out := producer.stdout.String(); out != "300 messages sent to orders\n" {
		t.Errorf("said %q", out)
	}
	p := s.consume()
	distinct := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.calls)
	}
	waitFor(t, "the orders", func() bool { return distinct() > 150 })
	p.signal(syscall.SIGTERM)
	p.endsWith(service.OK, 30*time.Second)
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, n := range s.calls {
		if n != 1 {
			t.Errorf("%s ran %d times", id, n)
		}
	}
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
		{"an unknown flag", []string{"--unknown"}, service.Usage, "unknown"},
		{"an unknown mechanism", []string{"--sasl", "md5", "--sasl-password-file", secret}, service.Usage, "scram-sha-256"},
		{"no password", []string{"--sasl", "plain"}, service.Usage, "--sasl-password-file"},
		{"no certificates", []string{"--ca", secret}, service.Usage, "PEM"},
		{"no cluster", []string{"--brokers", "127.0.0.1:1", "--listen", "", "--sasl", "plain", "--sasl-user", "u", "--sasl-password-file", secret}, service.Failed, "127.0.0.1:1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := start(t, c.args...)
			p.endsWith(c.status, 30*time.Second)
			log := p.stderr.String()
			if !strings.Contains(log, c.says) {
				t.Errorf("said %q, want something with %q", log, c.says)
			}
			if strings.Contains(log, "s3cret") {
				t.Errorf("a password is in the log: %s", log)
			}
		})
	}
}
