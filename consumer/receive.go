package consumer

import (
	"context"
	"errors"
	"hash/maphash"
	"time"

	"github.com/onceward/onceward/brokers"
)

// receiver reads deliveries, finds their keys, and hands them to the loop in
// slices, while those before are committed.
type receiver struct {
	p     *pipeline
	seed  maphash.Seed
	first func(ctx context.Context) error // called before the first delivery is handed on
}

// run receives until ctx ends (nil) or the source can give no more.
func (r *receiver) run(ctx context.Context) error {
	for {
		limit, err := r.p.room.wait(ctx)
		if err != nil {
			return nil
		}
		deliveries, err := r.p.source.Receive(ctx, limit)
		if len(deliveries) > 0 {
			if r.first != nil {
				if err := r.first(ctx); err != nil {
					return err
				}
				r.first = nil
			}
			r.p.deliver(r.tasks(deliveries))
		}
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return nil
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
