package kafkabroker_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/onceward/onceward/brokers"
)

// ledger remembers which messages somebody has acknowledged, and who works on
// which partition.
//
// A process that stands still for a session is out of its group, and hears of
// it when it goes on: its successor may have begun by then. What it must not do
// is hand out anything after that; and as long as a process drains a partition
// in order, nobody may begin with it.
type ledger struct {
	mu       sync.Mutex
	acked    map[string]bool
	owners   map[int32]*brokers.Lane
	draining map[*brokers.Lane]bool
	wrong    []string
}

// begin notes the owners of partitions, and that nobody drains them.
func (l *ledger) begin(ls []*brokers.Lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lane := range ls {
		if lane.Retry {
			continue
		}
		if l.draining[l.owners[lane.Partition]] {
			l.wrong = append(l.wrong, fmt.Sprint("partition ", lane.Partition, " was given away while it was drained"))
		}
		l.owners[lane.Partition] = lane
	}
}

func (l *ledger) drain(ls []*brokers.Lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lane := range ls {
		l.draining[lane] = true
	}
}

func (l *ledger) end(ls []*brokers.Lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lane := range ls {
		delete(l.draining, lane)
		if l.owners[lane.Partition] == lane {
			l.owners[lane.Partition] = nil
		}
	}
}

// handed notes that deliveries came from owners.
func (l *ledger) handed(ds []*brokers.Delivery) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range ds {
		if o := l.owners[d.Lane.Partition]; !d.Lane.Retry && o != nil && o != d.Lane {
			l.wrong = append(l.wrong, fmt.Sprint("partition ", d.Lane.Partition, ": a former owner handed out offset ", d.Offset))
			return
		}
	}
}

// visitor is a member that comes and goes. It acknowledges in any order, puts
// some off and forgets some, as crashing handlers do.
type visitor struct {
	b    brokers.Broker
	s    brokers.Source
	line *line
	l    *ledger
	mine map[*brokers.Lane]bool
	gone bool
	mu   sync.Mutex
	work sync.Mutex // held from a Receive until what it brought is noted
	done chan struct{}
}

func visit(t *testing.T, addrs []string, l *ledger, faithful bool) *visitor {
	t.Helper()
	v := &visitor{l: l, line: &line{}, mine: map[*brokers.Lane]bool{}, done: make(chan struct{})}
	cfg := quick(addrs...)
	cfg.Dial, cfg.SessionTimeout = v.line.dial, 2*time.Second
	v.b = connect(t, cfg)
	sp := spec()
	// What the member hears after it has left says nothing.
	own := func(ls []*brokers.Lane, on bool) {
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.gone {
			return
		}
		for _, lane := range ls {
			v.mine[lane] = on
		}
		if on {
			l.begin(ls)
		} else {
			l.end(ls)
		}
	}
	sp.Events.Assigned = func(ls []*brokers.Lane) error { own(ls, true); return nil }
	sp.Events.Revoked = func(_ context.Context, ls []*brokers.Lane) {
		v.work.Lock() // as handlers end first
		l.drain(ls)
		v.work.Unlock()
		time.Sleep(time.Duration(rand.IntN(30)) * time.Millisecond)
		own(ls, false)
	}
	sp.Events.Lost = func(ls []*brokers.Lane, _ error) { own(ls, false) }
	var err error
	if v.s, err = v.b.Open(t.Context(), sp); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(v.done)
		for {
			ds, err := v.receive()
			if err != nil {
				return
			}
			rand.Shuffle(len(ds), func(i, j int) { ds[i], ds[j] = ds[j], ds[i] })
			for _, d := range ds {
				switch n := rand.IntN(10); {
				case n == 0:
					_ = v.s.Defer([]*brokers.Delivery{d}, time.Duration(rand.IntN(100))*time.Millisecond)
				case n == 1 && !faithful:
					// Never settled: the next owner gets it.
				default:
					if v.s.Ack([]*brokers.Delivery{d}) == nil {
						l.mu.Lock()
						l.acked[string(d.Value)] = true
						l.mu.Unlock()
					}
				}
			}
		}
	}()
	return v
}

func (v *visitor) receive() ([]*brokers.Delivery, error) {
	v.work.Lock()
	defer v.work.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	ds, err := v.s.Receive(ctx, brokers.Limit{Messages: 50, Bytes: 1 << 20})
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, nil
	}
	v.l.handed(ds)
	return ds, err
}

func (v *visitor) leave(crash bool) {
	if crash {
		// What it owned is over from the moment on in which it can send nothing.
		v.line.cut()
		v.b.Close()
	}
	v.mu.Lock()
	v.gone = true
	var ls []*brokers.Lane
	for lane, on := range v.mine {
		if on {
			ls = append(ls, lane)
		}
	}
	v.mu.Unlock()
	v.l.end(ls)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = v.s.Close(ctx)
	<-v.done
	v.b.Close()
}

// A position that passed something open would lose it: nobody would get it
// again.
func TestNothingIsLostWhileMembersComeAndGo(t *testing.T) {
	t.Parallel()
	const n = 6000
	c := fake(t, kfake.SeedTopics(12, "orders"))
	l := &ledger{acked: map[string]bool{}, owners: map[int32]*brokers.Lane{}, draining: map[*brokers.Lane]bool{}}
	b := connect(t, quick(c.ListenAddrs()...))
	var producing sync.WaitGroup
	producing.Go(func() {
		for i := range 60 {
			ms := make([]brokers.Outgoing, n/60)
			for j := range ms {
				v := fmt.Append(nil, i*len(ms)+j)
				ms[j] = brokers.Outgoing{Topic: "orders", Key: v, Value: v}
			}
			for _, err := range b.Publish(context.Background(), ms) {
				if err != nil {
					t.Error(err)
				}
			}
			time.Sleep(50 * time.Millisecond)
		}
	})
	var here []*visitor
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond) {
		if len(here) < 2 || len(here) < 4 && rand.IntN(2) == 0 {
			here = append(here, visit(t, c.ListenAddrs(), l, false))
			continue
		}
		i := rand.IntN(len(here))
		here[i].leave(rand.IntN(3) == 0)
		here = append(here[:i], here[i+1:]...)
	}
	for _, v := range here {
		v.leave(false)
	}
	producing.Wait()
	last := visit(t, c.ListenAddrs(), l, true)
	done := func() bool { l.mu.Lock(); defer l.mu.Unlock(); return len(l.acked) == n }
	for end := time.Now().Add(30 * time.Second); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			fs, err := last.s.Floors(t.Context())
			t.Errorf("%d of %d are acknowledged; error of the last member: %v", len(l.acked), n, err)
			for _, f := range fs {
				t.Logf("%s/%d retry %v: next %d, lag %d", f.Lane.Topic, f.Lane.Partition, f.Lane.Retry, f.Next, f.Lag)
			}
			break
		}
	}
	last.leave(false)
	if len(l.wrong) > 0 {
		t.Errorf("two at a time: %v", l.wrong)
	}
}
