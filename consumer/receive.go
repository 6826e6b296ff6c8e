package consumer

import (
	"context"
	"errors"
	"hash/maphash"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/deadletter"
)

// receiver reads deliveries, finds their keys, and hands them to the loop in
// slices, while those before are committed.
type receiver struct {
	p     *pipeline
	seed  maphash.Seed
	first func(ctx context.Context) error // called before the first delivery is handed on

	bearers []*task   // of the batch at hand, those that claim to be copies of letters
	unknown int       // tokens that the store does not have, since warned
	warned  time.Time // last
}

// run receives until ctx ends (nil) or the source can give no more.
func (r *receiver) run(ctx context.Context) error {
	for {
		open, err := r.p.gate.pass(ctx)
		if err != nil {
			return nil
		}
		limit, err := r.p.room.wait(open)
		if err != nil {
			continue // paused, or at the end
		}
		deliveries, err := r.p.source.Receive(open, limit)
		if len(deliveries) > 0 {
			if r.first != nil {
				if err := r.first(ctx); err != nil {
					return err
				}
				r.first = nil
			}
			tasks := r.tasks(deliveries)
			if len(r.bearers) > 0 {
				if err := r.verify(ctx, r.bearers); err != nil {
					return nil // nothing is decided: they stay with the broker
				}
				clear(r.bearers)
				r.bearers = r.bearers[:0]
			}
			r.p.begin(ctx)
			r.p.deliver(tasks)
		}
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return nil
		case open.Err() != nil && errors.Is(err, context.Canceled): // paused
		case errors.Is(err, brokers.ErrClosed):
			return errSourceClosed
		default:
			return err
		}
	}
}

var errSourceClosed = errors.New("source was closed by the broker's adapter")

// tasks finds route, key, ordering key and fingerprint of each delivery.
func (r *receiver) tasks(deliveries []*brokers.Delivery) []task {
	r.p.resolving.Store(time.Now().UnixNano())
	defer r.p.resolving.Store(0)
	tasks := make([]task, len(deliveries))
	bytes := 0
	for i, d := range deliveries {
		t := &tasks[i]
		t.d, t.size = d, d.Size()
		bytes += t.size
		r.resolve(t)
		if len(t.view.Headers) != len(d.Headers) { // it bears headers of ours
			if ticket, ok := deadletter.ReadTicket(d.Headers); ok {
				t.replay = &replay{ticket: ticket}
				r.bearers = append(r.bearers, t)
			}
		}
	}
	r.p.room.take(len(tasks), bytes)
	return tasks
}

func (r *receiver) resolve(t *task) {
	t.view.fill(t.d)
	route, fault := selectRoute(r.p.routes, &t.view)
	if fault != nil {
		t.bad = fault
		return
	}
	key, order, print, fault := route.resolve(&t.view)
	if fault != nil {
		t.bad = fault
		return
	}
	t.route, t.fp = route, print
	t.hash = maphash.Comparable(r.seed, key)
	t.order = maphash.String(r.seed, order) | 1 // 0 means none
}
