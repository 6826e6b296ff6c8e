package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onceward/onceward/cmd/onceward/internal/cli"
	"github.com/onceward/onceward/consumer"
)

// What fails a third time is held until a person has looked.
func TestALetterThatFailsAgainIsToldAndHeldInTheEnd(t *testing.T) {
	r := newRig(t)
	r.start(consumer.AdminConfig{})
	r.publish("created", order("ord-1", "refuse"))
	r.letters(1)
	via := []string{"--via", r.via}
	plan := filepath.Join(t.TempDir(), "plan")
	for round, outcome := range []string{"failed again", "held"} {
		file := fmt.Sprint(plan, round)
		call(t, "dlq", "replay", "plan", "-o", file, via).want(t, cli.Done)
		// The canary is watched, and does not succeed.
		call(t, "dlq", "replay", "apply", file, "--yes", "--canary", "1", "--canary-wait", "20s", via).want(t, cli.Partly).says(t, "stopped")
		r.letters(uint64(round) + 2) // the new one is noted after its record
		call(t, "dlq", "replay", "status", file, "--wait", "20s", via).want(t, cli.Partly).shows(t, outcome)
	}
	// The answer to a copy leaves who sent it.
	first := ids(t, "--state", "resolved", via)[0]
	call(t, "dlq", "list", "--state", "resolved", via).want(t, cli.Done).shows(t, "resolved: failed")
	call(t, "dlq", "show", first, via).want(t, cli.Done).lists(t, ", answered: failed at 20", ", sent by ")
	call(t, "record", "get", "ord-1", via).want(t, cli.Done).lists(t, "resolved: failed terminal 1 ", first)
	call(t, "dlq", "list", "--state", "held", via).want(t, cli.Done).shows(t, "ord-1")
	call(t, "dlq", "groups", via).want(t, cli.Done).shows(t, "HELD")
	id := ids(t, via)[0]
	call(t, "dlq", "show", id, via).want(t, cli.Done).shows(t, "may be approved")
	call(t, "dlq", "replay", "plan", "-o", plan+"refused", via).want(t, cli.Done).shows(t, "refuse")
	call(t, "dlq", "replay", "apply", plan+"refused", "--yes", via).want(t, cli.Partly).shows(t, "refused")
	call(t, "doctor", via).want(t, cli.Done).shows(t, "1 letter is held")

	r.mended.Store(true)
	call(t, "dlq", "open", id, "--reason", "seen", via).want(t, cli.Done)
	call(t, "dlq", "show", id, via).want(t, cli.Done).shows(t, "open, by", "seen")
	call(t, "dlq", "replay", "plan", "-o", plan+"approved", via).want(t, cli.Done).shows(t, "reopen")
	call(t, "dlq", "replay", "apply", plan+"approved", "--yes", "--canary", "1", via).want(t, cli.Done).shows(t, "answered")
	call(t, "dlq", "replay", "status", plan+"approved", "--wait", "20s", via).want(t, cli.Done)
}

// A message without a usable key has one letter, however often its copies die:
// JetStream, which knows the letter's id, must not take the second one for a
// repeat of the first.
func TestALetterWithoutAKeyIsListedAgainWhenItsCopyDies(t *testing.T) {
	r := newRig(t)
	r.start(consumer.AdminConfig{})
	r.publish("created", "no json")
	r.letters(1)
	via := []string{"--via", r.via}
	plan := filepath.Join(t.TempDir(), "plan.jsonl")
	call(t, "dlq", "replay", "plan", "-o", plan, via).want(t, cli.Done).shows(t, "send")
	call(t, "dlq", "replay", "apply", plan, "--yes", via).want(t, cli.Done)
	call(t, "dlq", "replay", "status", plan, "--wait", "20s", via).want(t, cli.Partly).shows(t, "failed again")
	r.letters(2)
	call(t, "dlq", "list", via).want(t, cli.Done).shows(t, "open", "key")
}

func TestASignalEndsAnApplicationAndTheNextOneGoesOn(t *testing.T) {
	r := newRig(t)
	r.start(consumer.AdminConfig{})
	for i := range 4 {
		r.publish("created", order(fmt.Sprintf("ord-%d", i), "refuse"))
	}
	r.letters(4)
	r.mended.Store(true)
	plan := filepath.Join(t.TempDir(), "plan.jsonl")
	call(t, "dlq", "replay", "plan", "-o", plan, "--via", r.via).want(t, cli.Done)
	ran := r.ran.Load()

	ctx, signal := context.WithCancel(t.Context())
	var stdout, stderr bytes.Buffer
	code := make(chan int, 1)
	go func() {
		code <- cli.Run(ctx, &cli.Process{
			Args:  []string{"dlq", "replay", "apply", plan, "--yes", "--rate", "0.2", "--json", "--via", r.via},
			Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Getenv: func(string) string { return "" },
		})
	}()
	r.until("the first copy's end", func(context.Context) bool { return r.ran.Load() > ran })
	signal()
	if got := <-code; got != cli.Partly || !strings.Contains(stderr.String(), "signal") || !strings.Contains(stdout.String(), `"stopped":`) {
		t.Fatalf("exit code %d\nstdout: %s\nstderr: %s", got, &stdout, &stderr)
	}
	if n := strings.Count(stderr.String(), "ended by a signal"); n != 1 {
		t.Errorf("told %d times: %s", n, &stderr)
	}
	// Another job is refused what this one has taken, and nothing else.
	call(t, "dlq", "replay", "apply", plan, "--yes", "--via", r.via).want(t, cli.Done)
	call(t, "dlq", "replay", "status", plan, "--wait", "20s", "--via", r.via).want(t, cli.Done)
	if n := r.ran.Load(); n != ran+4 {
		t.Errorf("handler ran %d times more, want 4", n-ran)
	}
}

