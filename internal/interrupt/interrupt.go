// Package interrupt ends a program when it is told to: in order, and at once
// when it is told again.
package interrupt

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// same is how long signals are one request. Some tools send theirs to a program
// and then to its group, which it is in, too: timeout(1), shells, process
// managers. Nobody presses keys that fast.
const same = 200 * time.Millisecond

// Context ends at the first SIGINT or SIGTERM. At a second one that is not the
// same request it calls again, once. It is for main: the signals are never
// given back.
func Context(again func(os.Signal)) context.Context {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-signals
		cancel()
		first := time.Now()
		for s := range signals {
			if time.Since(first) > same {
				again(s)
				return
			}
		}
	}()
	return ctx
}
