package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
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

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/boltstore"
	"github.com/onceward/onceward/examples/internal/billing"
	"github.com/onceward/onceward/examples/internal/service"
)

// The programs under test are this test binary, as processes of their own.
func TestMain(m *testing.M) {
	if os.Getenv("NATS_ORDERS_TEST") != "" {
		main()
	}
	os.Exit(m.Run())
}

// shop is a NATS server with the stream, and the other side that orders are
// posted to.
type shop struct {
	t    *testing.T
	url  string
	js   jetstream.JetStream
	db   string
	side *otherSide
}

func openShop(t *testing.T) *shop {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("NATS server does not answer")
	}
	nc, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return &shop{t: t, url: s.ClientURL(), js: js, db: filepath.Join(t.TempDir(), "billing.db"), side: openOtherSide(t)}
}

// otherSide answers each order as its id says: "slow" ones when they are let
// go, "later" ones with 503, "refused" ones with 422.
type otherSide struct {
	url   string
	slow  chan struct{} // closed to let go
	mu    sync.Mutex
	calls map[string]int
	keys  map[string]string // Idempotency-Key by order
}

func openOtherSide(t *testing.T) *otherSide {
	o := &otherSide{slow: make(chan struct{}), calls: map[string]int{}, keys: map[string]string{}}
	s := httptest.NewServer(http.HandlerFunc(o.answer))
	o.url = s.URL
	t.Cleanup(s.Close)
	return o
}

func (o *otherSide) answer(w http.ResponseWriter, r *http.Request) {
	var order billing.Order
	if err := json.NewDecoder(r.Body).Decode(&order); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	o.mu.Lock()
	o.calls[order.ID]++
	o.keys[order.ID] = r.Header.Get("Idempotency-Key")
	o.mu.Unlock()
	switch kind, _, _ := strings.Cut(order.ID, "-"); kind {
	case "slow":
		select {
		case <-o.slow:
		case <-r.Context().Done():
		}
	case "later":
		w.WriteHeader(http.StatusServiceUnavailable)
	case "refused":
		w.WriteHeader(http.StatusUnprocessableEntity)
	}
}

func (o *otherSide) count(id string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.calls[id]
}

func (s *shop) publish(ids ...string) {
	s.t.Helper()
	for _, id := range ids {
		text := fmt.Sprintf(`{"order_id":%q,"customer_id":%q,"cents":100}`, id, "customer of "+id)
		if _, err := s.js.Publish(s.t.Context(), "ORDERS.created", []byte(text)); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *shop) stream(name, subject string, retention jetstream.RetentionPolicy) {
	s.t.Helper()
	_, err := s.js.CreateStream(s.t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{subject}, Retention: retention, Discard: jetstream.DiscardNew})
	if err != nil {
		s.t.Fatal(err)
	}
}

// letters is how many there are.
func (s *shop) letters() int {
	s.t.Helper()
	dead, err := s.js.Stream(s.t.Context(), "ORDERS_DLQ")
	if err != nil {
		s.t.Fatal(err)
	}
	return int(dead.CachedInfo().State.Msgs)
}

// record reads what a consumer that has ended left behind.
func (s *shop) record(id string) dedup.Record {
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
	return records[0]
}

