package kafkabroker

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/cluster"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/coop"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/group"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/position"
	"github.com/onceward/onceward/internal/serial"
)

// source is one member of a group and what it reads. Fields without a word are
// set once; the others are guarded by mu.
type source struct {
	b       *broker
	cfg     Config
	spec    brokers.Spec
	reads   map[string]string // topics that are read → the user's topic
	member  *membership
	events  *serial.Queue // Assigned, Lost and Degraded, in order
	trouble *trouble

	life    context.Context // of reading and committing
	end     context.CancelFunc
	over    context.Context // of what a drain does at its end
	cease   context.CancelFunc
	workers sync.WaitGroup
	left    chan struct{} // closed when the member has ended
	joined  chan struct{} // closed at the first assignment
	once    sync.Once
	leave   context.CancelFunc // of the group

	hungry chan struct{} // capacity 1: Receive should look again
	pump   chan struct{} // capacity 1: fetching should look again
	later  chan struct{} // capacity 1: something was deferred
	stale  chan struct{} // capacity 1: the metadata is older than the cluster

	turns chan struct{} // capacity 1: full while a commit is made

	tools   sync.Pool   // *tool
	crowded atomic.Bool // deferred messages wait for room

	mu      sync.Mutex
	err     error // why Receive fails; nil while open
	closing bool
	inGroup bool    // a round is over
	lanes   []*lane // opening, live and draining ones
	byClaim map[group.Claim]*lane
	byLane  map[*brokers.Lane]*lane
	turn    int
	topics  map[string]cluster.Topic // as last heard of
	known   map[string]cluster.ID    // ids of topics that were read
	flights map[int32]int            // fetches on their way, by broker
	mark    string                   // written by this source
	seen    map[string]bool          // marks that this source wrote or read, and that may still be there
	unsure  []string                 // marks whose commits failed, or were not answered, since the last that did not
}

var _ brokers.Source = (*source)(nil)

// nudge wakes whoever waits on a channel of capacity 1.
func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// fail ends the source: Receive returns err.
func (s *source) fail(err error) {
	s.mu.Lock()
	if s.err == nil {
		s.err = err
	}
	s.mu.Unlock()
	nudge(s.hungry)
}

// unleased is how often Receive asks whether the coordinator is back.
const unleased = 50 * time.Millisecond

// Receive implements [brokers.Source].
func (s *source) Receive(ctx context.Context, limit brokers.Limit) ([]*brokers.Delivery, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		// Without a lease somebody else may own the partitions: nothing new
		// begins until the coordinator has answered.
		leased := s.member.Leased()
		got, err := s.gather(limit, leased)
		if err != nil {
			return nil, err
		}
		if len(got) > 0 {
			nudge(s.pump)
			if s.crowded.Load() {
				nudge(s.later)
			}
			return got, nil
		}
		if leased {
			select {
			case <-ctx.Done():
			case <-s.hungry:
			}
			continue
		}
		retry := time.NewTimer(unleased)
		select {
		case <-ctx.Done():
		case <-s.hungry:
		case <-retry.C:
		}
		retry.Stop()
	}
}

// gather takes what is at hand: from each lane in turn a fair share, then what
// is left.
func (s *source) gather(limit brokers.Limit, leased bool) ([]*brokers.Delivery, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	if !leased {
		return nil, nil
	}
	full, ready := 0, 0
	for _, l := range s.lanes {
		if l.ready() {
			ready++
			for _, b := range l.slabs {
				full += len(b.ds) - b.i
			}
		}
	}
	if ready == 0 {
		return nil, nil
	}
	n, bytes := max(1, limit.Messages), max(1, limit.Bytes)
	out := make([]*brokers.Delivery, 0, min(n, full))
	s.turn++
	for round, share := 0, max(1, n/ready); round < 2; round, share = round+1, n {
		for i := range s.lanes {
			l := s.lanes[(s.turn+i)%len(s.lanes)]
			room := n - len(out)
			if room == 0 || bytes <= 0 {
				return out, nil
			}
			if !l.ready() {
				continue
			}
			var taken int
			out, taken = l.take(out, min(room, share), bytes)
			bytes -= taken
		}
	}
	return out, nil
}

