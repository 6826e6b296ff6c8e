package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/onceward/onceward/cmd/onceward/internal/cli"
	"github.com/onceward/onceward/consumer"
)

// One incident from alarm to closed, through a running consumer.
func TestAnIncidentIsWorkedOffThroughTheRunningConsumer(t *testing.T) {
	r := newRig(t)
	r.start(consumer.AdminConfig{})
	for i := range 5 {
		r.publish("created", order(fmt.Sprintf("ord-%d", i), "refuse"), "x-tenant", "acme")
		r.letters(uint64(i + 1)) // one after the other, since letters are written in any order
	}
	r.publish("created", order("ord-9", "fine"))
	r.quiet()
	r.publish("created", "no json")
	r.letters(6)

	via := []string{"--via", r.via, "--who", "eve"}
	golden(t, "groups.jsonl", call(t, "dlq", "groups", "--json", via).want(t, cli.Done).stdout)
	call(t, "dlq", "groups", via).want(t, cli.Done).shows(t, "COUNT", `card # of "…": refused`, "terminal")
	golden(t, "list.jsonl", call(t, "dlq", "list", "--json", "--reason", "terminal", "--limit", "1", via).want(t, cli.Done).says(t, "there are more").stdout)
	call(t, "dlq", "list", via).want(t, cli.Done).shows(t, "ord-4", "open", "key")
	id := ids(t, "--key", "ord-3", via)[0]
	golden(t, "show.json", call(t, "dlq", "show", id, "--json", via).want(t, cli.Done).stdout)
	call(t, "dlq", "show", id, via).want(t, cli.Done).shows(t, "would reopen and send: its operation has failed", "x-tenant: acme", `"order_id": "ord-3"`, "order.create ord-3")
	call(t, "dlq", "show", id, "--payload", "hex", via).want(t, cli.Done).shows(t, "7b 22 6f 72")
	golden(t, "export.jsonl", call(t, "dlq", "export", "--key", "ord-3", via).want(t, cli.Done).stdout)

	plan := filepath.Join(t.TempDir(), "plan.jsonl")
	golden(t, "plan.json", call(t, "dlq", "replay", "plan", "--reason", "terminal", "--why", "card service mended", "-o", plan, "--json", via).want(t, cli.Done).stdout)
	call(t, "dlq", "replay", "plan", "--reason", "terminal", "-o", plan, via).want(t, cli.Usage).says(t, "is there already")
	call(t, "dlq", "replay", "status", plan, via).want(t, cli.Partly).shows(t, "not sent")
	call(t, "dlq", "replay", "apply", plan, via).want(t, cli.Usage).says(t, "--yes")
	call(t, "dlq", "replay", "apply", plan, via, terminal("n\n")).want(t, cli.Partly).says(t, "Send at most 5 of 5 letters to")
	call(t, "dlq", "replay", "apply", plan, "--dry-run", via).want(t, cli.Done).shows(t, "nothing was sent")

	r.mended.Store(true)
	golden(t, "apply.json", call(t, "dlq", "replay", "apply", plan, "--yes", "--json", "--rate", "50", via).want(t, cli.Done).stdout)
	golden(t, "status.json", call(t, "dlq", "replay", "status", plan, "--wait", "20s", "--json", via).want(t, cli.Done).stdout)
	golden(t, "status-each.jsonl", call(t, "dlq", "replay", "status", plan, "--each", "--json", via).want(t, cli.Done).stdout)
	call(t, "dlq", "replay", "status", plan, via).want(t, cli.Done).shows(t, "succeeded  5")
	// Applied once more it has nothing left to do.
	call(t, "dlq", "replay", "apply", plan, "--yes", via).want(t, cli.Done)
	r.quiet()
	if ran := r.ran.Load(); ran != 5+1+5 {
		t.Errorf("handler ran %d times, want 11", ran)
	}
	golden(t, "record.jsonl", call(t, "record", "get", "ord-3", "--json", via).want(t, cli.Done).stdout)
	call(t, "record", "get", "ord-3", via).want(t, cli.Done).shows(t, "succeeded", "resolved")
	call(t, "dlq", "list", "--reason", "terminal", via).want(t, cli.Nothing)

	// What is left is garbage.
	id = ids(t, via)[0]
	call(t, "dlq", "discard", id, "--reason", "test data", via).want(t, cli.Usage)
	golden(t, "discard.jsonl", call(t, "dlq", "discard", id, "--reason", "test data", "--yes", "--json", via).want(t, cli.Done).stdout)
	call(t, "dlq", "groups", via).want(t, cli.Nothing)
	call(t, "dlq", "list", "--state", "discarded", via).want(t, cli.Done).shows(t, id)
	call(t, "dlq", "show", id, via).want(t, cli.Done).shows(t, "test data")
}

