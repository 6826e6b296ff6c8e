package consumer

import (
	"context"
	"sync"
)

// gate lets the receiver through unless the whole consumer is paused.
type gate struct {
	mu     sync.Mutex
	shut   chan struct{}      // closed when the gate opens again; nil while it is open
	open   context.Context    // for what is received while it is open; nil before the first
	closes context.CancelFunc // of open
}

func (g *gate) set(shut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case shut && g.shut == nil:
		g.shut = make(chan struct{})
		if g.open != nil {
			g.closes()
			g.open = nil
		}
	case !shut && g.shut != nil:
		close(g.shut)
		g.shut = nil
	}
}

// pass waits until the gate is open. The context that it returns ends when it
// shuts, and with ctx, which must be the same in every call. The error is that
// of ctx.
func (g *gate) pass(ctx context.Context) (context.Context, error) {
	for {
		open, shut := g.look(ctx)
		if shut == nil {
			return open, ctx.Err()
		}
		select {
		case <-shut:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// look returns the context of an open gate, or else the channel of a shut one.
func (g *gate) look(ctx context.Context) (open context.Context, shut chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut == nil && g.open == nil {
		g.open, g.closes = context.WithCancel(ctx)
	}
	return g.open, g.shut
}
