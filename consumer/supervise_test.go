package consumer

import (
	"errors"
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
