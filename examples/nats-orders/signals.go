package main

import (
	"context"
	"os"
)

// untilSignal is a context that the first signal ends. A second one ends the
// process.
func untilSignal(signals <-chan os.Signal) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		select {
		case <-signals:
			cancel()
		case <-ctx.Done():
		}
		<-signals
		os.Exit(exitAtOnce) // whoever asks twice does not want to wait
	}()
	return ctx, cancel
}
