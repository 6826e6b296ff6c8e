package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/onceward/onceward/consumer"
)

func TestSoakALongOutageUnderLoadMakesNoLetters(t *testing.T) {
	messages := full(100_000)
	bubble(t, func(t *testing.T) {
		r := newRig(t, 4)
		r.cfg.Workers = 64
		r.cfg.Observer = nil
		var runs counter
		begun := time.Now()
		up := begun.Add(20 * time.Minute)
		route := consumer.JSON("order.create", order.ID, func(_ context.Context, o order) error {
			if time.Now().Before(up) {
				return errors.New("dependency is down")
			}
			runs.add(o.No)
			return nil
		})
		route.Retry = consumer.Retry{MaxFailures: 3, Initial: 50 * time.Millisecond, Multiplier: 1, NoJitter: true}
		r.run(route)
		for i := range messages {
			r.send(orderJSON(fmt.Sprint("o-", i), 5))
		}
		pass(20 * time.Minute)
		if s := r.c.Status(); s.Degraded["breaker"] == "" || !s.Live || !s.Ready {
			t.Errorf("status in the outage %+v", s)
		}
		pass(10 * time.Minute)
		r.wantReasons()
		if runs.total() != messages {
			t.Errorf("%d of %d ran", runs.total(), messages)
		}
		r.wantUnsettled(0)
		if s := r.c.Status(); len(s.Degraded) > 0 {
			t.Errorf("still degraded: %v", s.Degraded)
		}
		r.end()
	})
}

func TestOneKeyThatFailsTenThousandTimesIsNoOutage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		opened := 0
		r.cfg.Observer = func([]consumer.Decision) {
			if r.c.Status().Degraded["breaker"] != "" {
				opened++
			}
		}
		var runs counter
		route := consumer.JSON("order.create", order.ID, func(_ context.Context, o order) error {
			if runs.add(o.No); o.No == "bad" {
				return errors.New("always")
			}
			return nil
		})
		route.Retry = consumer.Retry{MaxFailures: 10_000, Initial: 10 * time.Millisecond, Multiplier: 1, NoJitter: true}
		r.run(route)
		settle()
		r.send(orderJSON("bad", 1))
		for i := range 100 {
			pass(time.Second + time.Millisecond*200)
			r.send(orderJSON(fmt.Sprint("o-", i), 1))
		}
		pass(time.Hour)
		if opened > 0 {
			t.Errorf("the breaker opened: seen %d times", opened)
		}
		if runs.of("bad") != 10_000 || runs.total() != 10_100 {
			t.Errorf("bad ran %d times of %d", runs.of("bad"), runs.total())
		}
		r.wantReasons("exhausted")
		if l := r.broker.Letters("billing", topic); header(l[0], "dl-failures") != "10000" {
			t.Errorf("letter says %s failures", header(l[0], "dl-failures"))
		}
		r.wantUnsettled(0)
		r.end()
	})
}
