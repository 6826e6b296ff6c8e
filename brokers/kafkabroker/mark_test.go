package kafkabroker_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/brokers"
)

// Both look for the other's mark before either is written.
func TestOfTwoThatMarkAtOnceNotBothAreAccepted(t *testing.T) {
	t.Parallel()
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
		var other *brokers.MarkError
		if errors.As(err, &other) {
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