// ready says whether deliveries of the lane can be handed out.
func (l *lane) ready() bool { return l.life == live && !l.paused && len(l.slabs) > 0 }

// LateError says how many deliveries came too late to be settled.
type LateError struct{ Late, Of int }

func (e *LateError) Error() string {
	return fmt.Sprintf("%d of %d deliveries were not settled: their partitions were given up before", e.Late, e.Of)
}

// settling finds the span of a delivery while it can be settled.
func (s *source) settling(d *brokers.Delivery) (*position.Span, *lane) {
	span, ok := d.Handle.(*position.Span)
	if !ok {
		return nil, nil
	}
	l, ok := span.Owner.(*lane)
	if !ok || l.life != live && l.life != draining {
		return nil, nil
	}
	return span, l
}

// Ack implements [brokers.Source].
func (s *source) Ack(deliveries []*brokers.Delivery) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	late := 0
	for _, d := range deliveries {
		span, _ := s.settling(d)
		if span == nil {
			late++
			continue
		}
		span.Settle(d.Offset)
	}
	return lateError(late, len(deliveries))
}

func lateError(late, of int) error {
	if late == 0 {
		return nil
	}
	return &LateError{Late: late, Of: of}
}

// Defer implements [brokers.Source].
func (s *source) Defer(deliveries []*brokers.Delivery, delay time.Duration) error {
	due := time.Now().Add(max(0, delay))
	s.mu.Lock()
	defer s.mu.Unlock()
	late := 0
	for _, d := range deliveries {
		span, l := s.settling(d)
		if span == nil {
			late++
			continue
		}
		if l.life == live && !span.Settled(d.Offset) {
			l.postpone(d.Offset, span, due)
		}
	}
	nudge(s.later)
	return lateError(late, len(deliveries))
}

// Abandon implements [brokers.Source]. Kafka has no deadline for a message, so
// there is no progress to tell, and nothing changes.
func (s *source) Abandon([]*brokers.Delivery) {}

// Pause implements [brokers.Source].
func (s *source) Pause(which *brokers.Lane, paused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.byLane[which]; l != nil {
		l.paused = paused
	}
	nudge(s.hungry)
	nudge(s.pump)
	nudge(s.later)
}

// Floors implements [brokers.Source]. It does not ask the broker.
func (s *source) Floors(context.Context) ([]brokers.Floor, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	var floors []brokers.Floor
	for _, l := range s.lanes {
		if !l.told || l.life == ended {
			continue
		}
		f := brokers.Floor{Lane: &l.Lane, Next: l.track.Next(), Lag: -1}
		if l.high >= 0 {
			f.Lag = max(0, l.high-f.Next)
		}
		floors = append(floors, f)
	}
	return floors, nil
}

// Close implements [brokers.Source].
func (s *source) Close(ctx context.Context) error {
	s.mu.Lock()
	again := s.closing
	s.closing = true
	if s.err == nil {
		s.err = brokers.ErrClosed
	}
	s.mu.Unlock()
	nudge(s.hungry)
	if again {
		return nil
	}
	s.end()
	s.workers.Wait()
	err := s.commitAll(ctx)
	done := make(chan struct{})
	go func() {
		select {
		case <-s.left:
		case <-ctx.Done():
			// The group will notice by itself.
			s.cease()
			s.member.Kill()
		}
		close(done)
	}()
	s.leave()
	<-done
	<-s.left
	s.cease()
	s.mu.Lock()
	for _, l := range s.lanes {
		l.life = ended
	}
	s.lanes = nil
	s.mu.Unlock()
	s.events.Drop()
	if err != nil {
		return fmt.Errorf("commit at the end: %w", err)
	}
	return nil
}

// all lists the lanes whose positions count.
func (s *source) all() (ls []*lane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lanes {
		if l.placed && l.life != ended {
			ls = append(ls, l)
		}
	}
	return ls
}

func (l *lane) name() string { return fmt.Sprintf("%s/%d", l.claim.Topic, l.claim.Index) }

func partitionsOf(topic string, n int) []coop.Partition {
	ps := make([]coop.Partition, n)
	for i := range ps {
		ps[i] = coop.Partition{Topic: topic, Index: int32(i)}
	}
	return ps
}
