package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/examples/internal/programtest"
	"github.com/onceward/onceward/examples/internal/service"
	"github.com/onceward/onceward/internal/natstest"
)

func TestMain(m *testing.M) { programtest.Main(m, main) }

// shop is a NATS server with the stream, and the other side that orders are
// posted to.
type shop struct {
	t    *testing.T
	url  string
	js   jetstream.JetStream
	db   string
	side *programtest.OtherSide
}

func openShop(t *testing.T) *shop {
	t.Helper()
	s := natstest.Serve(t)
	return &shop{t: t, url: s.ClientURL(), js: natstest.Client(t, s.ClientURL()), db: filepath.Join(t.TempDir(), "billing.db"), side: programtest.OpenOtherSide(t)}
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

// consume starts a consumer of the shop's.
func (s *shop) consume(args ...string) *programtest.Program {
	s.t.Helper()
	return programtest.Start(s.t, nil, append([]string{
		"--url", s.url, "--create", "--db", s.db, "--call", s.side.URL, "--listen", "127.0.0.1:0", "--ack-wait", "1s",
	}, args...)...)
}

// What SIGTERM may cost: nothing. Not a letter, not a counted failure.
func TestSIGTERMWhileHandlingWaitingAndDeadLetteringEndsInOrder(t *testing.T) {
	s := openShop(t)
	s.stream("ORDERS", "ORDERS.>", jetstream.LimitsPolicy)
	s.stream("ORDERS_DLQ", "ORDERS_DLQ.>", jetstream.LimitsPolicy)
	const drain = 2 * time.Second
	p := s.consume("--drain", drain.String())
	p.Ready()
	// A letter that cannot be delivered: its stream is gone.
	if err := s.js.DeleteStream(t.Context(), "ORDERS_DLQ"); err != nil {
		t.Fatal(err)
	}
	s.publish("slow-1", "slow-2", "later-1", "refused-1")
	programtest.WaitFor(t, "all handlers", func() bool {
		return s.side.Calls("slow-1")*s.side.Calls("slow-2")*s.side.Calls("later-1")*s.side.Calls("refused-1") > 0
	})
	programtest.WaitFor(t, "the letter's trouble to be told", func() bool {
		_, body := programtest.Get(t, p.Health()+"/status")
		return strings.Contains(body, "degraded")
	})
	if code, _ := programtest.Get(t, p.Health()+"/readyz"); code != http.StatusOK {
		t.Errorf("trouble with letters made it unready: %d", code)
	}
	laterCalls := s.side.Calls("later-1")
	began := time.Now()
	p.Signal(syscall.SIGTERM)
	p.EndsWith(service.OK, drain+3*time.Second)
	if took := time.Since(began); took > drain+2*time.Second {
		t.Errorf("took %v to stop, the drain is %v", took, drain)
	}

	for _, id := range []string{"slow-1", "slow-2"} {
		if r := programtest.Record(t, s.db, id); r.State != dedup.Retryable || r.Failures != 0 || r.Crashes != 0 {
			t.Errorf("%s was cut short: %v, %d failures, %d crashes", id, r.State, r.Failures, r.Crashes)
		}
	}
	if r := programtest.Record(t, s.db, "later-1"); r.State != dedup.Retryable || int(r.Failures) > laterCalls {
		t.Errorf("later-1 waited: %v, %d failures of %d calls before", r.State, r.Failures, laterCalls)
	}
	if r := programtest.Record(t, s.db, "refused-1"); r.State != dedup.Failed || !r.Owed {
		t.Errorf("refused-1 has its letter to come: %v, owed %v", r.State, r.Owed)
	}

	// Another process goes on where this one stopped.
	s.stream("ORDERS_DLQ", "ORDERS_DLQ.>", jetstream.LimitsPolicy)
	close(s.side.Slow)
	p = s.consume("--drain", drain.String())
	programtest.WaitFor(t, "the letter", func() bool { return s.letters() == 1 })
	programtest.WaitFor(t, "the slow ones to be done", func() bool { return s.side.Calls("slow-1") == 2 && s.side.Calls("slow-2") == 2 })
	p.Signal(os.Interrupt)
	p.EndsWith(service.OK, drain+3*time.Second)
	if n := s.side.Calls("refused-1"); n != 1 {
		t.Errorf("the handler ran %d times for a letter that was owed", n)
	}
	for _, id := range []string{"slow-1", "slow-2"} {
		if r := programtest.Record(t, s.db, id); r.State != dedup.Succeeded {
			t.Errorf("%s is %v", id, r.State)
		}
	}
	if r := programtest.Record(t, s.db, "refused-1"); r.Owed {
		t.Error("the letter is written and still owed")
	}
}

func TestAHandlerThatFinishesInTheDrainIsDone(t *testing.T) {
	s := openShop(t)
	p := s.consume()
	p.Ready()
	s.publish("slow-1")
	programtest.WaitFor(t, "the handler", func() bool { return s.side.Calls("slow-1") == 1 })
	p.Signal(syscall.SIGTERM)
	p.Stopping()
	close(s.side.Slow)
	p.EndsWith(service.OK, 5*time.Second)
	if r := programtest.Record(t, s.db, "slow-1"); r.State != dedup.Succeeded {
		t.Errorf("record is %v", r.State)
	}
	if key := s.side.IdempotencyKey("slow-1"); len(key) != 32 {
		t.Errorf("Idempotency-Key %q", key)
	}
	if stopping := p.Stderr.Lines("stopping: handlers may finish"); len(stopping) != 1 || stopping[0]["drain"] != "25s" {
		t.Errorf("said %v", stopping)
	}
	stopped := p.Stderr.Lines("stopped")
	if len(stopped) != 1 {
		t.Fatalf("said %v", stopped)
	}
	if counts, _ := stopped[0]["counts"].(map[string]any); counts["handled"] != 1.0 {
		t.Errorf("counts %v", counts)
	}
	durable, err := s.js.Consumer(t.Context(), "ORDERS", "billing")
	if err != nil {
		t.Fatal(err)
	}
	if i := durable.CachedInfo(); i.NumAckPending != 0 || i.NumPending != 0 {
		t.Errorf("%d unacknowledged, %d pending", i.NumAckPending, i.NumPending)
	}
}

// A server that takes connections and says nothing, as one that starts.
func TestSIGTERMWhileItConnectsIsNoFailure(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	p := programtest.Start(t, nil, "--url", "nats://"+silent.Addr().String(), "--db", filepath.Join(t.TempDir(), "billing.db"), "--listen", "127.0.0.1:0")
	if _, err := silent.Accept(); err != nil {
		t.Fatal(err)
	}
	p.Signal(syscall.SIGTERM)
	p.EndsWith(service.OK, 10*time.Second)
}

func TestASecondSignalEndsAtOnce(t *testing.T) {
	s := openShop(t)
	p := s.consume()
	p.Ready()
	s.publish("slow-1")
	programtest.WaitFor(t, "the handler", func() bool { return s.side.Calls("slow-1") == 1 })
	p.Signal(syscall.SIGTERM)
	p.Stopping()
	p.Signal(syscall.SIGTERM)          // as timeout(1) does: still the same request
	time.Sleep(300 * time.Millisecond) // in real time, which is how the process tells
	p.Running()
	p.Signal(syscall.SIGTERM)
	p.EndsWith(service.AtOnce, 2*time.Second)
	if r := programtest.Record(t, s.db, "slow-1"); r.State != dedup.InProgress {
		t.Errorf("record is %v", r.State)
	}
}

func TestASecondProcessWithAFileOfItsOwnNamesTheFirst(t *testing.T) {
	s := openShop(t)
	p := s.consume()
	p.Ready()
	s.publish("order-1")
	programtest.WaitFor(t, "the order", func() bool { return s.side.Calls("order-1") == 1 })
	other := s.consume("--db", filepath.Join(t.TempDir(), "other.db"))
	other.EndsWith(service.Failed, 30*time.Second)
	if log := other.Stderr.String(); !strings.Contains(log, "store") || !strings.Contains(log, "--adopt") && !strings.Contains(log, "Adopt") {
		t.Errorf("the error does not say how to go on: %s", log)
	}
	if n := s.side.Calls("order-1"); n != 1 {
		t.Errorf("the handler ran %d times", n)
	}
	p.Signal(syscall.SIGTERM)
	p.EndsWith(service.OK, 10*time.Second)
}

func TestTrafficIsHandled(t *testing.T) {
	s := openShop(t)
	p := s.consume("--call", "")
	p.Ready()
	producer := programtest.Start(t, []string{"NATS_ORDERS_URL=" + s.url}, "produce", "--count", "300", "--bad", "0.1")
	producer.EndsWith(service.OK, 20*time.Second)
	if out := producer.Stdout.String(); out != "300 messages sent to ORDERS\n" {
		t.Errorf("said %q", out)
	}
	programtest.WaitFor(t, "all to be acknowledged", func() bool {
		durable, err := s.js.Consumer(t.Context(), "ORDERS", "billing")
		if err != nil {
			t.Fatal(err)
		}
		i := durable.CachedInfo()
		return i.NumPending == 0 && i.NumAckPending == 0
	})
	p.Signal(syscall.SIGTERM)
	p.EndsWith(service.OK, 10*time.Second)
	if n := s.letters(); n < 5 || n > 80 {
		t.Errorf("%d letters of 300 messages, of which a tenth cannot be read", n)
	}
}

func TestProducingWithoutAStreamSaysWhatToDo(t *testing.T) {
	s := openShop(t)
	p := programtest.Start(t, nil, "produce", "--url", s.url, "--count", "1")
	p.EndsWith(service.Failed, 20*time.Second)
	if log := p.Stderr.String(); !strings.Contains(log, "--create") {
		t.Errorf("said %s", log)
	}
}

func TestConsumingWithoutAStreamNamesTheFlag(t *testing.T) {
	s := openShop(t)
	p := programtest.Start(t, nil, "--url", s.url, "--db", s.db, "--listen", "")
	p.EndsWith(service.Failed, 20*time.Second)
	if log := p.Stderr.String(); !strings.Contains(log, "set Create") || !strings.Contains(log, "--create") {
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
		{"help on health", nil, []string{"--help"}, service.OK, "/readyz"},
		{"help on statuses", nil, []string{"--help"}, service.OK, "130 a second signal"},
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
			p := programtest.Start(t, c.env, c.args...)
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

// How to remove onceward again: the durable is an ordinary one.
func TestAPlainConsumerGoesOnWhereOncewardStopped(t *testing.T) {
	s := openShop(t)
	p := s.consume()
	p.Ready()
	s.publish("order-1", "order-2")
	programtest.WaitFor(t, "the orders", func() bool { return s.side.Calls("order-1") == 1 && s.side.Calls("order-2") == 1 })
	p.Signal(syscall.SIGTERM)
	p.EndsWith(service.OK, 10*time.Second)
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
