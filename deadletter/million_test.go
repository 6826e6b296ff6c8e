package deadletter_test

import (
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
)

// many is a topic of so many letters, of operations that have all failed, and
// the store that knows them. It makes them up as they are asked for.
type many struct {
	deadletter.Broker
	deadletter.Store
	n int
}

func (m many) letter(i int) deadletter.Letter {
	key := m.key(i)
	return deadletter.Letter{
		ID: deadletter.ID(key, 7), Consumer: key.Consumer, Reason: deadletter.ReasonTerminal, Error: fmt.Sprintf("customer %d is not known", i),
		ErrorType: "*errors.errorString", Key: key, Run: 1, Fingerprint: dedup.Fingerprint{Rule: 1, Sum: [32]byte{1}},
		Source:    deadletter.Source{Topic: "orders", Partition: int32(i % 4), Offset: int64(i)},
		BrokerKey: []byte(key.ID), Value: fmt.Appendf(nil, `{"order_id":%q}`, key.ID),
	}
}

func (m many) key(i int) dedup.Key {
	return dedup.Key{Consumer: "billing", Scope: "order.create", ID: fmt.Sprintf("ord-%d", i)}
}

func (m many) Browse(context.Context, string, brokers.From) iter.Seq2[*brokers.Delivery, error] {
	lane := &brokers.Lane{Topic: "orders.billing.dlq", Source: "orders.billing.dlq@1"}
	return func(yield func(*brokers.Delivery, error) bool) {
		for i := range m.n {
			o := deadletter.Encode(m.letter(i), lane.Topic)
			if !yield(&brokers.Delivery{Lane: lane, Offset: int64(i), Key: o.Key, Value: o.Value, Headers: o.Headers, Time: time.Now()}, nil) {
				return
			}
		}
	}
}

func (m many) Inspect(context.Context, []string) ([]brokers.TopicInfo, error) {
	return []brokers.TopicInfo{{Topic: "orders.billing.dlq", Identity: "orders.billing.dlq@1"}}, nil
}

func (m many) Letters(_ context.Context, ids []string) ([]dedup.Letter, error) {
	notes := make([]dedup.Letter, len(ids))
	for i, id := range ids {
		notes[i] = dedup.Letter{ID: id, State: dedup.LetterOpen, Run: 1, Opened: 7}
	}
	return notes, nil
}

func (m many) Lookup(_ context.Context, keys []dedup.Key) ([]dedup.Record, error) {
	records := make([]dedup.Record, len(keys))
	for i, k := range keys {
		records[i] = dedup.Record{Key: k, State: dedup.Failed, Run: 1, Opened: 7, Fence: 9, Fingerprint: dedup.Fingerprint{Rule: 1, Sum: [32]byte{1}}}
	}
	return records, nil
}

func (m many) Destinations(_, topic string) brokers.Destinations {
	return brokers.Destinations{DeadLetter: topic + ".billing.dlq"}
}

func (m many) Scan(context.Context, string) iter.Seq2[dedup.Record, error] {
	return func(yield func(dedup.Record, error) bool) {
		for i := range m.n {
			if !yield(dedup.Record{Key: m.key(i), State: dedup.Failed, Claimed: time.Now()}, nil) {
				return
			}
		}
	}
}

func (m many) ScanLetters(context.Context, string) iter.Seq2[dedup.Letter, error] {
	return func(yield func(dedup.Letter, error) bool) {
		for i := range m.n {
			key := m.key(i)
			if !yield(dedup.Letter{ID: deadletter.ID(key, 7), Key: key, State: dedup.LetterOpen, Run: 1, Opened: 7, Source: dedup.Position{Source: "orders@1"}}, nil) {
				return
			}
		}
	}
}

func (m many) Info() dedup.Info { return dedup.Info{ID: "store-1"} }

// A million with ONCEWARD_SOAK, within the 300 MB that a small machine has left;
// a tenth of both without.
func TestSoakAMillionLettersAreGroupedAndPlannedInLittleMemory(t *testing.T) {
	n, most := 100_000, 60
	if os.Getenv("ONCEWARD_SOAK") != "" {
		n, most = 1_000_000, 300
	}
	m := many{n: n}
	q := deadletter.Queue{Topic: "orders.billing.dlq", Consumer: "billing", Broker: m, Store: m}
	for name, do := range map[string]func(progress func(int)) (int, error){
		"groups": func(progress func(int)) (int, error) {
			groups, err := q.Groups(t.Context(), deadletter.Filter{Progress: progress})
			if len(groups) != 1 {
				t.Errorf("%d groups", len(groups))
			}
			return groups[0].Count, err
		},
		"plan": func(progress func(int)) (int, error) {
			p, err := q.Plan(t.Context(), deadletter.Selection{Filter: deadletter.Filter{Progress: progress}}, io.Discard)
			return p.Counts[deadletter.Reopen], err
		},
	} {
		debug.FreeOSMemory()
		told, peak := 0, uint64(0)
		got, err := do(func(int) {
			if told++; told%64 == 0 {
				var s runtime.MemStats
				runtime.ReadMemStats(&s)
				peak = max(peak, s.Sys-s.HeapReleased)
			}
		})
		if err != nil || got != n {
			t.Errorf("%s: %d letters, %v", name, got, err)
		}
		t.Logf("%s of %d letters: at most %d MB, told of it %d times", name, n, peak>>20, told)
		if told < n/1000 || peak>>20 > uint64(most) {
			t.Errorf("%s: %d MB, told %d times", name, peak>>20, told)
		}
	}
}
