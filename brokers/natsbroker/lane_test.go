package natsbroker

import "testing"

// A consumer that is slower than its stream never sees the end of the queue.
func TestAQueueThatIsNeverEmptyTakesNoMoreMemory(t *testing.T) {
	l := &lane{}
	l.held.init()
	arrive := func() {
		h := &held{lane: l}
		h.d.Handle = h
		l.held.push(h)
		l.queue = append(l.queue, h)
	}
	arrive()
	for range 10_000 {
		arrive()
		if got, _ := l.take(nil, 1, 1<<20); len(got) != 1 {
			t.Fatalf("took %d", len(got))
		} else {
			l.held.pull(got[0].Handle.(*held))
		}
	}
	if n := cap(l.queue); n > 100 {
		t.Errorf("room for %d deliveries, and two waited at a time", n)
	}
}
