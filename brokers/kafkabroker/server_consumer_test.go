//go:build servers

package kafkabroker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/kafkabroker"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup/boltstore"
)

// soaks says that the run is one of make soak: everything at full size.
func soaks() bool { return os.Getenv("ONCEWARD_SOAK") != "" }

// sized is full in a soak run, and short otherwise.
func sized(full, short time.Duration) time.Duration {
	if soaks() {
		return full
	}
	return short
}

// job is what the messages of these tests carry.
type job struct {
	No string `json:"no"`
}

func (j job) ID() string { return j.No }

// shop is a whole consumer, with a file that outlives a restart.
type shop struct {
	t     *testing.T
	o     *other
	b     kafkabroker.Config
	topic string
	name  string
	file  string
	do    func(no string, run int) error
	retry consumer.Retry

	mu   sync.Mutex
	runs map[string][]time.Time // when the handler began with each job

	c     *consumer.Consumer
	stop  context.CancelFunc
	ended chan error
}

func newShop(t *testing.T, o *other, partitions int) *shop {
	t.Helper()
	s := &shop{t: t, o: o, b: quick(o.addrs...), topic: o.newTopic(t, partitions), runs: map[string][]time.Time{}}
	s.name, s.file = fmt.Sprint("shop", time.Now().UnixNano()), filepath.Join(t.TempDir(), "shop.db")
	return s
}

// to is where letters and waiting copies go.
func (s *shop) to() brokers.Destinations {
	return brokers.Destinations{DeadLetter: s.topic + "." + s.name + ".dlq", Retry: s.topic + "." + s.name + ".retry"}
}

// open starts the consumer, or starts it again.
func (s *shop) open() {
	s.t.Helper()
	store, err := boltstore.Open(s.file, boltstore.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		s.t.Fatal(err)
	}
	b, err := kafkabroker.Connect(s.t.Context(), s.b)
	if err != nil {
		s.t.Fatal(err)
	}
	route := consumer.JSON("job.do", job.ID, func(_ context.Context, j job) error {
		s.mu.Lock()
		s.runs[j.No] = append(s.runs[j.No], time.Now())
		run := len(s.runs[j.No])
		s.mu.Unlock()
		return s.do(j.No, run)
	})
	route.Retry = s.retry
	s.c, err = consumer.New(consumer.Config{
		Name: s.name, Broker: b, Topics: []string{s.topic}, StartFrom: consumer.Earliest, Store: store,
		Breaker: consumer.Breaker{Off: true}, Logger: slog.New(slog.DiscardHandler),
	}, route)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	s.stop, s.ended = cancel, ended
	go func() { ended <- errors.Join(s.c.Run(ctx), b.Close(), store.Close()) }()
	s.t.Cleanup(func() { s.close() })
}

// close stops the consumer in order. Closing again does nothing.
func (s *shop) close() {
	s.t.Helper()
	if s.stop == nil {
		return
	}
	s.stop()
	s.stop = nil
	if err := <-s.ended; err != nil {
		s.t.Errorf("the consumer ended with %v", err)
	}
}

func (s *shop) send(partition int32, numbers ...string) {
	s.t.Helper()
	var ms []brokers.Outgoing
	for _, no := range numbers {
		value, _ := json.Marshal(job{No: no})
		ms = append(ms, brokers.Outgoing{Key: []byte(no), Value: value, Partition: &partition})
	}
	s.o.produce(s.t, s.topic, ms...)
}

// ran is when the handler began with a job, each time.
func (s *shop) ran(no string) []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.runs[no])
}

// letters counts the letters of each job.
func (s *shop) letters() map[string]int {
	s.t.Helper()
	n := map[string]int{}
	for _, r := range s.o.records(s.t, s.to().DeadLetter) {
		var j job
		if err := json.Unmarshal(r.Value, &j); err != nil {
			s.t.Errorf("letter %q: %v", r.Value, err)
		}
		n[j.No]++
	}
	return n
}

// degraded finds a report by what it is about.
func (s *shop) degraded(what string) string {
	for name, text := range s.c.Status().Degraded {
		if strings.HasPrefix(name, what) {
			return name + ": " + text
		}
	}
	return ""
}

// wantPosition waits until all of partition 0 is settled and committed.
func (s *shop) wantPosition(topic string, want int64) {
	s.t.Helper()
	eventually(s.t, fmt.Sprintf("position %d of %s", want, topic), func() bool { return s.o.committed(s.t, s.name, topic) == want })
}

func numbered(prefix string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint(prefix, i))
	}
	return names
}

// late bounds how long after its due time a message may run, on a machine that
// does other things too.
const late = 2 * time.Second

// postpone puts the first run of whatever is slow off, by the retry topic.
func (s *shop) postpone(wait time.Duration) {
	s.retry = consumer.Retry{MaxBlocking: time.Second}
	s.do = func(no string, run int) error {
		if strings.HasPrefix(no, "slow") && run == 1 {
			return consumer.RetryAfter(errors.New("not yet"), wait)
		}
		return nil
	}
}

