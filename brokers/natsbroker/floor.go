package natsbroker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceward/onceward/brokers"
)

// floor is what the server last said of a durable's position.
type floor struct {
	mu     sync.Mutex // held while the server is asked
	at     time.Time
	next   int64
	lag    int64
	edited bool // reported: see editedTo
}

// floorAge is how old a floor may be: it is asked for all the time, and each
// question makes the server look at its state.
const floorAge = time.Second

// Floors implements [brokers.Source] from the ack floor of each durable, which
// is one for all processes that share it. It asks at most once a second.
func (s *source) Floors(ctx context.Context) ([]brokers.Floor, error) {
	if err := s.failure(); err != nil {
		return nil, err
	}
	floors := make([]brokers.Floor, 0, len(s.lanes))
	for _, l := range s.lanes {
		next, lag, err := l.position(ctx)
		if err != nil {
			return nil, fmt.Errorf("position of consumer %q in stream %q: %w", l.durable, l.stream, err)
		}
		floors = append(floors, brokers.Floor{Lane: &l.Lane, Next: next, Lag: lag})
	}
	return floors, nil
}

func (l *lane) position(ctx context.Context) (next, lag int64, err error) {
	f := &l.floor
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.at.IsZero() && time.Since(f.at) < floorAge {
		return f.next, f.lag, nil
	}
	ctx, cancel := context.WithTimeout(ctx, answering)
	defer cancel()
	info, err := l.consumer.Info(ctx)
	if err != nil {
		return 0, 0, err
	}
	l.pausedBy(info)
	l.editedTo(&info.Config)
	f.at, f.next = time.Now(), int64(info.AckFloor.Stream)+1
	f.lag = int64(info.NumPending) + int64(info.NumAckPending)
	return f.next, f.lag, nil
}

// pausedBy reports a durable that an operator has paused, which is quiet and
// yet in order, and the end of the pause.
func (l *lane) pausedBy(info *jetstream.ConsumerInfo) {
	l.mu.Lock()
	before := l.trouble
	l.mu.Unlock()
	switch {
	case info.Paused:
		l.report(fmt.Errorf("%w for %v", errPaused, info.PauseRemaining.Round(time.Second)))
	case errors.Is(before, errPaused):
		l.report(nil)
	}
}

// editedTo reports a durable that Open would refuse now. What was delivered is
// finished nevertheless: whoever stops gives it back, and a durable that bounds
// deliveries would drop it then. Only without payloads there is nothing to go
// on with.
func (l *lane) editedTo(c *jetstream.ConsumerConfig) {
	wrong, mend := l.agreed.compare(l.stream, c)
	what := "consumer of stream " + l.stream
	switch {
	case c.HeadersOnly:
		l.s.fail(l.beheaded())
	case (wrong != "") == l.floor.edited:
	case wrong == "":
		l.s.degraded(what, nil)
	default:
		l.s.degraded(what, fmt.Errorf("it was edited while it is read: %s (%s)", wrong, mend))
	}
	l.floor.edited = wrong != ""
}

func (l *lane) beheaded() error {
	wrong, mend := l.agreed.compare(l.stream, &jetstream.ConsumerConfig{
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: l.agreed.ackWait, MaxAckPending: unlimited, HeadersOnly: true,
	})
	return &brokers.StartError{What: fmt.Sprintf("read consumer %q of stream %q", l.durable, l.stream), Wrong: wrong, Mend: mend}
}

var errPaused = errors.New("the consumer is paused on the server")
