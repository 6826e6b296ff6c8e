//go:build unix

package consumer_test

import (
	"context"
	"fmt"
	"log/slog"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/membroker"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup/boltstore"
)

func init() { roles["full disk"] = fullDiskProcess }

// limitFiles lets this process write only the first bytes of a file, as on a
// disk that is full.
func limitFiles(bytes uint64) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	limit.Cur = min(bytes, limit.Max)
	return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit)
}

// fullDiskProcess prints what it finds wrong.
func fullDiskProcess(config string) error {
	signal.Ignore(syscall.SIGXFSZ) // the write fails instead
	wrong := func(format string, args ...any) { fmt.Println("wrong", fmt.Sprintf(format, args...)) }
	store, err := boltstore.Open(strings.Trim(config, `"`), boltstore.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	broker := membroker.New(membroker.Config{Topics: map[string]int{topic: 2}})
	var runs counter
	var full atomic.Bool
	held, finish := make(chan struct{}, 4), make(chan struct{})
	route := consumer.JSON("order.create", order.ID, func(_ context.Context, o order) error {
		if full.Load() && o.Cents != 1 {
			wrong("%s starts on a full disk", o.No)
		}
		if runs.add(o.No); o.Cents == 1 {
			held <- struct{}{}
			<-finish
		}
		return nil
	})
	c, err := consumer.New(consumer.Config{
		Name: "billing", Broker: broker, Topics: []string{topic}, StartFrom: consumer.Earliest, Store: store, Workers: 8,
		Logger: slog.New(slog.DiscardHandler),
	}, route)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	send := func(no string, cents int) {
		broker.Produce(topic, brokers.Outgoing{Value: []byte(orderJSON(no, cents))})
	}
	unsettled := func() int { return len(broker.Unsettled("billing", topic)) }
	for i := range 4 {
		send(fmt.Sprint("held-", i), 1)
	}
	for range 4 {
		<-held
	}
	if err := limitFiles(1); err != nil {
		return err
	}
	for i := range 100 {
		send(fmt.Sprint("o-", i), 2)
	}
	eventually(func() bool { return c.Status().Degraded["store"] != "" })
	full.Store(true) // the first commit has failed
	close(finish)
	time.Sleep(300 * time.Millisecond)
	if n := unsettled(); n != 104 {
		wrong("%d messages are unsettled on a full disk, want all 104", n)
	}
	if s := c.Status(); s.Degraded["store"] == "" || !s.Live || !s.Ready {
		wrong("status %+v", s)
	}
	full.Store(false)
	if err := limitFiles(1 << 62); err != nil {
		return err
	}
	if !eventually(func() bool { return unsettled() == 0 }) {
		wrong("%d messages are unsettled when there is room again", unsettled())
	}
	for i := range 4 {
		if n := runs.of(fmt.Sprint("held-", i)); n != 1 {
			wrong("what had finished ran %d times", n)
		}
	}
	if runs.total() != 104 {
		wrong("%d runs, want 104", runs.total())
	}
	if s := c.Status(); len(s.Degraded) > 0 {
		wrong("still degraded: %v", s.Degraded)
	}
	stop()
	if err := <-ended; err != nil {
		return err
	}
	return store.Close()
}

func TestOnAFullDiskNothingStartsNothingIsAckedAndNothingRunsTwice(t *testing.T) {
	p := start(t, "full disk", filepath.Join(t.TempDir(), "billing.db"))
	p.wait(func(words []string) { t.Errorf("the process says %q", words) })
	if p.err != nil {
		t.Error(p.err)
	}
}
