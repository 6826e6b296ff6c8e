package cli_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceward/onceward/brokers/natsbroker"
	"github.com/onceward/onceward/cmd/onceward/internal/cli"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/boltstore"
	"github.com/onceward/onceward/internal/natstest"
)

var update = flag.Bool("update", false, "write the golden outputs anew")

// result is what one call of the command came to.
type result struct {
	code           int
	stdout, stderr string
}

// terminal is a person who answers.
type terminal string

// call runs the command. Args are words; an environment is NAME=VALUE before
// them, and what a person answers is of type terminal.
func call(t *testing.T, args ...any) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	env := map[string]string{}
	p := &cli.Process{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Getenv: func(name string) string { return env[name] }}
	for _, a := range args {
		switch a := a.(type) {
		case terminal:
			p.Terminal, p.Stdin = true, strings.NewReader(string(a))
		case []string:
			p.Args = append(p.Args, a...)
		case string:
			if name, value, ok := strings.Cut(a, "="); ok && strings.HasPrefix(name, "ONCEWARD_") {
				env[name] = value
				continue
			}
			p.Args = append(p.Args, a)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	code := cli.Run(ctx, p)
	return result{code, stdout.String(), stderr.String()}
}

// want fails where the call did not end with this code.
func (r result) want(t *testing.T, code int) result {
	t.Helper()
	if r.code != code {
		t.Fatalf("exit code %d, want %d\nstdout: %s\nstderr: %s", r.code, code, r.stdout, r.stderr)
	}
	return r
}

// says fails where the talk lacks one of the texts.
func (r result) says(t *testing.T, texts ...string) result {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(r.stderr, text) {
			t.Errorf("stderr lacks %q:\n%s", text, r.stderr)
		}
	}
	return r
}

func (r result) shows(t *testing.T, texts ...string) result {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(r.stdout, text) {
			t.Errorf("stdout lacks %q:\n%s", text, r.stdout)
		}
	}
	return r
}

var varying = []struct {
	re *regexp.Regexp
	by string
}{
	{regexp.MustCompile(`replay-[0-9TZ]+-[0-9a-f]{12}`), "JOB"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z`), "TIME"},
	{regexp.MustCompile(`\b[0-9a-f]{64}\b`), "SHA256"},
	{regexp.MustCompile(`"(fence|opened)":\d+`), `"$1":N`},
	{regexp.MustCompile(`,"sent":true`), ""}, // noted before or after the copy is answered
	{regexp.MustCompile(`"store":"[^"]+"`), `"store":"STORE"`},
	{regexp.MustCompile(`"file":"[^"]+"`), `"file":"FILE"`},
	{regexp.MustCompile(`"who":"[^"]+"`), `"who":"WHO"`},
	{regexp.MustCompile(`"approver":"[^"]+"`), `"approver":"WHO"`},
}

var longID = regexp.MustCompile(`\b[0-9a-f]{32}\b`)

// golden compares an output, without what differs from run to run, with the
// one that is kept.
func golden(t *testing.T, name, got string) {
	t.Helper()
	for _, v := range varying {
		got = v.re.ReplaceAllString(got, v.by)
	}
	ids := map[string]string{}
	got = longID.ReplaceAllStringFunc(got, func(id string) string {
		if ids[id] == "" {
			ids[id] = fmt.Sprintf("ID%d", len(ids)+1)
		}
		return ids[id]
	})
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != got {
		t.Errorf("%s is now\n%s\nwas\n%s", name, got, want)
	}
}

// rig is a NATS server with a stream ORDERS, and a consumer "billing" with a
// bolt file, whose handler refuses what its payload asks for until it is mended.
type rig struct {
	t      *testing.T
	url    string
	js     jetstream.JetStream
	file   string
	mended atomic.Bool
	ran    atomic.Int64

	via   string // while it runs
	store dedup.Store
	stop  func()
}

func newRig(t *testing.T) *rig {
	t.Helper()
	t.Parallel() // these tests mostly wait
	return startRig(t)
}

func startRig(t *testing.T) *rig {
	t.Helper()
	s := natstest.Serve(t)
	r := &rig{t: t, url: s.ClientURL(), file: filepath.Join(t.TempDir(), "billing.db"), js: natstest.Client(t, s.ClientURL())}
	if _, err := r.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"ORDERS.>"}}); err != nil {
		t.Fatal(err)
	}
	return r
}

// from is the address of the letters.
func (r *rig) from() string { return r.url + "/ORDERS_DLQ?subject=ORDERS_DLQ.billing" }

// offline are the flags for a consumer that does not run.
func (r *rig) offline() []string { return []string{"--from", r.from(), "--store", "bolt:" + r.file} }

var errRefused = errors.New("refused")

