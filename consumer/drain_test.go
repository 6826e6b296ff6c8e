package consumer_test

import (
	"context"
	"testing"
	"time"

	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup"
)

// A second member joins while a handler runs: the partition moves when that has
// ended and its message is acknowledged, so that the second never sees it.
func TestAPartitionMovesOnlyAfterItsHandlersHaveEnded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 2)
		shared := &storeAt{Store: r.store, info: func(dedup.Info) dedup.Info { return dedup.Info{Kind: "shared"} }}
		r.cfg.Store = shared
		var runs counter
		route := consumer.JSON("order.create", order.ID, func(_ context.Context, o order) error {
			runs.add(o.No)
			time.Sleep(10 * time.Second)
			return nil
		})
		r.run(route)
		for _, no := range []string{"o-1", "o-2", "o-3", "o-4"} {
			r.send(orderJSON(no, 1))
		}
		pass(time.Second)
		second := r.cfg
		seen := 0
		second.Observer = func(ds []consumer.Decision) { seen += len(ds) }
		c, err := consumer.New(second, route)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		pass(time.Minute)
		if seen != 0 {
			t.Errorf("the second member decided %d times about messages of the first", seen)
		}
		if runs.total() != 4 {
			t.Errorf("%d runs, want 4", runs.total())
		}
		r.wantUnsettled(0)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := r.end(); err != nil {
			t.Error(err)
		}
	})
}
