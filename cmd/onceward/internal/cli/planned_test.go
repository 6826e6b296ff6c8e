package cli_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onceward/onceward/cmd/onceward/internal/cli"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup/boltstore"
)

// lists fails where the output lacks one of the lines, however wide its columns are.
func (r result) lists(t *testing.T, lines ...string) result {
	t.Helper()
	text := strings.Join(strings.Fields(r.stdout), " ")
	for _, l := range lines {
		if !strings.Contains(text, l) {
			t.Errorf("stdout lacks %q:\n%s", l, r.stdout)
		}
	}
	return r
}

const nobody = "0123456789abcdef0123456789abcdef"

func TestAPlanIsOfTheLettersThatAreNamed(t *testing.T) {
	r := newRig(t)
	r.start(consumer.AdminConfig{})
	r.publish("created", order("ord-1", "doubtful"))
	r.publish("created", order("ord-2", "refuse"))
	r.publish("created", order("ord-3", "refuse"))
	r.letters(3)
	via := []string{"--via", r.via}
	doubtful, refused := ids(t, "--key", "ord-1", via)[0], ids(t, "--key", "ord-2", via)[0]
	dir := t.TempDir()
	plan := func(name string, args ...string) result {
		t.Helper()
		return call(t, "dlq", "replay", "plan", "-o", filepath.Join(dir, name), "--why", "seen", via, args)
	}
	letters := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	// Approved alone, a letter is all that the plan has.
	plan("approved", "--approve", doubtful).want(t, cli.Done).lists(t, "letters 1", "reopen 1")
	plan("shortened", "--approve", doubtful[:12]).want(t, cli.Done).lists(t, "letters 1", "reopen 1")
	// Named letters and approved ones are together.
	plan("both", refused, "--approve", doubtful).want(t, cli.Done).lists(t, "letters 2")
	// With a filter, that says which.
	plan("filtered", "--reason", "in-doubt,terminal", "--approve", doubtful).want(t, cli.Done).lists(t, "letters 3", "reopen 3")
	if n := strings.Count(letters("approved"), "\n"); n != 2 || !strings.Contains(letters("approved"), doubtful) {
		t.Errorf("the plan of one letter is\n%s", letters("approved"))
	}
	// Why others are refused is told as it is when they are applied.
	plan("all").want(t, cli.Done).lists(t, "refuse 1", "refuse 1: in doubt", "such as "+doubtful)
	golden(t, "plan-refused.json", plan("json", "--json").want(t, cli.Done).stdout)

	// What there is not is told.
	plan("partly", refused, nobody).want(t, cli.Partly).lists(t, "letters 1").says(t, nobody)
	plan("partly-approved", "--reason", "in-doubt", "--approve", doubtful, "--approve", refused).want(t, cli.Partly).says(t, refused)
	golden(t, "plan-partly.json", plan("partly-json", refused, "--approve", nobody, "--json").want(t, cli.Partly).stdout)
	plan("none", nobody).want(t, cli.Nothing).says(t, nobody)
	plan("none", "--approve", nobody).want(t, cli.Nothing).says(t, nobody)
	if _, err := os.Stat(filepath.Join(dir, "none")); err == nil {
		t.Error("an empty plan was left behind")
	}
	call(t, "dlq", "replay", "plan", "-o", "-", nobody, via).want(t, cli.Nothing).says(t, "the plan has no letter")
	for _, command := range []string{"list", "export"} {
		call(t, "dlq", command, refused[:12], via).want(t, cli.Done).shows(t, refused)
		call(t, "dlq", command, refused, nobody, via).want(t, cli.Partly).shows(t, refused).says(t, nobody)
		call(t, "dlq", command, nobody, via).want(t, cli.Nothing).says(t, nobody)
	}

	// Whose record stays in doubt is told when its letter is resolved.
	both := call(t, "dlq", "resolve", doubtful, refused, "--reason", "seen", "--yes", via).want(t, cli.Done).says(t, "billing/order.create/ord-1 stays in doubt")
	if strings.Contains(both.stderr, "ord-2") {
		t.Errorf("what is not in doubt is told, too: %s", both.stderr)
	}
}

