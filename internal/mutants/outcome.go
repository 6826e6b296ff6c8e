package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
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

// verdicts runs every check of m on the mutant, one by one, and says whether
// all caught it.
func (w workplace) verdicts(ctx context.Context, m *mutant) (said []string, all bool) {
	all = true
	say := func(what string, o outcome) {
		all = all && o == failed
		said = append(said, fmt.Sprintf("%s %s", what, o))
	}
	for _, t := range m.tests {
		say(t.what(), w.test(ctx, m.overlay, t))
	}
	if m.quickstart {
		say("quickstart", w.quickstart(ctx, m.overlay))
	}
	return said, all
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

// test runs one test on a mutant: the first fault in it is enough.
func (w workplace) test(ctx context.Context, overlay string, t test) outcome {
	out, err := w.run(ctx, overlay, t, t.name, "-failfast", "-timeout", patience.String())
	return judge(out, err, t.name)
}

// together runs tests that have package and flags in common on the code as it
// is.
func (w workplace) together(ctx context.Context, ts []test) []outcome {
	names := make([]string, len(ts))
	for i, t := range ts {
		names[i] = t.name
	}
	out, err := w.run(ctx, "", ts[0], "("+strings.Join(names, "|")+")", "-timeout", (time.Duration(len(ts)) * patience).String())
	outcomes := make([]outcome, len(ts))
	blamed := false
	for i, t := range ts {
		outcomes[i] = judge(out, err, t.name)
		blamed = blamed || outcomes[i] != passed && !passes(out, t.name)
	}
	for i, t := range ts {
		// The package fails for another's fault.
		if blamed && passes(out, t.name) {
			outcomes[i] = passed
		}
	}
	return outcomes
}

// run runs the tests of t's package that match, with t's flags.
func (w workplace) run(ctx context.Context, overlay string, t test, match string, flags ...string) ([]byte, error) {
	args := slices.Concat([]string{"test", "-json", "-count=1", "-vet=off", "-run", "^" + match + "$"}, flags, t.flags, []string{t.pkg})
	return w.command(ctx, overlay, args...).Output()
}

// event is what is used of a line of "go test -json".
type event struct{ Action, Test, FailedBuild string }

func events(out []byte) iter.Seq[event] {
	return func(yield func(event) bool) {
		for line := range bytes.Lines(out) {
			var e event
			if json.Unmarshal(line, &e) == nil && !yield(e) {
				return
			}
		}
	}
}

// judge says how a test ended. It has failed when it began and its package
// failed: one that panics or hangs may leave no event of its own.
func judge(out []byte, err error, name string) outcome {
	var ran bool
	for e := range events(out) {
		if e.Action == "build-fail" || e.FailedBuild != "" {
			return notBuilt
		}
		ran = ran || e == event{Action: "run", Test: name}
	}
	switch {
	case !ran:
		return notRun
	case err != nil:
		return failed
	}
	return passed
}

// passes says whether a test itself passed, whatever became of its package.
func passes(out []byte, name string) bool {
	for e := range events(out) {
		if (e == event{Action: "pass", Test: name}) {
			return true
		}
	}
	return false
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
