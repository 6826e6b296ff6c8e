package natsbroker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceward/onceward/brokers"
)

const (
	// reelMost is how many messages one request asks for, and reelFirst the
	// first one: who wants one page only shall not wait for ten.
	reelMost  = 512
	reelFirst = 64
	// reelBytes bounds a request, and so what waits in memory.
	reelBytes = 2 << 20
	// reelExpires is how long the server keeps a request.
	reelExpires = 2 * time.Second
	// reelSilence is after how long without a word the reel is given up.
	reelSilence = reelExpires + 3*time.Second
	// reelIdle is how long the server keeps a consumer that nobody asks.
	reelIdle = 30 * time.Second
)

// reel reads a stream through a consumer of its own, one request after the
// other. What is lost on the way is seen by the consumer's own sequence.
type reel struct {
	*look
	consumer jetstream.Consumer
	sub      *nats.Subscription
	arrived  chan *nats.Msg
	inbox    string // prefix of reply subjects, with the dot at its end

	requests int    // sent so far; the present one's number
	batch    int    // messages of the next request
	owed     int    // messages that the present request may still bring
	brought  bool   // the present request brought something
	maxBytes int    // of one request
	count    uint64 // messages that came so far
	pending  uint64 // what the consumer has to deliver, as far as is known
}

// reel makes the consumer.
func (l *look) reel(ctx context.Context) (*reel, error) {
	r := &reel{
		look: l, inbox: l.b.nc.NewInbox() + ".", batch: reelFirst,
		arrived: make(chan *nats.Msg, reelMost+64), maxBytes: max(reelBytes, int(l.b.nc.MaxPayload())+(128<<10)),
	}
	err := l.b.call(ctx, func(ctx context.Context) (err error) {
		r.consumer, err = l.b.js.CreateConsumer(ctx, l.stream, jetstream.ConsumerConfig{
			Description:   "onceward shows the stream to somebody; goes away by itself",
			DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: l.next, FilterSubject: l.filter,
			AckPolicy: jetstream.AckNonePolicy, InactiveThreshold: reelIdle, MemoryStorage: true, Replicas: 1,
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("make a consumer to read with: %w", err)
	}
	r.pending = r.consumer.CachedInfo().NumPending
	if l.lane.Backlog < 0 {
		l.lane.Backlog = int64(r.pending) // nobody has the lane yet
	}
	if r.sub, err = l.b.nc.ChanSubscribe(r.inbox+"*", r.arrived); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// read implements [reader].
func (r *reel) read(ctx context.Context) (found, error) {
	quiet := time.Now()
	for {
		if r.pending == 0 {
			return found{}, io.EOF
		}
		if r.owed == 0 {
			if err := r.request(); err != nil {
				return found{}, err
			}
		}
		var m *nats.Msg
		select {
		case m = <-r.arrived:
		default:
			var err error
			if m, err = r.wait(ctx, quiet); err != nil {
				return found{}, err
			}
		}
		at, ok := parseReply(m.Reply)
		if !ok {
			if err := r.status(ctx, m); err != nil {
				return found{}, err
			}
			continue
		}
		if at.consumed != r.count+1 {
			return found{}, errLost
		}
		r.count, r.pending = at.consumed, at.pending
		r.brought = true
		r.owed--
		return found{
			sequence: uint64(at.sequence), subject: m.Subject, header: m.Header, data: m.Data, stored: at.stored, last: at.pending == 0,
		}, nil
	}
}

var errLost = errors.New("a message was lost on its way")

func (r *reel) request() error {
	r.requests++
	r.owed, r.brought = r.batch, false
	r.batch = min(2*r.batch, reelMost)
	next := r.b.api + "CONSUMER.MSG.NEXT." + r.stream + "." + r.consumer.CachedInfo().Name
	return r.b.nc.PublishRequest(next, r.inbox+strconv.Itoa(r.requests), request(r.owed, r.maxBytes, reelExpires))
}

// wait blocks until something arrives. A broken connection ends the reel: the
// server may have forgotten it.
func (r *reel) wait(ctx context.Context, quiet time.Time) (*nats.Msg, error) {
	look := time.NewTicker(reelSilence / 50)
	defer look.Stop()
	for {
		select {
		case m := <-r.arrived:
			return m, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-look.C:
		}
		if denied := r.b.denial(quiet, ""); denied != nil {
			return nil, fmt.Errorf("%w: %w", brokers.ErrUnauthorized, denied)
		}
		if !r.b.up.Load() {
			return nil, nats.ErrDisconnected
		}
		if time.Since(quiet) > reelSilence {
			return nil, fmt.Errorf("no answer for %v", reelSilence)
		}
	}
}

// status takes the end of a request.
func (r *reel) status(ctx context.Context, m *nats.Msg) error {
	if m.Subject != r.inbox+strconv.Itoa(r.requests) {
		return nil // of a request that is over
	}
	code, text := m.Header.Get("Status"), m.Header.Get("Description")
	r.owed = 0
	switch {
	case code == "404", code == "408":
		return r.over(ctx)
	case code == "409" && strings.HasPrefix(text, "Message Size Exceeds MaxBytes"):
		if !r.brought { // the next message alone is larger
			r.maxBytes *= 2
		}
		return nil
	case code == "409" && strings.HasPrefix(text, "Batch Completed"):
		return nil
	}
	// The consumer or its server went away, or is about to.
	return fmt.Errorf("server answers %s %s", code, text)
}

// over asks whether anything is left when a request brought less than there
// seemed to be: the rest was deleted meanwhile, or lost on its way.
func (r *reel) over(ctx context.Context) error {
	var info *jetstream.ConsumerInfo
	err := r.b.call(ctx, func(ctx context.Context) (err error) {
		info, err = r.consumer.Info(ctx)
		return err
	})
	switch {
	case err != nil:
		return err
	case info.Delivered.Consumer > r.count+uint64(len(r.arrived)):
		return errLost
	case len(r.arrived) == 0:
		r.pending = info.NumPending
	}
	return nil
}

// close implements [reader].
func (r *reel) close() {
	if r.sub != nil {
		_ = r.sub.Unsubscribe()
	}
	// Also when the caller's context has ended: nothing is left behind.
	ctx, cancel := context.WithTimeout(context.Background(), reelExpires)
	defer cancel()
	_ = r.b.call(ctx, func(ctx context.Context) error {
		return r.b.js.DeleteConsumer(ctx, r.stream, r.consumer.CachedInfo().Name)
	})
}