// handle refuses an order as its payload says: terminal, or for a while.
func (r *rig) handle(_ context.Context, d *consumer.Delivery) (consumer.Result, error) {
	r.ran.Add(1)
	switch {
	case r.mended.Load():
		return consumer.Result("booked"), nil
	case bytes.Contains(d.Value, []byte(`"refuse"`)):
		return nil, consumer.Terminal(fmt.Errorf("card %d of %q: %w", d.Offset, d.Key.ID, errRefused))
	case bytes.Contains(d.Value, []byte(`"doubtful"`)):
		return nil, consumer.InDoubt(errors.New("the bank did not answer"))
	case bytes.Contains(d.Value, []byte(`"hostile"`)):
		return nil, consumer.Terminal(errors.New("\x1b[31mred\x1b[0m \u009b2J \u202e end"))
	}
	return consumer.Result("booked"), nil
}

// start runs the consumer, with its admin API behind via, until stop.
func (r *rig) start(admin consumer.AdminConfig) {
	r.t.Helper()
	log := slog.New(slog.DiscardHandler)
	store, err := boltstore.Open(r.file, boltstore.Options{Logger: log})
	if err != nil {
		r.t.Fatal(err)
	}
	js, err := natsbroker.Connect(r.t.Context(), natsbroker.Config{URL: r.url, Create: true, AckWait: 2 * time.Second})
	if err != nil {
		r.t.Fatal(err)
	}
	c, err := consumer.New(consumer.Config{
		Name: "billing", Broker: js, Store: store, Topics: []string{"ORDERS"}, StartFrom: consumer.Earliest, Logger: log, AppVersion: "v1.4.0",
	}, consumer.Route{
		Scope: "order.create", ID: consumer.Field("order_id"), Run: r.handle,
		Match: consumer.Match{Rule: "not a cancellation", Is: func(d *consumer.Delivery) bool { return d.Subject != "ORDERS.cancelled" }},
	}, consumer.Route{Scope: "order.cancel", ID: consumer.Field("order_id"), Run: r.handle})
	if err != nil {
		r.t.Fatal(err)
	}
	handler, err := c.Admin(admin)
	if err != nil {
		r.t.Fatal(err)
	}
	web := httptest.NewServer(handler)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	r.via, r.store = web.URL, store
	stopped := false
	r.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := errors.Join(<-ended, js.Close(), store.Close()); err != nil {
			r.t.Error(err)
		}
		web.Close()
	}
	r.t.Cleanup(r.stop)
}

// publish sends an order; subject is the last part.
func (r *rig) publish(subject, payload string, headers ...string) {
	r.t.Helper()
	m := nats.NewMsg("ORDERS." + subject)
	m.Data = []byte(payload)
	for i := 0; i+1 < len(headers); i += 2 {
		m.Header.Add(headers[i], headers[i+1])
	}
	if _, err := r.js.PublishMsg(r.t.Context(), m); err != nil {
		r.t.Fatal(err)
	}
}

// letters waits until so many letters are there and nothing is under way.
func (r *rig) letters(n uint64) {
	r.t.Helper()
	r.until(fmt.Sprintf("%d letters", n), func(ctx context.Context) bool {
		s, err := r.js.Stream(ctx, "ORDERS_DLQ")
		return err == nil && s.CachedInfo().State.Msgs >= n
	})
	r.quiet()
}

// quiet waits until the consumer has nothing left to do.
func (r *rig) quiet() {
	r.t.Helper()
	r.until("a quiet consumer", func(ctx context.Context) bool {
		for _, stream := range []string{"ORDERS", "ORDERS_RETRY"} {
			s, err := r.js.Stream(ctx, stream)
			if err != nil {
				return false
			}
			c, err := s.Consumer(ctx, "billing")
			if err != nil {
				return false
			}
			// What is pending is counted a moment after a message is stored.
			if i := c.CachedInfo(); i.NumPending > 0 || i.NumAckPending > 0 || i.AckFloor.Stream < s.CachedInfo().State.LastSeq {
				return false
			}
		}
		return true
	})
}

func (r *rig) until(what string, is func(context.Context) bool) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 20*time.Second)
	defer cancel()
	for !is(ctx) {
		if ctx.Err() != nil {
			r.t.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// ids are the dl-ids that a list shows.
func ids(t *testing.T, args ...any) []string {
	t.Helper()
	var found []string
	for l := range strings.Lines(call(t, append([]any{"dlq", "list", "--json"}, args...)...).want(t, cli.Done).stdout) {
		found = append(found, longID.FindString(l))
	}
	return found
}

func order(id, kind string) string { return fmt.Sprintf(`{"order_id":%q,"kind":%q}`, id, kind) }
