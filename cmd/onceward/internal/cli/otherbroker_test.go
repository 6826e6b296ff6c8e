package cli_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/onceward/onceward/cmd/onceward/internal/cli"
	"github.com/onceward/onceward/consumer"
)

// One is production, say, and the other its copy for tests.
func TestTheLettersOfOneBrokerAreNotDecidedByTheConsumerOfAnother(t *testing.T) {
	r, other := newRig(t), startRig(t)
	for _, one := range []*rig{r, other} {
		one.start(consumer.AdminConfig{})
		one.publish("created", "garbage")
		one.letters(1)
	}
	crossed, straight := []string{"--via", r.via, "--from", other.from()}, []string{"--via", r.via, "--from", r.from()}
	plan := filepath.Join(t.TempDir(), "plan.jsonl")
	call(t, "dlq", "replay", "plan", "-o", plan, crossed).want(t, cli.Done).says(t, "careful: --from has not the letters of the consumer at --via", "consumed last with store")
	call(t, "dlq", "replay", "apply", plan, "--yes", crossed).want(t, cli.Failed).says(t, "--from has not the letters of the consumer at --via")
	call(t, "dlq", "discard", ids(t, crossed)[0], "--reason", "x", "--yes", crossed).want(t, cli.Failed).says(t, "--from has not the letters")
	if r := call(t, "dlq", "list", straight).want(t, cli.Done); strings.Contains(r.stderr, "careful") {
		t.Errorf("its own broker: %s", r.stderr)
	}
	call(t, "dlq", "discard", ids(t, straight)[0], "--reason", "x", "--yes", straight).want(t, cli.Done)
}
