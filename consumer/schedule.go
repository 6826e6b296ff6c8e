package consumer

import (
	"time"

	"github.com/onceward/onceward/brokers"
)

// arrive takes in what the receiver has read: each task is wanted at once, or
// queues behind the last one of its ordering key.
func (p *pipeline) arrive(tasks []task) {
	for i := range tasks {
		t := &tasks[i]
		l := p.laneOf(t.d.Lane)
		t.lane = l
		l.unfinished++
		if l.ended {
			p.forget(t) // it has not queued behind anybody yet
			continue
		}
		if t.bad != nil {
			p.enter(t)
			p.unusable(t)
			continue
		}
		if !p.greetBy.IsZero() && p.sample == nil {
			p.sample = t
		}
		if t.order != 0 {
			last := p.chains[t.order]
			p.chains[t.order] = t
			if last != nil {
				t.phase, last.next = queued, t
				continue
			}
		}
		p.want(t)
	}
}

// want puts a task among those to be claimed.
func (p *pipeline) want(t *task) {
	if t.lane.ended {
		p.drop(t)
		return
	}
	if p.paused[t.route] {
		p.hold(t)
		return
	}
	t.phase = pending
	p.wanted.push(t)
}

// advance lets the next task of the same ordering key go on, once.
func (p *pipeline) advance(t *task) {
	if t.order == 0 {
		return
	}
	order, next := t.order, t.next
	t.order, t.next = 0, nil
	for next != nil && next.lane.ended {
		after := next.next
		next.order, next.next = 0, nil
		p.forget(next)
		next = after
	}
	if next == nil {
		delete(p.chains, order)
		return
	}
	p.want(next)
}

// drop forgets a task without settling it: its lane ended, and the message
// belongs to the next owner.
func (p *pipeline) drop(t *task) {
	p.advance(t)
	p.forget(t)
}

// forget takes a task off the counts.
func (p *pipeline) forget(t *task) {
	t.phase = gone
	t.lane.unfinished--
	p.freedCount++
	p.freedBytes += t.size
}

// enter and leave keep count of tasks that something outside is being done
// for: a lane is drained when it has none.
func (p *pipeline) enter(t *task) {
	t.lane.active++
	p.active++
}

func (p *pipeline) leave(t *task) {
	t.lane.active--
	p.active--
}

func (p *pipeline) laneOf(l *brokers.Lane) *lane {
	if p.lastLane != nil && p.lastLane.Lane == l {
		return p.lastLane
	}
	known := p.lanes[l]
	if known == nil {
		known = &lane{Lane: l}
		p.lanes[l] = known
	}
	p.lastLane = known
	return known
}

// endLane stops work on a lane: what has not started goes back, what runs may
// finish until cancelAt.
func (p *pipeline) endLane(l *lane, cancelAt time.Time) {
	if l.ended {
		return
	}
	l.ended, l.cancelAt = true, cancelAt
	for _, t := range p.wanted.drain() { // dropping one may make its successor wanted
		if t.lane == l {
			p.drop(t)
		} else {
			p.wanted.push(t)
		}
	}
	held := p.held
	p.held = nil
	for _, t := range held {
		if t.lane == l {
			p.drop(t)
		} else {
			p.held = append(p.held, t)
		}
	}
	parked := p.parked
	p.parked = nil
	for _, t := range parked {
		switch {
		case t.lane != l:
			p.repark(t)
		case t.phase == lettering:
			// Its outcome is durable; its letter goes on being tried while
			// the lane drains.
			p.repark(t)
		case t.phase == copying:
			p.copyStays(t)
		default:
			p.drop(t)
		}
	}
	p.unready(func(t *task) bool { return t.lane == l })
}

// unready gives back what is claimed and has not started.
func (p *pipeline) unready(of func(*task) bool) {
	keep := func(t *task) bool {
		if !of(t) {
			return true
		}
		p.giveBack(t)
		return false
	}
	p.retract()
	p.readied = filter(p.readied, keep)
	p.suspects = filter(p.suspects, keep)
	p.aloneBack(of)
}

func filter(tasks []*task, keep func(*task) bool) []*task {
	kept := tasks[:0]
	for _, t := range tasks {
		if keep(t) {
			kept = append(kept, t)
		}
	}
	clear(tasks[len(kept):])
	return kept
}