func TestASecondApplicationTellsWhatWasSentBefore(t *testing.T) {
	r := newRig(t)
	r.start(consumer.AdminConfig{})
	r.publish("created", order("ord-1", "refuse"))
	r.publish("created", order("ord-2", "refuse"))
	r.letters(2)
	r.mended.Store(true)
	via := []string{"--via", r.via}
	plan := filepath.Join(t.TempDir(), "plan.jsonl")
	call(t, "dlq", "replay", "plan", "-o", plan, via).want(t, cli.Done)
	call(t, "dlq", "replay", "apply", plan, "--dry-run", via).want(t, cli.Done).lists(t, "would be sent 2", "nothing was sent")
	other := plan + ".other"
	call(t, "dlq", "replay", "plan", "-o", other, via).want(t, cli.Done)
	call(t, "dlq", "replay", "apply", plan, "--yes", via).want(t, cli.Done).lists(t, " sent 2")
	again := call(t, "dlq", "replay", "apply", plan, "--yes", via).want(t, cli.Done).lists(t, "sent before 2")
	if strings.Contains(again.stdout, "  sent  ") {
		t.Errorf("it says that something was sent now:\n%s", again.stdout)
	}
	call(t, "dlq", "replay", "status", plan, "--wait", "20s", via).want(t, cli.Done)
	call(t, "dlq", "replay", "status", other, via).want(t, cli.Partly).lists(t, "not sent 2").says(t, "2 of those that this plan has not sent have succeeded all the same")
}

func TestWhatHindersACanaryIsAskedOfTheConsumer(t *testing.T) {
	r := newRig(t)
	r.start(consumer.AdminConfig{})
	r.publish("created", order("ord-1", "refuse"))
	r.letters(1)
	// A running consumer looks for pauses only now and then: it is started anew.
	r.stop()
	file := []string{"--consumer", "billing", "--who", "eve", "--store", "bolt:" + r.file}
	call(t, "pause", "--scope", "order.create", "--reason", "the bank is down", "--yes", file).want(t, cli.Done)
	r.start(consumer.AdminConfig{})
	plan := filepath.Join(t.TempDir(), "plan.jsonl")
	r.until("a consumer that answers", func(context.Context) bool {
		return call(t, "dlq", "replay", "plan", "-o", plan, "--via", r.via).code == cli.Done
	})
	call(t, "dlq", "replay", "apply", plan, "--yes", "--canary", "1", "--canary-wait", "1s", "--via", r.via).want(t, cli.Partly).
		says(t, "scope order.create is paused since", "by eve: the bank is down", "onceward resume --scope order.create", "next: let the consumer answer")
	status := call(t, "dlq", "replay", "status", plan, "--wait", "1s", "--via", r.via).want(t, cli.Partly).
		lists(t, "waiting 1").says(t, "1 copy not answered after 1s", "the bank is down")
	if strings.Contains(status.stdout, "ord-1") {
		t.Errorf("letters are listed without --each:\n%s", status.stdout)
	}
	call(t, "dlq", "replay", "status", plan, "--each", "--via", r.via).want(t, cli.Partly).shows(t, "OUTCOME", "ord-1")
}

func TestAFailedCanaryAsksForANewPlan(t *testing.T) {
	r := newRig(t)
	r.start(consumer.AdminConfig{})
	r.publish("created", order("ord-1", "refuse"))
	r.letters(1)
	plan := filepath.Join(t.TempDir(), "plan.jsonl")
	call(t, "dlq", "replay", "plan", "-o", plan, "--via", r.via).want(t, cli.Done)
	call(t, "dlq", "replay", "apply", plan, "--yes", "--canary", "1", "--via", r.via).want(t, cli.Partly).
		says(t, "stopped", "next: mend the cause, then make a new plan")
}

