package consumer_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/natsbroker"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/boltstore"
)

const (
	stream       = "ORDERS"
	durable      = "billing"
	childAckWait = 500 * time.Millisecond
)

// job is what the messages of process tests carry: what to do, and its id.
type job struct {
	No string `json:"no"`
	Do string `json:"do"`
}

func (j job) ID() string { return j.No }

// childConfig is what a consumer process needs.
type childConfig struct {
	URL, File string
	// Step at whose Nth time the process kills itself; empty for never.
	Step string
	Nth  int
	// LoneCrashes is Retry.MaxLoneCrashes.
	LoneCrashes int
	Workers     int
	// Hold is how long a handler that does "hold" takes.
	Hold time.Duration
}

// killer kills its own process with SIGKILL at a step.
type killer struct {
	step string
	left atomic.Int64
}

func (k *killer) at(step string) {
	if step == k.step && k.left.Add(-1) == 0 {
		self, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = self.Kill()
		}
		fmt.Println("error", err)
		select {}
	}
}

// around kills before or after f.
func (k *killer) around(step string, f func()) {
	k.at("before " + step)
	f()
	k.at("after " + step)
}

type killStore struct {
	*boltstore.Store
	k *killer
}

func (s *killStore) Apply(ctx context.Context, ops []dedup.Op) (answers []dedup.Answer, err error) {
	names := map[dedup.Kind]string{dedup.Claim: "claim", dedup.End: "complete", dedup.NoteLetter: "note", dedup.MoveLetter: "answer"}
	has := map[string]bool{}
	for i := range ops {
		has[names[ops[i].Kind]] = true
	}
	delete(has, "")
	for name := range has {
		s.k.at("before " + name)
	}
	answers, err = s.Store.Apply(ctx, ops)
	for name := range has {
		s.k.at("after " + name)
	}
	return answers, err
}

type killBroker struct {
	brokers.Broker
	k *killer
}

func (b *killBroker) Open(ctx context.Context, spec brokers.Spec) (brokers.Source, error) {
	s, err := b.Broker.Open(ctx, spec)
	if err != nil {
		return nil, err
	}
	return &killSource{Source: s, k: b.k}, nil
}

func (b *killBroker) Publish(ctx context.Context, messages []brokers.Outgoing) (errs []error) {
	step := "letter"
	if messages[0].Topic == b.Destinations(durable, stream).Retry {
		step = "retry copy"
	}
	b.k.around(step, func() { errs = b.Broker.Publish(ctx, messages) })
	return errs
}

type killSource struct {
	brokers.Source
	k *killer
}

func (s *killSource) Ack(ds []*brokers.Delivery) (err error) {
	s.k.around("ack", func() { err = s.Source.Ack(ds) })
	return err
}

// consumerProcess is a consumer process: it tells its parent, on lines, of each run of
// a handler, and books in the commit that completes the record.
func consumerProcess(config string) error {
	var c childConfig
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	end := terminated()
	go func() { <-end; stop() }()
	k := &killer{step: c.Step}
	k.left.Store(int64(c.Nth))
	js, err := natsbroker.Connect(ctx, natsbroker.Config{URL: c.URL, Create: true, AckWait: childAckWait})
	if err != nil {
		return err
	}
	defer js.Close() //nolint:errcheck // the process ends
	store, err := boltstore.Open(c.File, boltstore.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	cfg := consumer.Config{
		Name: durable, Broker: &killBroker{js, k}, Topics: []string{stream}, StartFrom: consumer.Earliest,
		Store: &killStore{store, k}, Workers: c.Workers, Logger: slog.New(slog.DiscardHandler),
		// Most messages of these tests fail on purpose.
		Breaker: consumer.Breaker{Off: true},
	}
	route := consumer.JSON("order.create", job.ID, func(ctx context.Context, j job) (err error) {
		k.around("handler", func() { err = work(ctx, c, j) })
		return err
	})
	route.Retry = consumer.Retry{
		MaxFailures: 3, Initial: 10 * time.Millisecond, Multiplier: 1, MaxBlocking: 50 * time.Millisecond, MaxLoneCrashes: c.LoneCrashes,
	}
	consumes, err := consumer.New(cfg, route)
	if err != nil {
		return err
	}
	return errors.Join(consumes.Run(ctx), store.Close())
}

func work(ctx context.Context, c childConfig, j job) error {
	op := consumer.Info(ctx)
	fmt.Println("begin", j.No, op.Fence)
	switch j.Do {
	case "flaky":
		if op.Failures == 0 {
			return errors.New("once more")
		}
	case "later":
		if op.Failures == 0 {
			return consumer.RetryAfter(errors.New("not now"), 100*time.Millisecond)
		}
	case "mend":
		if op.Run == 1 {
			return consumer.Terminal(errors.New("not mended yet"))
		}
	case "refuse":
		return consumer.Terminal(errors.New("refused"))
	case "fail":
		return errors.New("always")
	case "doubt":
		return consumer.InDoubt(errors.New("who knows"))
	case "exit":
		time.Sleep(200 * time.Millisecond)
		os.Exit(3)
	case "hold":
		select {
		case <-time.After(c.Hold):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return boltstore.InTx(ctx, func(tx *bolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists(effects)
		if err != nil {
			return err
		}
		count := make([]byte, 8)
		if old := b.Get([]byte(j.No)); old != nil {
			copy(count, old)
		}
		binary.BigEndian.PutUint64(count, binary.BigEndian.Uint64(count)+1)
		return b.Put([]byte(j.No), count)
	})
}

var effects = []byte("effects")
