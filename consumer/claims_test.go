package consumer_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup"
)

// pickyStore refuses claims while it is told to.
type pickyStore struct {
	dedup.Store
	refuses atomic.Bool
}

func (s *pickyStore) Apply(ctx context.Context, ops []dedup.Op) ([]dedup.Answer, error) {
	if !s.refuses.Load() {
		return s.Store.Apply(ctx, ops)
	}
	answers := make([]dedup.Answer, len(ops))
	for i := range ops {
		answers[i].Err = fmt.Errorf("the lease is too short: %w", dedup.ErrInvalidOp)
	}
	return answers, nil
}

func TestAClaimThatTheStoreRefusesIsNamedAndWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		store := &pickyStore{Store: r.store}
		store.refuses.Store(true)
		r.cfg.Store = store
		var runs counter
		r.run(runs.route())
		settle()
		r.send(orderJSON("o-1", 1))
		settle()
		if got := fmt.Sprint(r.c.Status().Degraded); !strings.Contains(got, "store refuses a claim") || !strings.Contains(got, "billing/order.create/o-1") {
			t.Errorf("degraded: %s", got)
		}
		r.wantUnsettled(1)
		store.refuses.Store(false)
		pass(time.Minute)
		if got := r.c.Status().Degraded; len(got) != 0 || runs.of("o-1") != 1 {
			t.Errorf("degraded %v, %d runs", got, runs.of("o-1"))
		}
		r.wantUnsettled(0)
		if err := r.end(); err != nil {
			t.Error(err)
		}
	})
}

func TestARepeatThatCannotBeComparedIsAbsorbedAndLogged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		var log bytes.Buffer
		r.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		var runs counter
		route := runs.route()
		r.run(route)
		r.send(orderJSON("o-1", 1))
		pass(time.Second)
		if err := r.end(); err != nil {
			t.Error(err)
		}
		route.Fingerprint = consumer.Fields("no")
		r.run(route)
		r.send(orderJSON("o-1", 2))
		pass(time.Second)
		if err := r.end(); err != nil {
			t.Error(err)
		}
		if runs.total() != 1 || !strings.Contains(log.String(), "repeat not compared") {
			t.Errorf("%d runs, log:\n%s", runs.total(), log.String())
		}
		r.wantReasons()
	})
}