func TestAPersonDecidesWhatAPlanRefuses(t *testing.T) {
	r := newRig(t)
	r.start(consumer.AdminConfig{})
	r.publish("created", order("ord-1", "doubtful"))
	r.publish("created", order("ord-2", "fine"))
	r.publish("created", order("ord-2", "other content"))
	r.letters(2)
	via := []string{"--via", r.via}
	plan := filepath.Join(t.TempDir(), "plan")
	call(t, "dlq", "replay", "plan", "-o", plan, via).want(t, cli.Done).shows(t, "refuse      2")
	call(t, "dlq", "replay", "apply", plan, "--yes", via).want(t, cli.Partly).shows(t, "refused  2", "in doubt", "other content")

	call(t, "dlq", "list", "--reason", "conflict", via).want(t, cli.Done).shows(t, "this key was used with other content, by the message at")
	doubtful, conflict := ids(t, via, "--reason", "in-doubt")[0], ids(t, via, "--reason", "conflict")[0]
	call(t, "dlq", "discard", doubtful, "--reason", "x", "--yes", via).want(t, cli.Partly).says(t, "refused", "its operation is in_doubt, and must be finished first")
	call(t, "dlq", "discard", conflict, "--reason", "a second order under one id", "--yes", via).want(t, cli.Done)
	r.mended.Store(true)
	call(t, "dlq", "replay", "plan", "-o", plan+"2", "--approve", doubtful, "--why", "the bank has no booking", "--to", "source", via).want(t, cli.Done).shows(t, "reopen")
	call(t, "dlq", "replay", "apply", plan+"2", "--yes", "--canary", "1", via).want(t, cli.Done)
	call(t, "dlq", "replay", "status", plan+"2", via).want(t, cli.Done).shows(t, "succeeded  1")
	r.quiet()
	call(t, "dlq", "list", via).want(t, cli.Nothing)
	call(t, "record", "get", "ord-1", via).want(t, cli.Done).shows(t, "the bank has no booking")
	if s, err := r.js.Stream(t.Context(), "ORDERS"); err != nil || s.CachedInfo().State.Msgs != 4 {
		t.Errorf("the copy did not go to the source: %v", err)
	}
}

// What ran on the id since the letter's message is told before anything is sent.
func TestWhatRanOnTheIdLaterIsTold(t *testing.T) {
	r := newRig(t)
	r.start(consumer.AdminConfig{})
	r.publish("created", order("ord-1", "refuse"))
	r.letters(1)
	r.publish("cancelled", order("ord-1", "fine"))
	r.quiet()
	via := []string{"--via", r.via}
	id := ids(t, via)[0]
	call(t, "dlq", "show", id, via).want(t, cli.Done).lists(t, "ran later order.cancel ord-1, succeeded")
	call(t, "dlq", "show", id, "--json", via).want(t, cli.Done).shows(t, `"later":[{"scope":"order.cancel","id":"ord-1","state":"succeeded"`)
	plan := filepath.Join(t.TempDir(), "plan.jsonl")
	call(t, "dlq", "replay", "plan", "-o", plan, via).want(t, cli.Done).says(t, "1 later operation", "order.cancel ord-1, succeeded")

	for i := range 11 {
		r.publish("created", order(fmt.Sprintf("ord-%d", i+2), "refuse"))
	}
	r.letters(12)
	for i := range 11 {
		r.publish("cancelled", order(fmt.Sprintf("ord-%d", i+2), "fine"))
	}
	r.quiet()
	call(t, "dlq", "replay", "plan", "-o", plan+"2", via).want(t, cli.Done).says(t, "12 later operations", "and 2 more")
}

// The id by which JetStream drops repeats is the sender's, and no copy's: with it
// a copy that comes within two minutes would be dropped without a word.
func TestACopyIsNotDroppedForItsSendersMessageID(t *testing.T) {
	r := newRig(t)
	r.start(consumer.AdminConfig{})
	r.publish("created", order("ord-1", "refuse"), "Nats-Msg-Id", "m-1", "Nats-Expected-Last-Sequence", "0")
	r.letters(1)
	r.mended.Store(true)
	plan := filepath.Join(t.TempDir(), "plan.jsonl")
	call(t, "dlq", "replay", "plan", "-o", plan, "--to", "source", "--via", r.via).want(t, cli.Done)
	call(t, "dlq", "replay", "apply", plan, "--yes", "--via", r.via).want(t, cli.Done)
	call(t, "dlq", "replay", "status", plan, "--wait", "20s", "--via", r.via).want(t, cli.Done).shows(t, "succeeded  1")
	if s, err := r.js.Stream(t.Context(), "ORDERS"); err != nil || s.CachedInfo().State.Msgs != 2 {
		t.Errorf("the copy is not in the source: %v", err)
	}
}

func TestASignalEndsAQuestion(t *testing.T) {
	silent, person := io.Pipe() // who sits there and does not answer
	defer person.Close()
	ctx, signal := context.WithCancel(t.Context())
	signal()
	var stdout, stderr bytes.Buffer
	code := cli.Run(ctx, &cli.Process{
		Args:  []string{"dlq", "discard", nobody, "--reason", "x", "--via", "http://127.0.0.1:1"},
		Stdin: silent, Stdout: &stdout, Stderr: &stderr, Getenv: func(string) string { return "" }, Terminal: true,
	})
	if code != cli.Partly || !strings.Contains(stderr.String(), "ended by a signal") {
		t.Errorf("exit code %d\nstderr: %s", code, &stderr)
	}
}
