// Command onceward shows what consumers have left behind, dead letters and
// records, and works it off.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/onceward/onceward/cmd/onceward/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// What is under way is ended in order; a second signal does not wait for it.
	context.AfterFunc(ctx, stop)
	os.Exit(cli.Run(ctx, &cli.Process{
		Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, Terminal: isTerminal(os.Stdin),
	}))
}

// isTerminal says that somebody sits there who can answer.
func isTerminal(f *os.File) bool {
	i, err := f.Stat()
	if err != nil || i.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(i, null)
}