func TestAnIncidentIsWorkedOffWhileTheConsumerIsStopped(t *testing.T) {
	r := newRig(t)
	r.start(consumer.AdminConfig{})
	for i := range 3 {
		r.publish("created", order(fmt.Sprintf("ord-%d", i), "refuse"))
	}
	r.letters(3)
	call(t, "dlq", "list", r.offline()).want(t, cli.Failed).says(t, fmt.Sprintf("process %d", os.Getpid()), "--via")
	r.stop()

	// From the environment, too.
	call(t, "dlq", "list", "ONCEWARD_FROM="+r.from(), "ONCEWARD_STORE=bolt:"+r.file).want(t, cli.Done).shows(t, "ord-2")
	call(t, "dlq", "groups", "--from", r.from()).want(t, cli.Done).says(t, "without --store")
	all := ids(t, r.offline())
	call(t, "dlq", "resolve", all[0], "--reason", "booked by hand", "--yes", r.offline()).want(t, cli.Done)
	// Said again with the same words it is done; with others it is refused.
	call(t, "dlq", "resolve", all[0], "--reason", "booked by hand", "--yes", r.offline()).want(t, cli.Done).says(t, "by the same words", "1 of 1 letter is resolved")
	call(t, "dlq", "resolve", all[0], "--reason", "a test", "--yes", r.offline()).want(t, cli.Partly).says(t, "is resolved already")
	call(t, "dlq", "resolve", all[1], "--reason", "x", terminal("no\n"), r.offline()).want(t, cli.Partly).says(t, "Resolve 1 letter? It cannot be undone.")
	// A letter is named by how its id begins.
	call(t, "dlq", "show", all[1][:8], r.offline()).want(t, cli.Done).shows(t, all[1])
	call(t, "dlq", "show", all[1][:7], r.offline()).want(t, cli.Usage).says(t, "at least 8 characters")
	call(t, "dlq", "show", "ffffffff00", r.offline()).want(t, cli.Nothing)
	call(t, "dlq", "resolve", all[1][:12], "--reason", "booked by hand", "--yes", r.offline()).want(t, cli.Done)
	call(t, "dlq", "resolve", "0123456789abcdef0123456789abcdef", "--reason", "x", "--yes", r.offline()).want(t, cli.Nothing)
	plan := filepath.Join(t.TempDir(), "plan.jsonl")
	call(t, "dlq", "replay", "plan", "-o", plan, "--who", "ann", r.offline()).want(t, cli.Done)
	call(t, "dlq", "replay", "apply", plan, "--yes", "--who", "bob", r.offline()).want(t, cli.Done).shows(t, "sent", "1")
	call(t, "record", "get", "ord-2", "--consumer", "billing", "--store", "bolt:"+r.file).want(t, cli.Done).shows(t, "by bob")
	call(t, "dlq", "replay", "plan", "-o", plan+"2", "--since", "2030-01-01", r.offline()).want(t, cli.Nothing)
	if _, err := os.Stat(plan + "2"); err == nil {
		t.Error("an empty plan was left behind")
	}
	// A job that has taken a letter holds it until a person frees it.
	call(t, "dlq", "replay", "status", plan, r.offline()).want(t, cli.Partly).shows(t, "waiting")

	r.mended.Store(true)
	r.start(consumer.AdminConfig{})
	r.letters(3)
	call(t, "dlq", "replay", "status", plan, "--wait", "20s", "--via", r.via).want(t, cli.Done)
}

// A file that is not the one which the consumer used last decides nothing.
func TestAnotherFileOrAnOldCopyIsNotWrittenTo(t *testing.T) {
	r := newRig(t)
	r.start(consumer.AdminConfig{})
	r.publish("created", order("ord-1", "refuse"))
	r.letters(1)
	r.stop()
	old := r.file + ".old"
	text, err := os.ReadFile(r.file)
	if err == nil {
		err = os.WriteFile(old, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.start(consumer.AdminConfig{})
	r.publish("created", order("ord-2", "refuse"))
	r.letters(2)
	r.stop()
	id := ids(t, r.offline())[0]
	at := []string{"--from", r.from()}
	call(t, "dlq", "list", at, "--store", "bolt:"+old).want(t, cli.Done).says(t, "careful", "older than")
	call(t, "dlq", "resolve", id, "--reason", "x", "--yes", at, "--store", "bolt:"+old).want(t, cli.Failed).says(t, "older than")
	call(t, "dlq", "resolve", id, "--reason", "x", "--yes", at, "--store", "bolt:"+r.file+".new", "--create").want(t, cli.Failed).says(t, "consumed last with store")
	call(t, "record", "delete", "ord-9", "--reason", "x", "--consumer", "billing", "--store", "bolt:"+old).want(t, cli.Nothing).says(t, "not checked")
	call(t, "record", "delete", "ord-9", "--reason", "x", "--store", "bolt:"+old, at).want(t, cli.Failed).says(t, "older than")
	call(t, "dlq", "resolve", id, "--reason", "x", "--yes", r.offline()).want(t, cli.Done)
}
