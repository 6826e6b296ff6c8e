package consumer

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/brokers"
)

// askPrefixes bounds the question of which deliveries are repeats; nothing but a
// figure hangs on it.
const askPrefixes = 5 * time.Second

// freshLanes are lanes that were assigned and have delivered nothing yet.
type freshLanes struct {
	mu    sync.Mutex
	lanes []*brokers.Lane
}

func (f *freshLanes) add(lanes []*brokers.Lane) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lanes = append(f.lanes, lanes...)
}

func (f *freshLanes) take() []*brokers.Lane {
	f.mu.Lock()
	defer f.mu.Unlock()
	lanes := f.lanes
	f.lanes = nil
	return lanes
}

// drop forgets lanes that have ended.
func (f *freshLanes) drop(lanes []*brokers.Lane) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lanes = slices.DeleteFunc(f.lanes, func(l *brokers.Lane) bool { return slices.Contains(lanes, l) })
}

// begin tells the loop of new lanes how far the store knows them to be
// acknowledged, before anything of them is handed on. Where the store does not
// say, nothing of them counts as absorbed.
func (p *pipeline) begin(ctx context.Context) {
	lanes := p.fresh.take()
	if len(lanes) == 0 {
		return
	}
	asking, cancel := context.WithTimeout(ctx, askPrefixes)
	defer cancel()
	prefixes, err := p.store.Prefixes(asking, p.cfg.Name)
	if err != nil {
		return
	}
	p.post(func() {
		for _, l := range lanes {
			for _, at := range prefixes {
				if !l.Retry && at.Source == l.Source && at.Partition == l.Partition {
					p.laneOf(l).passed = at.Offset
				}
			}
		}
	})
}

// absorb counts a repeat that its record has answered.
func (p *pipeline) absorb(t *task) {
	if t.d.Offset < t.lane.passed {
		p.absorbed.Add(1)
	}
}
