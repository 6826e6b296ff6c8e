package kafkabroker_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/kafkabroker"
	"github.com/onceward/onceward/internal/memnet"
)

// A restart in between gives everything that waits to the next owner, who
// reads it at once and puts it off again, as the records say.
func TestMessagesThatWaitForHoursHoldUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, delay = 1100, 2 * time.Hour
		net := memnet.New()
		c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, "orders"), kfake.ListenFn(net.Listen))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		cfg := quick(c.ListenAddrs()...)
		cfg.SessionTimeout, cfg.Heartbeat, cfg.Dial = time.Minute, 20*time.Second, net.DialContext
		cfg.CommitInterval, cfg.WatchInterval = 30*time.Second, 5*time.Minute
		b, err := kafkabroker.Connect(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		sp := spec()
		sp.LongestWait = 3 * time.Hour
		r := open(t, b, sp)
		retry := b.Destinations(sp.Consumer, "orders").Retry
		copies := make([]brokers.Outgoing, n)
		for i := range copies {
			copies[i] = brokers.Outgoing{Topic: retry, Key: fmt.Append(nil, i), Value: fmt.Append(nil, "wait", i)}
		}
		began := time.Now()
		for _, err := range b.Publish(t.Context(), copies) {
			if err != nil {
				t.Fatal(err)
			}
		}
		putOff := func(d time.Duration) {
			t.Helper()
			for _, one := range r.take(n) {
				if !one.Lane.Retry || one.Lane.Topic != "orders" {
					t.Fatalf("lane %+v", one.Lane)
				}
				if err := r.Defer([]*brokers.Delivery{one}, d); err != nil {
					t.Fatal(err)
				}
			}
		}
		putOff(delay)
		// Others go on meanwhile.
		for range 5 {
			time.Sleep(10 * time.Minute)
			publish(t, b, "orders", 100)
			for _, d := range r.take(100) {
				if d.Lane.Retry {
					t.Fatalf("%s comes %v early", d.Value, delay-time.Since(began))
				}
				if err := r.Ack([]*brokers.Delivery{d}); err != nil {
					t.Fatal(err)
				}
			}
		}
		r.close()
		r = open(t, b, sp)
		putOff(delay - time.Since(began))
		r.none(delay - time.Since(began) - time.Second)
		due := map[string]bool{}
		for _, d := range r.take(n) {
			due[string(d.Value)] = true
			if err := r.Ack([]*brokers.Delivery{d}); err != nil {
				t.Fatal(err)
			}
		}
		if late := time.Since(began) - delay; len(due) != n || late < 0 || late > time.Minute {
			t.Errorf("%d of %d came, the last one %v after it was due", len(due), n, late)
		}
		r.close()
		// All is settled: nothing comes again.
		r = open(t, b, sp)
		r.none(time.Minute)
		r.close()
	})
}

func TestAnUnhealthyProcessLeavesItsGroup(t *testing.T) {
	t.Parallel()
	c := fake(t)
	sick := make(chan struct{})
	cfg := quick(c.ListenAddrs()...)
	cfg.Healthy = func() error {
		select {
		case <-sick:
			return errors.New("a handler hangs")
		default:
			return nil
		}
	}
	r := open(t, connect(t, cfg), spec())
	eventually(t, "it owns all", func() bool { return r.owns() == 4 })
	twin := open(t, connect(t, quick(c.ListenAddrs()...)), spec())
	close(sick)
	var fault *brokers.StartError
	if _, err := r.Receive(t.Context(), brokers.Limit{Messages: 1, Bytes: 1}); !errors.As(err, &fault) || !strings.Contains(err.Error(), "a handler hangs") {
		t.Fatalf("error %v", err)
	}
	eventually(t, "the other one has all", func() bool { return twin.owns() == 4 })
}

func TestATwinFencesItsPredecessor(t *testing.T) {
	t.Parallel()
	c := fake(t)
	cfg := quick(c.ListenAddrs()...)
	cfg.InstanceID = "orders-0"
	r := open(t, connect(t, cfg), spec())
	eventually(t, "it owns all", func() bool { return r.owns() == 4 })
	twin := open(t, connect(t, cfg), spec())
	var fault *brokers.StartError
	if _, err := r.Receive(t.Context(), brokers.Limit{Messages: 1, Bytes: 1}); !errors.As(err, &fault) || !strings.Contains(err.Error(), "orders-0") {
		t.Fatalf("error %v", err)
	}
	eventually(t, "its partitions are reported as lost", func() bool { return r.owns() == 0 })
	eventually(t, "the twin has all", func() bool { return twin.owns() == 4 })
}

func TestALaneThatIsPausedOrFullHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	c := fake(t)
	b := connect(t, quick(c.ListenAddrs()...))
	for p := range int32(4) {
		ms := outgoing(fmt.Sprint("p", p, "-"), p, 2000)
		for i := range ms {
			ms[i].Topic, ms[i].Value = "orders", append(ms[i].Value, make([]byte, 1000)...)
		}
		for _, err := range b.Publish(t.Context(), ms) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	sp := spec()
	sp.Unfinished.Bytes = 1 << 20 // little is read ahead
	r := open(t, b, sp)
	first := r.take(1)[0].Lane
	r.Pause(first, true)
	seen := map[int32]int{}
	for _, d := range r.take(6000) {
		if d.Lane == first {
			t.Fatal("a delivery of the paused lane")
		}
		seen[d.Lane.Partition]++
	}
	if len(seen) != 3 {
		t.Errorf("seen %v", seen)
	}
	r.none(100 * time.Millisecond)
	r.Pause(first, false)
	r.take(1999)
}

// Delays are jittered, so that neighbours come due in any order, while the
// lane has room for few.
func TestManyDeferredMessagesComeBackInAnyOrder(t *testing.T) {
	t.Parallel()
	const n = 3000
	c := fake(t, kfake.SeedTopics(1, "one"))
	b := connect(t, quick(c.ListenAddrs()...))
	ms := outgoing("m", 0, n)
	for i := range ms {
		ms[i].Topic, ms[i].Value = "one", append(ms[i].Value, make([]byte, 500)...)
	}
	for _, err := range b.Publish(t.Context(), ms) {
		if err != nil {
			t.Fatal(err)
		}
	}
	sp := on("one")
	sp.Unfinished.Bytes = 256 << 10
	r := open(t, b, sp)
	for _, d := range r.take(n) {
		delay := 100*time.Millisecond + time.Duration(rand.IntN(400))*time.Millisecond
		if err := r.Defer([]*brokers.Delivery{d}, delay); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[int64]bool{}
	for _, d := range r.take(n) {
		if seen[d.Offset] {
			t.Fatalf("offset %d comes twice", d.Offset)
		}
		seen[d.Offset] = true
		if err := r.Ack([]*brokers.Delivery{d}); err != nil {
			t.Fatal(err)
		}
	}
	fs, err := r.Floors(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fs {
		if !f.Lane.Retry && f.Next != n {
			t.Errorf("next %d", f.Next)
		}
	}
}
