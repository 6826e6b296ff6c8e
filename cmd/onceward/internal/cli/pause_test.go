package cli_test

import (
	"strings"
	"testing"

	"github.com/onceward/onceward/cmd/onceward/internal/cli"
	"github.com/onceward/onceward/consumer"
)

func TestAPauseOfAMisspeltNameIsRefused(t *testing.T) {
	r := newRig(t)
	r.start(consumer.AdminConfig{})
	r.publish("created", order("ord-1", "fine"))
	r.quiet()
	call(t, "pause", "--scope", "nosuch", "--reason", "x", "--yes", "--via", r.via).want(t, cli.Usage).says(t, `no scope "nosuch"`, "order.cancel")
	r.stop()
	file := []string{"--reason", "x", "--yes", "--store", "bolt:" + r.file}
	call(t, "pause", "--consumer", "biling", file).want(t, cli.Partly).says(t, `of a consumer "biling"`)
	call(t, "resume", "--consumer", "biling", "--store", "bolt:"+r.file).want(t, cli.Partly).says(t, `of a consumer "biling"`)
	call(t, "pause", "--consumer", "biling", "--from", r.from(), file).want(t, cli.Usage).says(t, `"billing", not of "biling"`)
	// A route that is new may have run nothing.
	call(t, "pause", "--consumer", "billing", "--scope", "nosuch", file).want(t, cli.Done).says(t, `careful: no record and no letter of consumer billing has the scope "nosuch"`, "those of order.create")
}

func TestAPauseSaysWhenItHoldsAndAResumeWhatItLeaves(t *testing.T) {
	r := newRig(t)
	r.start(consumer.AdminConfig{})
	r.publish("created", order("ord-1", "fine"))
	r.quiet()
	via := []string{"--via", r.via}
	call(t, "pause", "--reason", "x", "--yes", via).want(t, cli.Done).says(t, "is paused: within about a second nothing new starts")
	call(t, "pause", "--scope", "order.create", "--reason", "x", "--yes", via).want(t, cli.Done)
	call(t, "resume", "--scope", "order.create", via).want(t, cli.Done).says(t, "consumer billing is still paused, since", "onceward resume ends that")
	call(t, "pause", "--scope", "order.create", "--reason", "x", "--yes", via).want(t, cli.Done)
	call(t, "resume", via).want(t, cli.Done).says(t, "scope order.create is still paused, since", "onceward resume --scope order.create ends that")
	r.stop()
	file := []string{"--store", "bolt:" + r.file, "--consumer", "billing"}
	call(t, "pause", "--scope", "order.new", "--reason", "x", "--yes", file).want(t, cli.Done)
	left := call(t, "resume", file).want(t, cli.Done).says(t, "consumer billing is not paused, as before", "scope order.new is still paused")
	if n := strings.Count(left.stderr, "scope order.create is still paused"); n != 1 {
		t.Errorf("told %d times: %s", n, left.stderr)
	}
	call(t, "resume", "--scope", "order.new", file).want(t, cli.Done)
	if left = call(t, "resume", "--scope", "order.create", file).want(t, cli.Done); strings.Contains(left.stderr, "still") {
		t.Errorf("nothing is left: %s", left.stderr)
	}
}
