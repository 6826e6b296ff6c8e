package consumer

import (
	"container/heap"
	"time"
)

// parked tasks wait in a heap by the time at which they are due.
type parkedHeap []*task

func (h parkedHeap) Len() int           { return len(h) }
func (h parkedHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h parkedHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *parkedHeap) Push(x any)        { *h = append(*h, x.(*task)) }
func (h *parkedHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return t
}

// park keeps a task until due; only its own ordering key queues behind it.
func (p *pipeline) park(t *task, wait time.Duration) {
	t.phase, t.due = parked, p.now.Add(wait)
	heap.Push(&p.parked, t)
}

// postpone keeps a task whose letter or copy could not be published.
func (p *pipeline) postpone(t *task, wait time.Duration) {
	t.due = p.now.Add(wait)
	heap.Push(&p.parked, t)
}

// unpark moves on with what is due.
func (p *pipeline) unpark() {
	for len(p.parked) > 0 && !p.parked[0].due.After(p.now) {
		t := heap.Pop(&p.parked).(*task)
		switch t.phase {
		case lettering, copying:
			p.outbox = append(p.outbox, t)
		default:
			p.want(t)
		}
	}
}

func (p *pipeline) repark(t *task) { heap.Push(&p.parked, t) }
