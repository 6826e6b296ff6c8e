package consumer

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/dedup"
)

// abandons is a source that only takes notice.
type abandons struct{ brokers.Source }

func (abandons) Abandon([]*brokers.Delivery) {}

// A dependency that is down makes handlers hang which ignore their context.
func TestAHungHandlerUsesNothingUpWhileTheBreakerIsOpen(t *testing.T) {
	p, one := pipelineOfOneWorker(t)
	p.source = abandons{}
	p.now = time.Now()
	p.breaker.open(p.now, time.Second)
	hangs := one()
	p.start(hangs)
	p.work.hand([]*task{hangs})
	p.work.exchange(0, nil)
	p.now = p.now.Add(2*hangs.route.Timeout + time.Second)
	p.supervise()
	if !hangs.hung {
		t.Fatal("not found to hang")
	}
	hangs.err = errors.New("gave up at last")
	p.finished(hangs)
	if hangs.outcome != dedup.Release {
		t.Errorf("it ended as %s, want release: the outage is not the message's fault", hangs.outcome)
	}
}

// A log may be slow, and workers must not wait for it.
func TestWorkersGoOnWhileAHungHandlerIsTold(t *testing.T) {
	p, one := pipelineOfOneWorker(t)
	p.source = abandons{}
	told := false
	p.log = slog.New(whileTold{func() {
		free := make(chan struct{})
		go func() { p.work.quick(); close(free) }()
		select {
		case <-free:
			told = true
		case <-time.After(10 * time.Second):
		}
	}})
	hangs := one()
	p.start(hangs)
	p.work.hand([]*task{hangs})
	p.work.exchange(0, nil)
	p.now = time.Now().Add(2*hangs.route.Timeout + time.Hour)
	p.supervise()
	if !hangs.hung || !told {
		t.Errorf("found to hang %v, workers went on %v", hangs.hung, told)
	}
}

// whileTold calls a function for each line.
type whileTold struct{ f func() }

func (w whileTold) Enabled(context.Context, slog.Level) bool  { return true }
func (w whileTold) Handle(context.Context, slog.Record) error { w.f(); return nil }
func (w whileTold) WithAttrs([]slog.Attr) slog.Handler        { return w }
func (w whileTold) WithGroup(string) slog.Handler             { return w }