// Full size with ONCEWARD_SOAK: 90 s.
func TestSoakMessagesThatWaitHoldUpNobodyAndRunWhenDueAfterARestart(t *testing.T) {
	const n = 20
	wait := sized(90*time.Second, 6*time.Second)
	s := newShop(t, newOther(t, server(t)), 1)
	s.postpone(wait)
	s.open()
	slow := numbered("slow-", n)
	s.send(0, slow...)
	// All copies wait in the retry topic, and hold no place in the topic itself.
	eventually(t, "copies wait", func() bool { return len(s.o.records(t, s.to().Retry)) == n })
	s.wantPosition(s.topic, n)
	longest := time.Duration(0)
	sent := 0
	for began := time.Now(); time.Since(began) < wait/3; sent++ {
		fast := fmt.Sprint("fast-", sent)
		at := time.Now()
		s.send(0, fast)
		eventually(t, fast, func() bool { return len(s.ran(fast)) == 1 })
		longest = max(longest, time.Since(at))
	}
	if longest > late {
		t.Errorf("another key waited %v", longest)
	}
	s.close()
	s.open()
	s.send(0, "after-restart")
	eventually(t, "another key runs after the restart", func() bool { return len(s.ran("after-restart")) == 1 })
	if time.Since(s.ran(slow[0])[0]) > wait-time.Second/2 {
		t.Fatal("too slow to see anything wait")
	}
	for _, no := range slow {
		if len(s.ran(no)) != 1 {
			t.Errorf("%s has run %d times before it was due", no, len(s.ran(no)))
		}
	}
	time.Sleep(time.Until(s.ran(slow[0])[0].Add(wait)))
	worst := time.Duration(0)
	for _, no := range slow {
		eventually(t, no+" runs again", func() bool { return len(s.ran(no)) == 2 })
		at := s.ran(no)
		over := at[1].Sub(at[0]) - wait
		worst = max(worst, over)
		if over < -50*time.Millisecond || over > late {
			t.Errorf("%s ran %v after it was due", no, over)
		}
	}
	t.Logf("%d waited %v, the last ran %v late; %d others meanwhile, the slowest took %v",
		n, wait, worst.Round(time.Millisecond), sent, longest.Round(time.Millisecond))
	s.wantPosition(s.to().Retry, n)
	s.close()
	for _, no := range slow {
		if len(s.ran(no)) != 2 {
			t.Errorf("%s ran %d times", no, len(s.ran(no)))
		}
	}
}

func TestCopiesThatRetentionTookAreReportedAsStranded(t *testing.T) {
	const wait = 5 * time.Second
	s := newShop(t, newOther(t, server(t)), 1)
	s.postpone(wait)
	s.open()
	for i, no := range numbered("slow-", 3) { // one after the other, so that their order is known
		s.send(0, no)
		eventually(t, "its copy waits", func() bool { return len(s.o.records(t, s.to().Retry)) == i+1 })
	}
	time.Sleep(time.Second) // they are read, and put off
	s.o.deleteBelow(t, s.to().Retry, 2)
	what := "gap " + s.to().Retry + "/0"
	eventually(t, "the loss is reported, with its size", func() bool {
		return strings.Contains(s.degraded(what), "2 waiting messages were deleted") && strings.Contains(s.degraded(what), "first at offset 0")
	})
	eventually(t, "what is left runs", func() bool { return len(s.ran("slow-2")) == 2 })
	s.send(0, "fast")
	eventually(t, "others go on", func() bool { return len(s.ran("fast")) == 1 })
	s.wantPosition(s.to().Retry, 3)
	for _, no := range []string{"slow-0", "slow-1"} {
		if len(s.ran(no)) != 1 {
			t.Errorf("%s ran %d times", no, len(s.ran(no)))
		}
	}
	// Deleted while nobody looked: the position lies before the log.
	s.send(0, "slow-3")
	eventually(t, "its copy waits", func() bool { return len(s.o.records(t, s.to().Retry)) == 2 })
	s.close()
	s.o.deleteBelow(t, s.to().Retry, 4)
	s.open()
	eventually(t, "the loss is reported after a restart", func() bool {
		return strings.Contains(s.degraded(what), "1 messages from position 3 on were deleted")
	})
}

func TestWithoutItsDeadLetterTopicALetterIsParkedUntilItIsBack(t *testing.T) {
	s := newShop(t, newOther(t, server(t)), 1)
	s.do = refuse
	s.open()
	s.send(0, "good-0", "bad-0")
	s.wantPosition(s.topic, 2)
	s.o.deleteTopic(t, s.to().DeadLetter)
	eventually(t, "the topic is gone", func() bool { return len(s.o.ends(t, s.to().DeadLetter, -1)) == 0 })
	s.parkedUntil("", func() {
		eventually(t, "the topic is made again", func() bool { return s.o.tryTopic(t, s.to().DeadLetter, 1) })
	},
		brokers.ErrNoDestination)
}

func refuse(no string, _ int) error {
	if strings.HasPrefix(no, "bad") {
		return consumer.Terminal(errors.New("refused"))
	}
	return nil
}

// parkedUntil sends what needs a letter that cannot be written, and expects
// that it is kept, that others go on, and that all is well after back.
func (s *shop) parkedUntil(prefix string, back func(), cause error) {
	s.t.Helper()
	held := s.o.committed(s.t, s.name, s.topic)
	bad := "bad-" + prefix
	s.send(0, slices.Concat([]string{bad}, numbered("later-"+prefix, 20))...)
	eventually(s.t, "others go on", func() bool { return len(s.ran("later-"+prefix+"19")) == 1 })
	what := "letters to " + s.to().DeadLetter
	eventually(s.t, "it is reported", func() bool { return strings.Contains(s.degraded(what), cause.Error()) })
	time.Sleep(10 * s.b.CommitInterval)
	if at := s.o.committed(s.t, s.name, s.topic); at != held {
		s.t.Errorf("the position went from %d to %d, past a message whose letter is not written", held, at)
	}
	back()
	eventually(s.t, "the letter is written", func() bool { return s.letters()[bad] == 1 })
	s.wantPosition(s.topic, held+21)
	eventually(s.t, "it works again", func() bool { return s.degraded(what) == "" })
	s.mu.Lock()
	defer s.mu.Unlock()
	for no := range maps.Keys(s.runs) {
		if len(s.runs[no]) != 1 {
			s.t.Errorf("the handler ran %d times for %s", len(s.runs[no]), no)
		}
	}
}
