package natsbroker

import "github.com/onceward/onceward/brokers"

// held is a delivery from its arrival in memory until it is settled. Its life:
//
//	arrived → linked (the server is told about progress)
//	linked → settled, by Ack, Defer, Close
//	linked → abandoned → settled
//
// One allocation holds all that a message needs, and nothing looks it up: the
// delivery leads to it by its Handle. Fields below d are guarded by lane.mu.
type held struct {
	d    brokers.Delivery
	lane *lane
	ack  string // subject that takes acks, naks and word of progress

	prev, next *held  // in lane.held, nil when not linked
	told       uint64 // the tick in which the server was told last
}

// ring is a list of held deliveries, the one told about longest ago first. A
// message that is settled quickly costs two links and no visit of a timer.
type ring struct{ root held }

func (r *ring) init() { r.root.prev, r.root.next = &r.root, &r.root }

func (r *ring) push(h *held) {
	last := r.root.prev
	last.next, h.prev = h, last
	h.next, r.root.prev = &r.root, h
}

// pull takes h out and reports whether it was in.
func (r *ring) pull(h *held) bool {
	if h.next == nil {
		return false
	}
	h.prev.next, h.next.prev = h.next, h.prev
	h.prev, h.next = nil, nil
	return true
}

func (r *ring) first() *held {
	if r.root.next == &r.root {
		return nil
	}
	return r.root.next
}

// What is sent to a delivery's ack subject.
var (
	ackBody      = []byte("+ACK")
	nakBody      = []byte("-NAK")
	progressBody = []byte("+WPI")
)

// Ticks: AckWait is divided into ticksPerWait, and the server is told after
// ticksUntilTold of them, so between a quarter and a third of AckWait.
const (
	ticksPerWait   = 12
	ticksUntilTold = 3
)

// keepAlive starts a new tick and tells the server about everything that has
// waited for long enough. It lets go of the lock now and then, since a process
// may hold a million.
//
// The word is sent with the lock held: after a nak with a delay it would set
// the server's clock back to AckWait. Publishing only appends to a buffer.
func (l *lane) keepAlive() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tick++
	if !l.s.b.up.Load() {
		return // they stay the oldest, and are told about after the reconnect
	}
	for n := 0; ; n++ {
		if n%512 == 511 {
			l.mu.Unlock()
			l.mu.Lock()
		}
		h := l.held.first()
		if h == nil || l.tick-h.told < ticksUntilTold {
			return
		}
		if err := l.s.b.nc.Publish(h.ack, progressBody); err != nil {
			return
		}
		l.held.pull(h)
		h.told = l.tick
		l.held.push(h)
	}
}
