//go:build servers

package kafkabroker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/kafkabroker"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup/boltstore"
)

// tally counts runs by order.
type tally struct {
	mu   sync.Mutex
	runs map[string]int
}

func (c *tally) add(no string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runs == nil {
		c.runs = map[string]int{}
	}
	c.runs[no]++
}

func (c *tally) get() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.runs)
}

// once complains of orders that did not run exactly once, and of others.
func (c *tally) once(t *testing.T, names []string) {
	t.Helper()
	runs := c.get()
	for _, no := range names {
		if runs[no] != 1 {
			t.Errorf("%s ran %d times", no, runs[no])
		}
		delete(runs, no)
	}
	if len(runs) > 0 {
		t.Errorf("%d others ran, such as %v", len(runs), runs)
	}
}

func produceJobs(t *testing.T, o *other, topic string, names []string) {
	t.Helper()
	ms := make([]brokers.Outgoing, len(names))
	for i, no := range names {
		value, _ := json.Marshal(job{No: no})
		partition := int32(i % 4)
		ms[i] = brokers.Outgoing{Key: []byte(no), Value: value, Partition: &partition}
	}
	o.produce(t, topic, ms...)
}

// byHand is the loop that is to be replaced, until it has done n orders.
func byHand(t *testing.T, o *other, topic, group string, interval time.Duration, n int) *tally {
	t.Helper()
	r := kafka.NewReader(kafka.ReaderConfig{Brokers: o.addrs, Topic: topic, GroupID: group, MaxWait: 50 * time.Millisecond, CommitInterval: interval})
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	done := &tally{}
	for range n {
		m, err := r.FetchMessage(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var j job
		if err := json.Unmarshal(m.Value, &j); err != nil {
			t.Fatal(err)
		}
		done.add(j.No)
		if err := r.CommitMessages(ctx, m); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return done
}

// What README.md says under "Coming from another consumer": stop the old loop,
// and start with CommittedBy.
func TestCuttingOverFromAReaderLoopRunsTheNewOrdersAndNoOldOne(t *testing.T) {
	for name, interval := range map[string]time.Duration{"committed at once": 0, "committed each second": time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOther(t, server(t))
			topic, group := o.newTopic(t, 4), fmt.Sprint("old-group", time.Now().UnixNano())
			before, after := numbered("old-", 1000), numbered("new-", 1000)
			produceJobs(t, o, topic, before)
			old := byHand(t, o, topic, group, interval, len(before))
			old.once(t, before)
			stood, _ := o.tryPositions(t, group, topic, 4)

			produceJobs(t, o, topic, after[:500]) // while nobody is there
			file, name := filepath.Join(t.TempDir(), "billing.db"), fmt.Sprint("billing", time.Now().UnixNano())
			var runs tally
			run := func() (stop func()) {
				kafka, err := kafkabroker.Connect(t.Context(), quick(o.addrs...))
				if err != nil {
					t.Fatal(err)
				}
				store, err := boltstore.Open(file, boltstore.Options{Logger: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				c, err := consumer.New(consumer.Config{
					Name: name, Broker: kafka, Topics: []string{topic}, StartFrom: consumer.CommittedBy(group), Store: store,
					Logger: slog.New(slog.DiscardHandler),
				}, consumer.JSON("order.create", job.ID, func(_ context.Context, j job) error {
					runs.add(j.No)
					return nil
				}))
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(context.Background())
				ended := make(chan error, 1)
				go func() { ended <- errors.Join(c.Run(ctx), kafka.Close(), store.Close()) }()
				stop = sync.OnceFunc(func() {
					cancel()
					if err := <-ended; err != nil {
						t.Error(err)
					}
				})
				t.Cleanup(stop)
				return stop
			}
			stop := run()
			produceJobs(t, o, topic, after[500:])
			produceJobs(t, o, topic, after[:100]) // repeats
			eventually(t, "all is settled", func() bool { return o.settled(t, name, topic, 4) })
			runs.once(t, after)
			// The setting may stay: from now on its own position counts.
			stop()
			stop = run()
			// An old order that comes again is new to its store.
			produceJobs(t, o, topic, []string{"last", "old-0"})
			eventually(t, "all is settled", func() bool { return o.settled(t, name, topic, 4) })
			stop()
			runs.once(t, append(after, "last", "old-0"))
			// Who goes back finds the old group where it was left.
			if stands, _ := o.tryPositions(t, group, topic, 4); !maps.Equal(stands, stood) {
				t.Errorf("the old group stood at %v, and stands at %v", stood, stands)
			}
			t.Logf("%d runs by hand, %d further ones", len(old.get()), len(runs.get()))
		})
	}
}
