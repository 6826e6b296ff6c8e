package consumer

import (
	"context"
	"time"
)

// againIn is the pause after the n-th failure in a row of what broker or store
// must do before anything goes on.
func againIn(n int) time.Duration {
	return min(100*time.Millisecond<<min(n-1, 10), 30*time.Second)
}

// again waits for that pause, or until ctx ends, whose error it returns then.
func again(ctx context.Context, n int) error {
	select {
	case <-time.After(againIn(n)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
