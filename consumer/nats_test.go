package consumer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceward/onceward/brokers/natsbroker"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup/boltstore"
)

// natsRig is a nats-server in this process, reached through sockets, and a bolt
// file.
type natsRig struct {
	t       *testing.T
	url     string
	js      jetstream.JetStream
	file    string
	ackWait time.Duration
	cfg     consumer.Config
}

func newNatsRig(t *testing.T) *natsRig {
	t.Helper()
	t.Parallel() // these tests mostly wait
	s, err := newServer(serverConfig{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	r := &natsRig{t: t, url: s.ClientURL(), file: filepath.Join(t.TempDir(), "billing.db"), ackWait: time.Second}
	nc, err := nats.Connect(r.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	if r.js, err = jetstream.New(nc); err != nil {
		t.Fatal(err)
	}
	if _, err = r.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: stream, Subjects: []string{stream + ".>"}}); err != nil {
		t.Fatal(err)
	}
	r.cfg = consumer.Config{
		Name: durable, Topics: []string{stream}, StartFrom: consumer.Earliest, Logger: slog.New(slog.DiscardHandler),
	}
	return r
}

// natsRun is one consumer with a connection and a file of its own.
type natsRun struct {
	c     *consumer.Consumer
	store *boltstore.Store
	stop  func() error
	ended chan error
}

func (r *natsRig) open(file string, options boltstore.Options) *boltstore.Store {
	r.t.Helper()
	options.Logger = slog.New(slog.DiscardHandler)
	s, err := boltstore.Open(file, options)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func (r *natsRig) run(store *boltstore.Store, route consumer.Route) *natsRun {
	r.t.Helper()
	js, err := natsbroker.Connect(r.t.Context(), natsbroker.Config{URL: r.url, Create: true, AckWait: r.ackWait, Prefetch: 100})
	if err != nil {
		r.t.Fatal(err)
	}
	cfg := r.cfg
	cfg.Broker, cfg.Store = js, store
	c, err := consumer.New(cfg, route)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	run := &natsRun{c: c, store: store, ended: make(chan error, 1)}
	go func() { run.ended <- errors.Join(c.Run(ctx), js.Close(), store.Close()) }()
	stopped := false
	run.stop = func() error {
		cancel()
		if stopped {
			return nil
		}
		stopped = true
		return <-run.ended
	}
	r.t.Cleanup(func() { _ = run.stop() })
	return run
}

func (r *natsRig) send(js ...job) {
	r.t.Helper()
	for _, j := range js {
		value, _ := json.Marshal(j)
		if _, err := r.js.Publish(r.t.Context(), stream+".new", value); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *natsRig) info(stream string) *jetstream.ConsumerInfo {
	r.t.Helper()
	c, err := r.js.Consumer(r.t.Context(), stream, durable)
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound): // it is about to be made
		return &jetstream.ConsumerInfo{}
	case err != nil:
		r.t.Fatal(err)
	}
	return c.CachedInfo()
}

func (r *natsRig) unsettled() int { return unsettled(r.t, r.js) }

// unsettled is what the durable still holds. The server counts what is pending
// some time after a publish, so the last sequence is compared too.
func unsettled(t *testing.T, js jetstream.JetStream) int {
	s, err := js.Stream(t.Context(), stream)
	if err != nil {
		return -1
	}
	last := s.CachedInfo().State.LastSeq
	c, err := s.Consumer(t.Context(), durable)
	if err != nil {
		return -1
	}
	i := c.CachedInfo()
	return max(int(i.NumPending)+i.NumAckPending, int(last)-int(i.AckFloor.Stream))
}

func (r *natsRig) wantSettled() {
	r.t.Helper()
	if !eventually(func() bool { return r.unsettled() == 0 }) {
		r.t.Fatalf("%d messages are not settled", r.unsettled())
	}
}

func (r *natsRig) letters() (reasons []string) {
	r.t.Helper()
	s, err := r.js.Stream(r.t.Context(), stream+"_DLQ")
	if err != nil {
		r.t.Fatal(err)
	}
	state := s.CachedInfo().State
	for seq := max(state.FirstSeq, 1); seq <= state.LastSeq; seq++ {
		if m, err := s.GetMsg(r.t.Context(), seq); err == nil {
			reasons = append(reasons, m.Header.Get("dl-reason"))
		}
	}
	slices.Sort(reasons)
	return reasons
}

func TestSlowHandlersWithAFullBufferAreDeliveredOnce(t *testing.T) {
	r := newNatsRig(t)
	r.cfg.Workers = 100
	var runs counter
	run := r.run(r.open(r.file, boltstore.Options{}), consumer.JSON("order.create", job.ID, func(_ context.Context, j job) error {
		runs.add(j.No)
		time.Sleep(3 * r.ackWait)
		return nil
	}))
	const messages = 200 // half of them wait in memory for three times AckWait
	for i := range messages {
		r.send(job{No: fmt.Sprint("o-", i)})
	}
	r.wantSettled()
	if i := r.info(stream); i.NumRedelivered != 0 || i.Delivered.Consumer != messages {
		t.Errorf("%d deliveries of %d messages, %d again", i.Delivered.Consumer, messages, i.NumRedelivered)
	}
	if runs.total() != messages {
		t.Errorf("%d runs, want %d", runs.total(), messages)
	}
	if err := run.stop(); err != nil {
		t.Error(err)
	}
}

func TestAHundredDeliveriesOfOneKeyRunOnceOnJetStream(t *testing.T) {
	r := newNatsRig(t)
	r.cfg.Workers, r.cfg.Lease = 100, time.Second // a third of it is how long a repeat waits
	var runs counter
	finish := make(chan struct{})
	route := consumer.JSON("order.create", job.ID, func(_ context.Context, j job) error {
		runs.add(j.No)
		<-finish
		return nil
	})
	route.Order = consumer.Extract{Rule: "offset", From: func(d *consumer.Delivery) (string, error) { return fmt.Sprint(d.Offset), nil }}
	run := r.run(r.open(r.file, boltstore.Options{}), route)
	for range 100 {
		r.send(job{No: "same"})
	}
	if !eventually(func() bool { return r.info(stream).NumAckPending == 100 }) {
		t.Errorf("%d are held, want 100", r.info(stream).NumAckPending)
	}
	close(finish)
	r.wantSettled()
	if runs.total() != 1 {
		t.Errorf("%d runs, want 1", runs.total())
	}
	if err := run.stop(); err != nil {
		t.Error(err)
	}
}

func TestWithoutADeadLetterStreamNoSuchMessageIsAckedAndOthersGoOn(t *testing.T) {
	for _, full := range []bool{false, true} {
		t.Run(fmt.Sprint("full ", full), func(t *testing.T) {
			r := newNatsRig(t)
			var runs counter
			run := r.run(r.open(r.file, boltstore.Options{}), consumer.JSON("order.create", job.ID, func(_ context.Context, j job) error {
				runs.add(j.No)
				if j.Do == "refuse" {
					return consumer.Terminal(errors.New("refused"))
				}
				return nil
			}))
			r.send(job{No: "first", Do: "refuse"})
			r.wantSettled()
			s, err := r.js.Stream(t.Context(), stream+"_DLQ")
			if err != nil {
				t.Fatal(err)
			}
			config := s.CachedInfo().Config
			if full {
				limited := config
				limited.MaxMsgs = 1
				_, err = r.js.UpdateStream(t.Context(), limited)
			} else {
				err = r.js.DeleteStream(t.Context(), config.Name)
			}
			if err != nil {
				t.Fatal(err)
			}
			r.send(job{No: "second", Do: "refuse"})
			for i := range 20 {
				r.send(job{No: fmt.Sprint("o-", i)})
			}
			held := func() int { i := r.info(stream); return int(i.NumPending) + i.NumAckPending }
			if !eventually(func() bool { return held() == 1 && runs.total() == 22 }) {
				t.Errorf("%d are held after %d runs, want 1", held(), runs.total())
			}
			if !eventually(func() bool { return len(run.c.Status().Degraded) > 0 }) {
				t.Error("not degraded")
			}
			if full {
				_, err = r.js.UpdateStream(t.Context(), config)
			} else {
				_, err = r.js.CreateStream(t.Context(), config)
			}
			if err != nil {
				t.Fatal(err)
			}
			r.wantSettled()
			want := []string{"terminal"}
			if full {
				want = append(want, "terminal") // the first one is still there
			}
			if got := r.letters(); !slices.Equal(got, want) {
				t.Errorf("letters %q, want %q", got, want)
			}
			if runs.of("second") != 1 {
				t.Errorf("ran %d times", runs.of("second"))
			}
			if err := run.stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAnotherFileOnTheSameDurableIsRefusedEachTime(t *testing.T) {
	r := newNatsRig(t)
	var runs counter
	route := consumer.JSON("order.create", job.ID, func(_ context.Context, j job) error {
		runs.add(j.No)
		return nil
	})
	first := r.run(r.open(r.file, boltstore.Options{}), route)
	id := first.store.Info().ID
	r.send(job{No: "o-1"}, job{No: "o-2"})
	r.wantSettled()
	if runs.total() != 2 {
		t.Fatalf("%d runs, want 2", runs.total())
	}

	refused := func(store *boltstore.Store, texts ...string) {
		t.Helper()
		run := r.run(store, route)
		select {
		case err := <-run.ended:
			wantStartError(t, err, texts...)
			run.ended <- nil
		case <-time.After(20 * time.Second):
			t.Fatalf("not refused, want %q", texts)
		}
	}
	other := filepath.Join(t.TempDir(), "other.db")
	for range 2 { // a second process with a file of its own, started again
		r.send(job{No: "o-1"})
		store := r.open(other, boltstore.Options{})
		refused(store, id, store.Info().ID)
	}
	r.wantSettled()
	old := filepath.Join(t.TempDir(), "yesterday.db")
	if err := first.stop(); err != nil {
		t.Errorf("the first was stopped: %v", err)
	}
	copyFile(t, r.file, old)
	first = r.run(r.open(r.file, boltstore.Options{}), route)
	r.send(job{No: "o-3"})
	r.wantSettled()
	if err := first.stop(); err != nil {
		t.Error(err)
	}

	r.send(job{No: "o-3"})
	for range 2 { // the file was deleted
		store := r.open(filepath.Join(t.TempDir(), "fresh.db"), boltstore.Options{})
		refused(store, id, store.Info().ID)
		refused(r.open(old, boltstore.Options{}), id, "restored copy")
	}
	if runs.total() != 3 {
		t.Errorf("%d runs, want 3", runs.total())
	}
	last := r.run(r.open(r.file, boltstore.Options{}), route)
	r.wantSettled()
	if runs.total() != 3 {
		t.Errorf("%d runs, want 3", runs.total())
	}
	if err := last.stop(); err != nil {
		t.Error(err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits for what other goroutines do with real files.
func eventually(is func() bool) bool {
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if is() {
			return true
		}
	}
	return false
}
