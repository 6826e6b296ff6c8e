package membroker_test

import (
	"errors"
	"fmt"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/membroker"
)

// list is what a browse shows, as partition/offset=value.
func list(all iter.Seq2[*brokers.Delivery, error]) (shown []string, err error) {
	for d, e := range all {
		if e != nil {
			err = e
			continue
		}
		shown = append(shown, fmt.Sprintf("%d/%d=%s", d.Lane.Partition, d.Offset, d.Value))
	}
	return shown, err
}

func TestABrowseWaitsHalfAMinuteForABrokerThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := membroker.New(membroker.Config{Topics: map[string]int{"orders": 1}})
		b.Produce("orders", numbers(2)...)
		b.SetAvailable(false)
		began := time.Now()
		if shown, err := list(b.Browse(t.Context(), "orders", brokers.From{})); !errors.Is(err, membroker.ErrUnavailable) || len(shown) > 0 {
			t.Errorf("showed %v, %v", shown, err)
		}
		if waited := time.Since(began); waited != 30*time.Second {
			t.Errorf("waited for %v", waited)
		}
		time.AfterFunc(29*time.Second, func() { b.SetAvailable(true) })
		if shown, err := list(b.Browse(t.Context(), "orders", brokers.From{})); err != nil || len(shown) != 2 {
			t.Errorf("showed %v, %v", shown, err)
		}
	})
}

func TestABrowseFailsAsATestAsks(t *testing.T) {
	b := membroker.New(membroker.Config{Topics: map[string]int{"orders": 1}})
	b.Produce("orders", numbers(2)...)
	b.FailBrowse("orders", brokers.ErrUnauthorized)
	if shown, err := list(b.Browse(t.Context(), "orders", brokers.From{})); !errors.Is(err, brokers.ErrUnauthorized) || len(shown) > 0 {
		t.Errorf("showed %v, %v", shown, err)
	}
	b.FailBrowse("orders", nil)
	if shown, err := list(b.Browse(t.Context(), "orders", brokers.From{})); err != nil || len(shown) != 2 {
		t.Errorf("showed %v, %v", shown, err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := list(b.Browse(t.Context(), "orders", brokers.From{})); !errors.Is(err, brokers.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestWhatIsDroppedIsNotDeliveredAndHoldsNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := membroker.New(membroker.Config{Topics: map[string]int{"orders": 1}})
		b.Produce("orders", numbers(10)...)
		s := open(t, b, spec("orders"))
		got, err := s.Receive(t.Context(), brokers.Limit{Messages: 4, Bytes: 1 << 20})
		if err != nil || len(got) != 4 {
			t.Fatal(len(got), err)
		}
		if err := s.Defer(got[2:], time.Minute); err != nil {
			t.Fatal(err)
		}
		b.DropBelow("orders", 0, 6) // 0 and 1 are held, 2 and 3 wait, 4 and 5 are new
		after := receive(t, s, 4)
		if after[0].Offset != 6 || after[3].Offset != 9 {
			t.Fatalf("goes on with %d to %d", after[0].Offset, after[3].Offset)
		}
		if err := s.Ack(after[:2]); err != nil {
			t.Fatal(err)
		}
		if at := b.Position("billing", "orders", 0); at != 0 {
			t.Errorf("position %d, past what is held", at)
		}
		if err := s.Ack(got[:2]); err != nil {
			t.Fatal(err)
		}
		if at := b.Position("billing", "orders", 0); at != 8 {
			t.Errorf("position %d", at)
		}
		b.Crash("billing")
		b.DropBelow("orders", 0, 9)
		if got := receive(t, open(t, b, spec("orders")), 1); got[0].Offset != 9 || got[0].Lane.Backlog != 1 {
			t.Errorf("begins with %d of %d", got[0].Offset, got[0].Lane.Backlog)
		}
		b.DropBelow("orders", 0, 99)
		b.Produce("orders", numbers(1)...)
		if shown, err := list(b.Browse(t.Context(), "orders", brokers.From{})); err != nil || fmt.Sprint(shown) != "[0/10=0]" {
			t.Errorf("left: %v, %v", shown, err)
		}
	})
}
