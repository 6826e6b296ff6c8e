package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// outcome is how one check ended.
type outcome string

const (
	passed     outcome = "passed"
	failed     outcome = "failed"
	notBuilt   outcome = "did not build"
	notRun     outcome = "ran no such test"
	wrongAlarm outcome = "ended without saying ok"
)

// patience bounds one check; a test that hangs on a mutant has failed.
const patience = 3 * time.Minute

// workplace is the copy of the work tree that checks run in.
type workplace struct{ tree string }

// verdicts runs every check of m on the mutant, and says whether all caught it.
func (w workplace) verdicts(ctx context.Context, m *mutant) (said []string, all bool) {
	all = true
	for _, check := range m.checks() {
		o := w.run(ctx, check, m.overlay)
		all = all && o == failed
		said = append(said, fmt.Sprintf("%s %s", check.what(), o))
	}
	return said, all
}

// run runs the single check m, on the code as it is when overlay is empty.
func (w workplace) run(ctx context.Context, m *mutant, overlay string) outcome {
	if m.quickstart {
		return w.quickstart(ctx, overlay)
	}
	return w.test(ctx, overlay, m.tests[0])
}

// command runs go with the overlay also for go commands that the test runs.
func (w workplace) command(ctx context.Context, overlay string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = w.tree
	cmd.Env = os.Environ()
	if overlay != "" {
		cmd.Env = append(cmd.Env, "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -overlay="+overlay))
	}
	// A child of the test may keep the pipe open after a kill.
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

func (w workplace) test(ctx context.Context, overlay string, t test) outcome {
	args := slices.Concat([]string{"test", "-json", "-count=1", "-timeout", patience.String(), "-run", "^" + t.name + "$"}, t.flags, []string{t.pkg})
	cmd := w.command(ctx, overlay, args...)
	out, err := cmd.Output()
	return judge(out, err, t.name)
}

// judge reads the events of "go test -json". A test has failed when it began
// and its package failed: one that panics or hangs may leave no event of its
// own.
func judge(out []byte, err error, name string) outcome {
	var ran bool
	for line := range bytes.Lines(out) {
		var event struct{ Action, Test, FailedBuild string }
		if json.Unmarshal(line, &event) != nil {
			continue
		}
		if event.Action == "build-fail" || event.FailedBuild != "" {
			return notBuilt
		}
		ran = ran || event.Action == "run" && event.Test == name
	}
	switch {
	case !ran:
		return notRun
	case err != nil:
		return failed
	}
	return passed
}

// quickstart builds the quickstart and lets it judge itself.
func (w workplace) quickstart(ctx context.Context, overlay string) outcome {
	dir, err := os.MkdirTemp("", "mutants-quickstart")
	if err != nil {
		return notBuilt
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a folder left in the temporary one
	program := filepath.Join(dir, "quickstart")
	if w.command(ctx, overlay, "build", "-o", program, "./examples/quickstart").Run() != nil {
		return notBuilt
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "--json")
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.Output()
	var proof struct {
		OK *bool `json:"ok"`
	}
	exit := new(exec.ExitError)
	if json.Unmarshal(out, &proof) != nil {
		proof.OK = nil
	}
	switch {
	case err == nil && proof.OK != nil && *proof.OK:
		return passed
	case errors.As(err, &exit) && proof.OK != nil && !*proof.OK, ctx.Err() != nil:
		return failed
	}
	return wrongAlarm
}
