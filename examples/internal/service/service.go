// Package service is what the example consumers have in common and what has
// nothing to do with onceward: flags and environment, signals, exit statuses
// and health endpoints.
package service

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"

	"github.com/onceward/onceward/internal/interrupt"
)

// Exit statuses of a program.
const (
	OK     = 0
	Failed = 1   // could not start, or cannot go on without a person
	Usage  = 2   // wrong flags
	AtOnce = 130 // a second signal
)

// UsageError is a fault of the flags or the environment.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }
func (e *UsageError) Unwrap() error { return e.Err }

// Process is what a program takes from outside.
type Process struct {
	Name   string   // of the program
	Usage  []string // ways to call it, for its help
	Args   []string
	Getenv func(string) string
	Stdout io.Writer
	Stderr io.Writer
}

// Log is the process's log: one JSON object a line, durations as people write
// them.
func (p *Process) Log() *slog.Logger {
	return slog.New(slog.NewJSONHandler(p.Stderr, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() == slog.KindDuration {
			a.Value = slog.StringValue(a.Value.Duration().String())
		}
		return a
	}}))
}

// Main runs the program and ends the process with its exit status. The first
// argument names one of the commands; where it does not, it is run, which stops
// when its context ends.
//
// The first SIGTERM or SIGINT ends that context, a second one the process.
func Main(name string, run func(context.Context, *Process) error, commands map[string]func(context.Context, *Process) error) {
	// Whoever asks twice does not want to wait.
	ctx := interrupt.Context(func(os.Signal) { os.Exit(AtOnce) })
	p := &Process{Name: name, Args: os.Args[1:], Getenv: os.Getenv, Stdout: os.Stdout, Stderr: os.Stderr}
	p.Usage = []string{name + " [flags]"}
	for _, command := range slices.Sorted(maps.Keys(commands)) {
		p.Usage = append(p.Usage, name+" "+command+" [flags]")
	}
	if len(p.Args) > 0 && commands[p.Args[0]] != nil {
		p.Usage = []string{name + " " + p.Args[0] + " [flags]"}
		run, p.Args = commands[p.Args[0]], p.Args[1:]
	}
	os.Exit(p.status(run(ctx, p)))
}

// status reports an error and returns the exit status that it means.
func (p *Process) status(err error) int {
	var usage *UsageError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return OK
	case errors.As(err, &usage):
		fmt.Fprintf(p.Stderr, "%s: %v\n", p.Name, err)
		return Usage
	}
	p.Log().Error("ended", "error", err)
	return Failed
}
