package consumer

import (
	"fmt"
	"time"

	"github.com/onceward/onceward/brokers"
)

// supervise looks after what runs: handlers that hang, lanes whose time to
// finish is over, leases that ran out while the store was away.
func (p *pipeline) supervise() {
	if p.now.Before(p.superviseDue) {
		return
	}
	p.superviseDue = p.now.Add(time.Second)
	if p.busy > 0 || p.active > 0 {
		p.superviseDue = p.now.Add(50 * time.Millisecond)
	}
	p.superviseHandlers()
	if !p.local {
		p.lapse()
	}
	for key, l := range p.lanes {
		// Kept for a while, so that a late batch of it is still known as ended.
		if l.ended && l.unfinished == 0 && p.now.Sub(l.cancelAt) > time.Minute {
			delete(p.lanes, key)
		}
	}
	if t := p.alone; t != nil {
		p.degrade("all but a suspect", fmt.Errorf("%v was running when the process died, %d times, and now runs with nothing beside it", t.view.Key, t.crashes))
	} else {
		p.restore("all but a suspect")
	}
	if state, since := p.breaker.status(); state == breakerClosed {
		p.restore("breaker")
	} else {
		p.degrade("breaker", fmt.Errorf("%v since %s: a dependency fails for most keys, only a few handlers run to probe it, and no failure counts", state, since.UTC().Format(time.RFC3339)))
	}
}

// superviseHandlers looks after what the workers have. The workers wait while
// they are looked at, so that what is to be done is done afterwards.
func (p *pipeline) superviseHandlers() {
	hung := 0
	var hangs, over []*task
	p.work.each(func(t *task) {
		if p.now.Sub(t.began) > 2*t.route.Timeout {
			hung++
			if !t.hung {
				hangs = append(hangs, t)
			}
		}
		if t.lane.ended && !p.now.Before(t.lane.cancelAt) {
			over = append(over, t)
		}
	})
	p.health.hung(hung)
	var abandoned []*brokers.Delivery
	for _, t := range hangs {
		t.hung = true
		t.counts = p.breaker.record(t.epoch, t.hash, int(t.failures), provesDown, p.now)
		abandoned = append(abandoned, t.d)
		p.log.Error("handler hangs: it has outlived twice its timeout, its lease is no longer renewed", append(p.attrs(t, nil), "timeout", t.route.Timeout)...)
	}
	if len(abandoned) > 0 {
		p.source.Abandon(abandoned)
	}
	cause := ErrLaneLost
	if p.stopping {
		cause = ErrShutdown
	}
	for _, t := range over {
		t.attempt.end(cause)
	}
}

// lapse cuts short what would run past its lease, since another process may
// claim the key then. A renewal may still come, behind commits that a shared
// store has not done: nobody waits to see.
func (p *pipeline) lapse() {
	var over []*task
	for _, t := range p.owned {
		if p.lapses(t) && !t.hung && (t.phase == ready || t.phase == running) {
			over = append(over, t)
		}
	}
	for _, t := range over {
		p.loseLease(t)
	}
}

// lapses says that too little is left of a task's lease to run on.
func (p *pipeline) lapses(t *task) bool {
	return p.now.Add(p.cfg.Lease / leaseMargin).After(t.leaseEnd)
}