// A letter without a key that is older than the window has expired.
func TestWhoAcceptsExpiredLettersIsAskedForThem(t *testing.T) {
	r := newRig(t)
	r.start(consumer.AdminConfig{})
	r.publish("created", order("ord-1", "refuse"))
	r.publish("created", "no json")
	r.letters(2)
	r.mended.Store(true)
	via := []string{"--via", r.via}
	plan := filepath.Join(t.TempDir(), "plan.jsonl")
	call(t, "dlq", "replay", "plan", "-o", plan, "--window", "1ms", via).want(t, cli.Done).
		lists(t, "reopen 1", "refuse 1").says(t, "apply with --accept-expired --reason")
	call(t, "dlq", "replay", "apply", plan, via, terminal("n\n")).want(t, cli.Partly).says(t, "Send at most 1 of 2 letters to")
	call(t, "dlq", "replay", "apply", plan, "--yes", via).want(t, cli.Partly).lists(t, "sent 1", "refused 1").
		says(t, "next: 1 may have been done, and forgotten", "apply with --accept-expired --reason")
	accept := []string{"dlq", "replay", "apply", plan, "--accept-expired", "--reason", "not booked"}
	call(t, accept, via, terminal("n\n")).want(t, cli.Partly).says(t, "Send at most 2 of 2 letters, among them 1 expired")
	call(t, accept, "--yes", via).want(t, cli.Done).lists(t, "sent 1", "sent before 1")
	call(t, "dlq", "replay", "apply", plan, "--yes", via).want(t, cli.Done).lists(t, "sent before 2")
}

func TestAPlanThatDoesNothingIsNotToBeApplied(t *testing.T) {
	r := newRig(t)
	r.start(consumer.AdminConfig{})
	r.publish("created", order("ord-1", "doubtful"))
	r.letters(1)
	made := call(t, "dlq", "replay", "plan", "-o", filepath.Join(t.TempDir(), "plan.jsonl"), "--via", r.via).want(t, cli.Done).
		says(t, "applied as it is this plan changes nothing", "--approve ID", "dlq open ID")
	if strings.Contains(made.stderr, "replay apply") {
		t.Errorf("it is to be applied: %s", made.stderr)
	}
}

// A file that knows nothing of letters has forgotten those that are older than
// the window.
func TestLettersThatAreForgottenAreToldOfAndFoundByTheirID(t *testing.T) {
	r := newRig(t)
	r.start(consumer.AdminConfig{})
	r.publish("created", order("ord-1", "refuse"))
	r.publish("created", order("ord-2", "refuse"))
	r.letters(2)
	id := ids(t, "--key", "ord-1", "--via", r.via)[0]
	r.stop()
	empty := filepath.Join(t.TempDir(), "empty.db")
	fresh, err := boltstore.Open(empty, boltstore.Options{})
	if err == nil {
		err = fresh.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	plan := filepath.Join(t.TempDir(), "plan")
	file := []string{"--from", r.from(), "--window", "1ms", "--store", "bolt:" + empty}
	for _, command := range []string{"groups", "list", "export", "replay plan --accept-expired --why x -o " + plan} {
		call(t, "dlq", strings.Fields(command), file).want(t, cli.Nothing).says(t, "left out: 2 letters", "--state none")
		other := call(t, "dlq", strings.Fields(command), "--key", "ord-3", file).want(t, cli.Nothing)
		if strings.Contains(other.stderr, "left out") {
			t.Errorf("%s: what does not match is told of: %s", command, other.stderr)
		}
	}
	call(t, "dlq", "list", id, file).want(t, cli.Done).lists(t, "none terminal")
	call(t, "dlq", "export", id[:12], file).want(t, cli.Done).shows(t, id)
	call(t, "dlq", "replay", "plan", "-o", plan, id, file).want(t, cli.Done).lists(t, "refuse 1: older than the window")
	call(t, "dlq", "replay", "plan", "-o", plan+"2", "--accept-expired", "--why", "not booked", "--state", "none", file).want(t, cli.Done).lists(t, "send 2")
}

func TestLettersThatHaveLeftTheTopicAreToldOf(t *testing.T) {
	r := newRig(t)
	r.start(consumer.AdminConfig{})
	r.publish("created", order("ord-1", "refuse"))
	r.letters(1)
	via := []string{"--via", r.via}
	id := ids(t, via)[0]
	s, err := r.js.Stream(t.Context(), "ORDERS_DLQ")
	if err == nil {
		err = s.Purge(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"groups", "list", "export", "list --state open", "replay plan -o " + filepath.Join(t.TempDir(), "plan")} {
		call(t, "dlq", strings.Fields(command), via).want(t, cli.Nothing).says(t, "the store has 1 letter noted", "an hour after")
	}
	call(t, "dlq", "show", id, via).want(t, cli.Nothing).says(t, "the store has it as open")
	held := call(t, "dlq", "list", "--state", "held", via).want(t, cli.Nothing)
	if strings.Contains(held.stderr, "noted") {
		t.Errorf("none is held: %s", held.stderr)
	}
}
