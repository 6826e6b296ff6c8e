package consumer

import (
	"context"
	"sync"

	"github.com/onceward/onceward/brokers"
)

// budget bounds the deliveries in the process by count and bytes: the
// receiver waits for room before it asks the broker for more.
type budget struct {
	limit brokers.Limit

	mu    sync.Mutex
	count int
	bytes int
	freed chan struct{} // of one, rung when something was freed
}

func newBudget(limit brokers.Limit) *budget {
	return &budget{limit: limit, freed: make(chan struct{}, 1)}
}

// wait blocks until there is room and says how much, or ctx ends.
func (b *budget) wait(ctx context.Context) (brokers.Limit, error) {
	for {
		b.mu.Lock()
		left := brokers.Limit{Messages: b.limit.Messages - b.count, Bytes: b.limit.Bytes - b.bytes}
		b.mu.Unlock()
		if left.Messages > 0 && left.Bytes > 0 {
			return left, ctx.Err()
		}
		select {
		case <-b.freed:
		case <-ctx.Done():
			return brokers.Limit{}, ctx.Err()
		}
	}
}

func (b *budget) take(count, bytes int) {
	b.mu.Lock()
	b.count += count
	b.bytes += bytes
	b.mu.Unlock()
}

func (b *budget) free(count, bytes int) {
	b.mu.Lock()
	b.count -= count
	b.bytes -= bytes
	b.mu.Unlock()
	select {
	case b.freed <- struct{}{}:
	default:
	}
}

// used is what is in the process now.
func (b *budget) used() (count, bytes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.count, b.bytes
}
