package membroker

import (
	"container/heap"

	"github.com/onceward/onceward/brokers"
)

// life of a lane: joining (Assigned not called yet) → live → draining
// (Revoked runs; acks count, nothing is handed out) → ended.
type life uint8

const (
	joining life = iota
	live
	draining
	ended
)

// What is known of an offset between floor and next.
const (
	open   = byte(iota) // handed out, or waiting in again
	acked               // settled
	asked               // a test wants it again while it is handed out
	unheld              // given back, waits in later
)

// lane is one period of owning a partition, and what the owner knows beyond
// the position. All fields but the embedded ones are guarded by Broker.mu.
type lane struct {
	brokers.Lane
	part   *partition
	owner  *source
	life   life
	paused bool

	floor int64  // every offset below is acked
	next  int64  // the first offset never handed out by this lane
	state []byte // of floor, floor+1, … next-1
	again []int64
	later waits
}

// wait is a deferred delivery: 16 bytes.
type wait struct {
	due    int64 // nanoseconds since the broker was made
	offset int64
}

type waits []wait

func (w waits) Len() int           { return len(w) }
func (w waits) Less(i, j int) bool { return w[i].due < w[j].due }
func (w waits) Swap(i, j int)      { w[i], w[j] = w[j], w[i] }
func (w *waits) Push(x any)        { *w = append(*w, x.(wait)) }
func (w *waits) Pop() any {
	old := *w
	x := old[len(old)-1]
	*w = old[:len(old)-1]
	return x
}

// at is the state of an offset, nil when it is not between floor and next.
func (l *lane) at(offset int64) *byte {
	i := offset - l.floor
	if i < 0 || i >= int64(len(l.state)) {
		return nil
	}
	return &l.state[i]
}

// ack settles an offset and moves the floor over the contiguous prefix.
func (l *lane) ack(offset int64) {
	at := l.at(offset)
	if at == nil || *at == acked {
		return
	}
	*at = acked
	l.settle()
}

// settle moves the floor over the contiguous prefix.
func (l *lane) settle() {
	n := 0
	for n < len(l.state) && l.state[n] == acked {
		n++
	}
	l.state = l.state[n:]
	l.floor += int64(n)
}

// giveBack makes an offset wait until due.
func (l *lane) giveBack(offset, due int64) {
	if at := l.at(offset); at != nil && *at != acked && *at != unheld {
		*at = unheld
		heap.Push(&l.later, wait{due, offset})
	}
}

// repeat hands an offset out once more although it is handed out.
func (l *lane) repeat(offset int64) bool {
	at := l.at(offset)
	if at == nil || *at != open {
		return false
	}
	*at = asked
	l.again = append(l.again, offset)
	return true
}

// pick is the next offset to hand out: what a test asked for, then what is
// due, then new ones.
func (l *lane) pick(now int64) (int64, bool) {
	for len(l.again) > 0 {
		offset := l.again[0]
		l.again = l.again[1:]
		if at := l.at(offset); at != nil && *at == asked {
			*at = open
			return offset, true
		}
	}
	for len(l.later) > 0 && l.later[0].due <= now {
		offset := heap.Pop(&l.later).(wait).offset
		if at := l.at(offset); at != nil && *at == unheld {
			*at = open
			return offset, true
		}
	}
	if l.next < l.part.end() {
		l.state = append(l.state, open)
		l.next++
		return l.next - 1, true
	}
	return 0, false
}

// due is when the earliest deferred delivery may go out; false when none waits
// or the lane hands out nothing.
func (l *lane) due() (int64, bool) {
	if len(l.later) == 0 || l.paused || l.life != live {
		return 0, false
	}
	return l.later[0].due, true
}

// drop lets go of what the log has lost: what was not handed out counts as
// settled, since nobody can read it any more.
func (l *lane) drop() {
	for ; l.next < l.part.start; l.next++ {
		l.state = append(l.state, unheld)
	}
	for offset := l.floor; offset < l.part.start; offset++ {
		switch at := l.at(offset); *at {
		case asked:
			*at = open
		case unheld:
			*at = acked
		}
	}
	l.settle()
}
