//go:build unix

package consumer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
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

func init() { roles["disk"] = diskProcess }

// diskConfig says how the disk of a process fails in the middle.
type diskConfig struct {
	File string
	// Switch is a file outside of that disk, which is read-only while the file
	// is there. Empty: the disk is full instead.
	Switch string
}

// cause is what a failed write says.
func (c *diskConfig) cause() string {
	if c.Switch == "" {
		return syscall.EFBIG.Error()
	}
	return syscall.EROFS.Error()
}

// fail makes the disk fail, or mends it.
func (c *diskConfig) fail(on bool) error {
	switch {
	case c.Switch == "" && on:
		return limitFiles(1)
	case c.Switch == "":
		return limitFiles(1 << 62)
	case on:
		return os.WriteFile(c.Switch, nil, 0o600)
	}
	return os.Remove(c.Switch)
}

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

// diskProcess prints what it finds wrong.
func diskProcess(config string) error {
	var disk diskConfig
	if err := json.Unmarshal([]byte(config), &disk); err != nil {
		return err
	}
	signal.Ignore(syscall.SIGXFSZ) // the write fails instead
	wrong := func(format string, args ...any) { fmt.Println("wrong", fmt.Sprintf(format, args...)) }
	store, err := boltstore.Open(disk.File, boltstore.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	broker := membroker.New(membroker.Config{Topics: map[string]int{topic: 2}})
	var runs counter
	var failing atomic.Bool
	held, finish := make(chan struct{}, 4), make(chan struct{})
	route := consumer.JSON("order.create", order.ID, func(_ context.Context, o order) error {
		if failing.Load() && o.Cents != 1 {
			wrong("%s starts on a disk that fails", o.No)
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
	if err := disk.fail(true); err != nil {
		return err
	}
	for i := range 100 {
		send(fmt.Sprint("o-", i), 2)
	}
	eventually(func() bool { return c.Status().Degraded["store"] != "" })
	failing.Store(true) // the first commit has failed
	close(finish)
	time.Sleep(300 * time.Millisecond)
	if n := unsettled(); n != 104 {
		wrong("%d messages are unsettled on a disk that fails, want all 104", n)
	}
	if s := c.Status(); !strings.Contains(s.Degraded["store"], disk.cause()) || !s.Live || !s.Ready {
		wrong("status %+v", s)
	}
	failing.Store(false)
	if err := disk.fail(false); err != nil {
		return err
	}
	if !eventually(func() bool { return unsettled() == 0 }) {
		wrong("%d messages are unsettled when the disk works again", unsettled())
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
	p := start(t, "disk", diskConfig{File: filepath.Join(t.TempDir(), "billing.db")})
	p.wait(func(words []string) { t.Errorf("the process says %q", words) })
	if p.err != nil {
		t.Error(p.err)
	}
}
