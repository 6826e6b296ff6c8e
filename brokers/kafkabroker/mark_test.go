package kafkabroker_test

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/memstore"
)

// Both look for the other's mark before either is written. Some of their
// partitions may be opening meanwhile, or a commit may be due.
func TestOfTwoThatMarkAtOnceNotBothAreAccepted(t *testing.T) {
	t.Parallel()
	for i := range 4 {
		t.Run(strconv.Itoa(i), func(t *testing.T) { t.Parallel(); markAtOnce(t) })
	}
}

func markAtOnce(t *testing.T) {
	c := fake(t)
	one := open(t, connect(t, quick(c.ListenAddrs()...)), spec())
	two := open(t, connect(t, quick(c.ListenAddrs()...)), spec())
	eventually(t, "each has its part", func() bool { return one.owns() == 2 && two.owns() == 2 })
	c.ControlKey(int16(kmsg.OffsetCommit), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if text := r.(*kmsg.OffsetCommitRequest).Topics[0].Partitions[0].Metadata; text != nil && strings.HasSuffix(*text, "file") {
			c.SleepControl(func() { time.Sleep(300 * time.Millisecond) })
		}
		return nil, nil, false
	})
	var errs [2]error
	var both sync.WaitGroup
	both.Go(func() { errs[0] = one.Mark(t.Context(), "one's file") })
	both.Go(func() { errs[1] = two.Mark(t.Context(), "two's file") })
	both.Wait()
	refused := 0
	for i, err := range errs {
		if other, ok := errors.AsType[*brokers.MarkError](err); ok {
			refused++
			if other.Found != []string{"two's file", "one's file"}[i] {
				t.Errorf("found %q", other.Found)
			}
		} else if err != nil {
			t.Error(err)
		}
	}
	if refused == 0 {
		t.Error("both are accepted")
	}
	// Who was refused has left nothing behind.
	marks, err := one.Source.(brokers.MarkReader).Marks(t.Context())
	if err != nil || len(marks) != 2-refused {
		t.Errorf("%d were refused, and the marks are %q, %v", refused, marks, err)
	}
}

// A coordinator that is lost leaves marks behind: written before, and perhaps
// with a commit that nobody answered.
func TestOwnMarksOfFailedCommitsAreNotThoseOfAnotherStore(t *testing.T) {
	t.Parallel()
	c := fake(t)
	s := open(t, connect(t, quick(c.ListenAddrs()...)), spec())
	eventually(t, "it has its partitions", func() bool { return s.owns() == 4 })
	if err := s.Mark(t.Context(), "write 1"); err != nil {
		t.Fatal(err)
	}
	var failing atomic.Bool
	failing.Store(true)
	c.ControlKey(int16(kmsg.OffsetCommit), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if failing.Load() {
			return nil, errors.New("the connection is lost"), true
		}
		return nil, nil, false
	})
	for _, mark := range []string{"write 2", "write 3"} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		err := s.Mark(ctx, mark)
		cancel()
		if err == nil || errors.As(err, new(*brokers.MarkError)) {
			t.Fatalf("%s: %v", mark, err)
		}
	}
	failing.Store(false)
	for _, mark := range []string{"write 4", "write 5"} {
		if err := s.Mark(t.Context(), mark); err != nil {
			t.Errorf("%s: %v", mark, err)
		}
	}
}

// It would be refused when a partition comes to it, and until then look as if
// it could take over.
func TestAStoreThatGetsNoPartitionIsRefusedToo(t *testing.T) {
	t.Parallel()
	o := newOther(t, fake(t).ListenAddrs())
	topic := o.newTopic(t, 1)
	o.produce(t, topic, brokers.Outgoing{Value: []byte(`{"no":"o-1"}`)})
	run := func(ctx context.Context, store dedup.Store) error {
		c, err := consumer.New(consumer.Config{
			Name: "billing", Broker: connect(t, quick(o.addrs...)), Topics: []string{topic}, StartFrom: consumer.Earliest, Store: store,
			Logger: slog.New(slog.DiscardHandler),
		}, consumer.Route{
			Scope: "order.create", ID: consumer.Field("no"),
			Run: func(context.Context, *consumer.Delivery) (consumer.Result, error) { return nil, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		return c.Run(ctx)
	}
	ctx, stop := context.WithCancel(t.Context())
	first, second := memstore.New(), memstore.New()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, first) }()
	eventually(t, "the first has settled the message", func() bool { return o.committed(t, "billing", topic) == 1 })
	standing, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	err := run(standing, second)
	var fault *brokers.StartError
	if !errors.As(err, &fault) || !strings.Contains(err.Error(), first.Info().ID) || !strings.Contains(err.Error(), second.Info().ID) {
		t.Errorf("ended with %v, want both stores named", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("the first ended with %v", err)
	}
}

func TestMarksAreShownToWhoIsNoMember(t *testing.T) {
	t.Parallel()
	c := fake(t)
	b := connect(t, quick(c.ListenAddrs()...))
	shown := func() []string {
		marks, err := b.(brokers.MarkBrowser).ConsumerMarks(t.Context(), spec().Consumer, []string{"orders", "none"})
		if err != nil {
			t.Fatal(err)
		}
		return marks
	}
	if marks := shown(); len(marks) != 0 {
		t.Errorf("before there is any: %q", marks)
	}
	s := open(t, connect(t, quick(c.ListenAddrs()...)), spec())
	eventually(t, "it has its partitions", func() bool { return s.owns() == 4 })
	if err := s.Mark(t.Context(), "a file"); err != nil {
		t.Fatal(err)
	}
	if marks := shown(); len(marks) != 1 || marks[0] != "a file" {
		t.Errorf("marks %q", marks)
	}
}