// program is a running nats-orders.
type program struct {
	t      *testing.T
	cmd    *exec.Cmd
	stderr output
	stdout output
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

func start(t *testing.T, env []string, args ...string) *program {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &program{t: t, cmd: exec.Command(self, args...), ended: make(chan struct{})}
	p.cmd.Env = append(append(os.Environ(), "NATS_ORDERS_TEST=1"), env...)
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

// consume starts a consumer of the shop's.
func (s *shop) consume(args ...string) *program {
	s.t.Helper()
	return start(s.t, nil, append([]string{
		"--url", s.url, "--create", "--db", s.db, "--call", s.side.url, "--listen", "127.0.0.1:0", "--ack-wait", "1s",
	}, args...)...)
}

// health is the address of its health endpoints, from its log.
func (p *program) health() string {
	p.t.Helper()
	address := ""
	p.t.Helper()
	waitFor(p.t, "the address of the health endpoints", func() bool {
		for line := range strings.Lines(p.stderr.String()) {
			var entry struct{ Msg, Address string }
			if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "health endpoints" {
				address = entry.Address
			}
		}
		return address != ""
	})
	return "http://" + address
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

func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
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

// What SIGTERM may cost: nothing. Not a letter, not a counted failure.
func TestSIGTERMWhileHandlingWaitingAndDeadLetteringEndsInOrder(t *testing.T) {
	s := openShop(t)
	s.stream("ORDERS", "ORDERS.>", jetstream.LimitsPolicy)
	s.stream("ORDERS_DLQ", "ORDERS_DLQ.>", jetstream.LimitsPolicy)
	const drain = 2 * time.Second
	p := s.consume("--drain", drain.String())
	waitFor(t, "readiness", func() bool { code, _ := get(t, p.health()+"/readyz"); return code == http.StatusOK })
	// A letter that cannot be delivered: its stream is gone.
	if err := s.js.DeleteStream(t.Context(), "ORDERS_DLQ"); err != nil {
		t.Fatal(err)
	}
	s.publish("slow-1", "slow-2", "later-1", "refused-1")
	waitFor(t, "all handlers", func() bool {
		return s.side.count("slow-1")*s.side.count("slow-2")*s.side.count("later-1")*s.side.count("refused-1") > 0
	})
	waitFor(t, "the letter's trouble to be told", func() bool {
		_, body := get(t, p.health()+"/status")
		return strings.Contains(body, "degraded")
	})
	if code, _ := get(t, p.health()+"/readyz"); code != http.StatusOK {
		t.Errorf("trouble with letters made it unready: %d", code)
	}
	laterCalls := s.side.count("later-1")
	began := time.Now()
	p.signal(syscall.SIGTERM)
	p.endsWith(service.OK, drain+3*time.Second)
	if took := time.Since(began); took > drain+2*time.Second {
		t.Errorf("took %v to stop, the drain is %v", took, drain)
	}

	for _, id := range []string{"slow-1", "slow-2"} {
		if r := s.record(id); r.State != dedup.Retryable || r.Failures != 0 || r.Crashes != 0 {
			t.Errorf("%s was cut short: %v, %d failures, %d crashes", id, r.State, r.Failures, r.Crashes)
		}
	}
	if r := s.record("later-1"); r.State != dedup.Retryable || int(r.Failures) > laterCalls {
		t.Errorf("later-1 waited: %v, %d failures of %d calls before", r.State, r.Failures, laterCalls)
	}
	if r := s.record("refused-1"); r.State != dedup.Failed || !r.Owed {
		t.Errorf("refused-1 has its letter to come: %v, owed %v", r.State, r.Owed)
	}

	// Another process goes on where this one stopped.
	s.stream("ORDERS_DLQ", "ORDERS_DLQ.>", jetstream.LimitsPolicy)
	close(s.side.slow)
	p = s.consume("--drain", drain.String())
	waitFor(t, "the letter", func() bool { return s.letters() == 1 })
	waitFor(t, "the slow ones to be done", func() bool { return s.side.count("slow-1") == 2 && s.side.count("slow-2") == 2 })
	p.signal(os.Interrupt)
	p.endsWith(service.OK, drain+3*time.Second)
	if n := s.side.count("refused-1"); n != 1 {
		t.Errorf("the handler ran %d times for a letter that was owed", n)
	}
	for _, id := range []string{"slow-1", "slow-2"} {
		if r := s.record(id); r.State != dedup.Succeeded {
			t.Errorf("%s is %v", id, r.State)
		}
	}
	if r := s.record("refused-1"); r.Owed {
		t.Error("the letter is written and still owed")
	}
}

func TestAHandlerThatFinishesInTheDrainIsDone(t *testing.T) {
	s := openShop(t)
	p := s.consume()
	waitFor(t, "readiness", func() bool { code, _ := get(t, p.health()+"/readyz"); return code == http.StatusOK })
	s.publish("slow-1")
	waitFor(t, "the handler", func() bool { return s.side.count("slow-1") == 1 })
	p.signal(syscall.SIGTERM)
	waitFor(t, "the drain to begin", func() bool { return strings.Contains(p.stderr.String(), "stopping") })
	close(s.side.slow)
	p.endsWith(service.OK, 5*time.Second)
	if r := s.record("slow-1"); r.State != dedup.Succeeded {
		t.Errorf("record is %v", r.State)
	}
	if key := s.side.keys["slow-1"]; len(key) != 32 {
		t.Errorf("Idempotency-Key %q", key)
	}
	durable, err := s.js.Consumer(t.Context(), "ORDERS", "billing")
	if err != nil {
		t.Fatal(err)
	}
	if i := durable.CachedInfo(); i.NumAckPending != 0 || i.NumPending != 0 {
		t.Errorf("%d unacknowledged, %d pending", i.NumAckPending, i.NumPending)
	}
}

func TestASecondSignalEndsAtOnce(t *testing.T) {
	s := openShop(t)
	p := s.consume()
	waitFor(t, "readiness", func() bool { code, _ := get(t, p.health()+"/readyz"); return code == http.StatusOK })
	s.publish("slow-1")
	waitFor(t, "the handler", func() bool { return s.side.count("slow-1") == 1 })
	p.signal(syscall.SIGTERM)
	waitFor(t, "the drain to begin", func() bool { return strings.Contains(p.stderr.String(), "stopping") })
	p.signal(syscall.SIGTERM)
	p.endsWith(service.AtOnce, 2*time.Second)
	if r := s.record("slow-1"); r.State != dedup.InProgress {
		t.Errorf("record is %v", r.State)
	}
}

func TestASecondProcessWithAFileOfItsOwnNamesTheFirst(t *testing.T) {
	s := openShop(t)
	p := s.consume()
	waitFor(t, "readiness", func() bool { code, _ := get(t, p.health()+"/readyz"); return code == http.StatusOK })
	s.publish("order-1")
	waitFor(t, "the order", func() bool { return s.side.count("order-1") == 1 })
	other := s.consume("--db", filepath.Join(t.TempDir(), "other.db"))
	other.endsWith(service.Failed, 30*time.Second)
	if log := other.stderr.String(); !strings.Contains(log, "store") || !strings.Contains(log, "--adopt") && !strings.Contains(log, "Adopt") {
		t.Errorf("the error does not say how to go on: %s", log)
	}
	if n := s.side.count("order-1"); n != 1 {
		t.Errorf("the handler ran %d times", n)
	}
	p.signal(syscall.SIGTERM)
	p.endsWith(service.OK, 10*time.Second)
}

func TestTrafficIsHandled(t *testing.T) {
	s := openShop(t)
	p := s.consume("--call", "")
	waitFor(t, "readiness", func() bool { code, _ := get(t, p.health()+"/readyz"); return code == http.StatusOK })
	producer := start(t, []string{"NATS_ORDERS_URL=" + s.url}, "produce", "--count", "300", "--bad", "0.1")
	producer.endsWith(service.OK, 20*time.Second)
	if out := producer.stdout.String(); out != "300 messages sent to ORDERS\n" {
		t.Errorf("said %q", out)
	}
	waitFor(t, "all to be acknowledged", func() bool {
		durable, err := s.js.Consumer(t.Context(), "ORDERS", "billing")
		if err != nil {
			t.Fatal(err)
		}
		i := durable.CachedInfo()
		return i.NumPending == 0 && i.NumAckPending == 0
	})
	p.signal(syscall.SIGTERM)
	p.endsWith(service.OK, 10*time.Second)
	if n := s.letters(); n < 5 || n > 80 {
		t.Errorf("%d letters of 300 messages, of which a tenth cannot be read", n)
	}
}

func TestProducingWithoutAStreamSaysWhatToDo(t *testing.T) {
	s := openShop(t)
	p := start(t, nil, "produce", "--url", s.url, "--count", "1")
	p.endsWith(service.Failed, 20*time.Second)
	if log := p.stderr.String(); !strings.Contains(log, "--create") {
		t.Errorf("said %s", log)
	}
}

func TestExitStatusesAreAsDocumented(t *testing.T) {
	for _, c := range []struct {
		name   string
		env    []string
		args   []string
		status int
		says   string
	}{
		{"help", nil, []string{"--help"}, service.OK, "NATS_ORDERS_"},
		{"an unknown flag", nil, []string{"--unknown"}, service.Usage, "unknown"},
		{"an argument too many", nil, []string{"orders"}, service.Usage, "orders"},
		{"a wrong variable", []string{"NATS_ORDERS_DRAIN=soon"}, nil, service.Usage, "NATS_ORDERS_DRAIN"},
		{"a wrong start", nil, []string{"--start", "yesterday"}, service.Usage, "earliest or latest"},
		{"a wrong share", nil, []string{"produce", "--repeats", "2"}, service.Usage, "--repeats"},
		{"no server", nil, []string{"--url", "nats://user:s3cret@127.0.0.1:1", "--listen", ""}, service.Failed, "127.0.0.1:1"},
		{"no place for the file", nil, []string{"--db", "/nowhere/at/all.db", "--listen", ""}, service.Failed, "/nowhere"},
		{"an address in use", nil, []string{"--listen", "256.0.0.1:1"}, service.Failed, "256.0.0.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := start(t, c.env, c.args...)
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

// How to remove onceward again: the durable is an ordinary one.
func TestAPlainConsumerGoesOnWhereOncewardStopped(t *testing.T) {
	s := openShop(t)
	p := s.consume()
	waitFor(t, "readiness", func() bool { code, _ := get(t, p.health()+"/readyz"); return code == http.StatusOK })
	s.publish("order-1", "order-2")
	waitFor(t, "the orders", func() bool { return s.side.count("order-1") == 1 && s.side.count("order-2") == 1 })
	p.signal(syscall.SIGTERM)
	p.endsWith(service.OK, 10*time.Second)
	s.publish("order-3")

	durable, err := s.js.Consumer(t.Context(), "ORDERS", "billing")
	if err != nil {
		t.Fatal(err)
	}
	m, err := durable.Next(jetstream.FetchMaxWait(5 * time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(m.Data()), "order-3") {
		t.Errorf("goes on at %s", m.Data())
	}
	if err := m.DoubleAck(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := durable.Next(jetstream.FetchMaxWait(2 * time.Second)); err == nil { // longer than its AckWait
		t.Error("there is another message, though only order-3 was left")
	}
	if waiting, err := s.js.Stream(t.Context(), "ORDERS_RETRY"); err != nil || waiting.CachedInfo().State.Msgs != 0 {
		t.Errorf("the retry stream is not empty: %v", err)
	}
}
