package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/cmd/onceward/internal/cli"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup"
)

func TestRecordsAreSeenAndChanged(t *testing.T) {
	r := newRig(t)
	r.start(consumer.AdminConfig{})
	began := time.Now().Add(-time.Second).UTC().Format(time.RFC3339)
	r.publish("created", order("ord-1", "fine"))
	r.publish("cancelled", order("ord-1", "fine"))
	r.publish("created", order("ord-2", "refuse"))
	r.letters(1)
	via := []string{"--via", r.via, "--who", "eve"}

	call(t, "record", "list", via).want(t, cli.Done).shows(t, "order.cancel", "ord-2", "failed")
	golden(t, "records.jsonl", call(t, "record", "list", "--state", "failed", "--json", via).want(t, cli.Done).stdout)
	call(t, "record", "list", "--limit", "1", via).want(t, cli.Done).says(t, "there are more")
	var both bytes.Buffer
	cli.Run(t.Context(), &cli.Process{Args: append([]string{"record", "list", "--limit", "1"}, via...), Stdout: &both, Stderr: &both, Getenv: func(string) string { return "" }})
	if text := both.String(); !strings.HasSuffix(text, "others choose\n") {
		t.Errorf("it is not said in the end that there are more:\n%s", text)
	}
	call(t, "record", "list", "--state", "in-doubt", via).want(t, cli.Nothing)
	call(t, "record", "get", "ord-1", via).want(t, cli.Done).shows(t, "order.cancel/ord-1", "order.create/ord-1")
	call(t, "record", "get", "ord-1", "--scope", "order.cancel", via).want(t, cli.Done).shows(t, "order.cancel/ord-1")
	call(t, "record", "get", "ord-7", via).want(t, cli.Nothing)
	// A typing error in the scope is seen, and a key that was taken from a log.
	call(t, "record", "get", "ord-1", "--scope", "order.creat", via).want(t, cli.Nothing).says(t, `no record of "ord-1" in scope "order.creat"`)
	call(t, "record", "get", "billing/order.create/ord-1", via).want(t, cli.Nothing).says(t, `its business id is "ord-1", in scope "order.create"`)
	call(t, "dlq", "list", "--key", "billing/order.create/ord-2", via).want(t, cli.Nothing).says(t, `its business id is "ord-2", in scope "order.create"`)
	call(t, "record", "delete", "*", "--scope", "onceward.pause", "--reason", "x", "--yes", via).want(t, cli.Usage)
	if n := strings.Count(call(t, "record", "export", via).want(t, cli.Done).stdout, "\n"); n != 3 {
		t.Errorf("%d records exported, want 3", n)
	}

	call(t, "record", "delete", "ord-1", "--reason", "twice", "--yes", via).want(t, cli.Usage).says(t, "order.cancel, order.create: give one with --scope")
	golden(t, "delete.json", call(t, "record", "delete", "ord-1", "--scope", "order.cancel", "--reason", "twice", "--yes", "--json", via).want(t, cli.Done).stdout)
	call(t, "record", "delete", "ord-2", "--reason", "twice", "--yes", via).want(t, cli.Partly).says(t, "letter")
	call(t, "record", "unlock", "ord-2", "--reason", "hangs", "--yes", via).want(t, cli.Partly).says(t, "only a running operation")
	call(t, "record", "delete", "ord-1", "--reason", "twice", terminal("no\n"), via).want(t, cli.Partly)

	// What succeeded wrongly runs again.
	plan := filepath.Join(t.TempDir(), "rerun.jsonl")
	until := time.Now().Add(time.Second).UTC().Format(time.RFC3339)
	ran := r.ran.Load()
	call(t, "record", "rerun", "--scope", "order.create", "--completed-between", began, until, "--why", "wrong tax", "-o", plan, via).want(t, cli.Done)
	if before := call(t, "dlq", "replay", "status", plan, via).want(t, cli.Partly).shows(t, "not sent  1"); strings.Contains(before.stderr, "faster") {
		t.Errorf("that it had succeeded is why it is to run again: %s", before.stderr)
	}
	call(t, "dlq", "replay", "apply", plan, "--yes", via).want(t, cli.Done)
	call(t, "dlq", "replay", "status", plan, "--wait", "20s", via).want(t, cli.Done).shows(t, "succeeded  1")
	if now := r.ran.Load(); now != ran+1 {
		t.Errorf("handler ran %d times more, want once", now-ran)
	}
	call(t, "record", "get", "ord-1", via).want(t, cli.Done).shows(t, "wrong tax", "run        2")

	// One of them alone; what has failed is a matter of its letter.
	call(t, "record", "rerun", "--scope", "order.create", "ord-2", "--why", "again", "-o", plan+"2", via).want(t, cli.Nothing).says(t, "is failed", "dlq replay plan --key ord-2")
	call(t, "record", "rerun", "--scope", "order.create", "ord-7", "--why", "again", "-o", plan+"2", via).want(t, cli.Nothing).says(t, `no record of "ord-7"`)
	golden(t, "rerun.json", call(t, "record", "rerun", "--scope", "order.create", "ord-1", "--why", "again", "-o", plan+"2", "--json", via).want(t, cli.Done).stdout)
	call(t, "dlq", "replay", "apply", plan+"2", "--yes", via).want(t, cli.Done)
	call(t, "dlq", "replay", "status", plan+"2", "--wait", "20s", via).want(t, cli.Done)
	if now := r.ran.Load(); now != ran+2 {
		t.Errorf("handler ran %d times more, want twice", now-ran)
	}
}

// An operation whose owner hangs is taken from it, and the next delivery runs it.
func TestAnUnlockedOperationRunsWithItsNextDelivery(t *testing.T) {
	r := newRig(t)
	r.start(consumer.AdminConfig{})
	r.publish("created", order("ord-1", "fine"))
	r.quiet()
	key := dedup.Key{Consumer: "billing", Scope: "order.create", ID: "ord-2"}
	claim := dedup.Op{Kind: dedup.Claim, Key: key, Token: dedup.Token{1}, Lease: time.Hour, Policy: &dedup.Policy{Failures: 10, Lone: 3, Window: time.Hour}}
	if a, err := r.store.Apply(t.Context(), []dedup.Op{claim}); err != nil || a[0].Kind != dedup.Acquired {
		t.Fatal(a, err)
	}
	via := []string{"--via", r.via, "--who", "eve"}
	call(t, "record", "get", "ord-2", via).want(t, cli.Done).shows(t, "in_progress, running until")
	call(t, "record", "delete", "ord-2", "--reason", "hangs", "--yes", via).want(t, cli.Partly)
	call(t, "record", "unlock", "ord-2", "--reason", "hangs", terminal("no\n"), via).want(t, cli.Partly).says(t, "what it does happens twice")
	golden(t, "unlock.json", call(t, "record", "unlock", "ord-2", "--reason", "hangs", "--yes", "--json", via).want(t, cli.Done).says(t, "the next delivery runs it").stdout)
	call(t, "record", "get", "ord-2", via).want(t, cli.Done).shows(t, "its owner is gone", "eve: hangs")
	r.publish("created", order("ord-2", "fine"))
	r.quiet()
	call(t, "record", "get", "ord-2", via).want(t, cli.Done).shows(t, "succeeded", "booked")
}

func TestWhatIsImportedIsNotHandled(t *testing.T) {
	r := newRig(t)
	r.start(consumer.AdminConfig{})
	r.publish("created", order("ord-9", "fine"))
	r.quiet()
	via := []string{"--via", r.via}
	file := filepath.Join(t.TempDir(), "done.jsonl")
	old, _ := json.Marshal(time.Now().Add(-30 * 24 * time.Hour))
	lines := `{"scope":"order.create","id":"ord-1"}` + "\n\n" + `{"id":"ord-2","at":"` + time.Now().Add(-time.Hour).UTC().Format(time.RFC3339) + `"}` + "\n" +
		`{"id":"ord-9"}` + "\n" + `{"id":"ord-3","at":` + string(old) + `}` + "\n"
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"record", "import", file, "--scope", "order.create", "--reason", "cutover", "--yes"}
	golden(t, "import.json", call(t, args, "--json", via).want(t, cli.Done).stdout)
	call(t, args, via).want(t, cli.Done).says(t, "0 imported, 3 had a record")
	if err := os.WriteFile(file, []byte(`{"id":"ord-4"}`+"\n"+`{"ib":"ord-5"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	again := call(t, args, via).want(t, cli.Partly).says(t, "line 2", `unknown field "ib"`, "record export")
	if strings.Contains(again.stderr, "it goes on") {
		t.Errorf("the same line stops it again: %s", again.stderr)
	}
	if err := os.WriteFile(file, []byte(`{"scope":"order.create","id":"ord-4"}`+"\n"+`{"id":"ord-5"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	call(t, "record", "import", file, "--reason", "cutover", "--yes", via).want(t, cli.Failed).says(t, "line 2 has no scope: give --scope")
	misspelt := call(t, "record", "import", file, "--scope", "order.creat", "--reason", "cutover", "--yes", via).want(t, cli.Done)
	if misspelt.says(t, `no scope "order.creat"`); strings.Contains(misspelt.stderr, `no scope "order.create"`) {
		t.Errorf("a scope that the consumer has is doubted: %s", misspelt.stderr)
	}
	// What is dead here is not done by saying so: its letter may still be sent.
	r.publish("created", order("ord-8", "refuse"))
	r.letters(1)
	if err := os.WriteFile(file, []byte(`{"id":"ord-8"}`+"\n"+`{"id":"ord-9"}`+"\n"+`{"id":"ord-10"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := call(t, args, "--json", via).want(t, cli.Partly).says(t, "1 of those that had a record"); !strings.Contains(got.stdout, `"imported":1,"known":2,"known_not_done":1,`) {
		t.Errorf("imported %s", got.stdout)
	}
	nonsense := filepath.Join(t.TempDir(), "nonsense")
	if err := os.WriteFile(nonsense, []byte("ord-1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	call(t, "record", "import", nonsense, "--scope", "order.create", "--reason", "cutover", "--yes", via).want(t, cli.Failed).says(t, "line 1: it is no JSON; want {")
	call(t, "record", "list", "--consumer", "billing", "--store", "bolt:"+nonsense).want(t, cli.Failed).says(t, "is it the file of the consumer's store?")
	ran := r.ran.Load()
	for _, id := range []string{"ord-1", "ord-2", "ord-3", "ord-4"} {
		r.publish("created", order(id, "fine"))
	}
	r.quiet()
	if now := r.ran.Load(); now != ran+1 {
		t.Errorf("handler ran for %d of four orders, want for the one that was done too long ago", now-ran)
	}
}

func TestWhatWasExportedIsImported(t *testing.T) {
	r := newRig(t)
	r.start(consumer.AdminConfig{})
	r.publish("created", order("ord-1", "fine"))
	r.publish("created", order("ord-2", "refuse"))
	r.letters(1)
	file := filepath.Join(t.TempDir(), "records.jsonl")
	if err := os.WriteFile(file, []byte(call(t, "record", "export", "--via", r.via).want(t, cli.Done).stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"record", "import", file, "--reason", "moved", "--yes", "--store", "bolt:" + file + ".db", "--consumer", "invoices"}
	call(t, args).want(t, cli.Failed).says(t, "there is no file", "with --create")
	list := call(t, "record", "list", args[6:]).want(t, cli.Failed).says(t, "there is no file", "record import with --create")
	if strings.Contains(list.stderr, "is made with") {
		t.Errorf("it has no such flag: %s", list.stderr)
	}
	args = append(args, "--create")
	call(t, args).want(t, cli.Done).says(t, "2 read: 1 imported", "1 not done by their records")
	call(t, "record", "get", "ord-1", "--store", "bolt:"+file+".db", "--consumer", "invoices").want(t, cli.Done).shows(t, "invoices", "order.create/ord-1", "succeeded")
}

func TestAPauseHoldsUntilItIsLifted(t *testing.T) {
	r := newRig(t)
	r.start(consumer.AdminConfig{})
	r.publish("created", order("ord-1", "fine"))
	r.quiet()
	via := []string{"--via", r.via, "--who", "eve"}
	golden(t, "pause.json", call(t, "pause", "--reason", "bank is down", "--yes", "--json", via).want(t, cli.Done).stdout)
	call(t, "pause", "--reason", "bank is down", "--yes", via).want(t, cli.Done).says(t, "as before")
	call(t, "pause", "--scope", "order.cancel", "--reason", "x", "--yes", via).want(t, cli.Done)
	r.until("the doctor sees it", func(context.Context) bool {
		seen := call(t, "doctor", via).stdout
		return strings.Contains(seen, "the consumer is paused") && strings.Contains(seen, "bank is down") && strings.Contains(seen, `scope "order.cancel" is paused`)
	})
	golden(t, "resume.json", call(t, "resume", "--json", via).want(t, cli.Done).stdout)
	call(t, "resume", via).want(t, cli.Done).says(t, "as before")
	r.stop()
	offline := []string{"--store", "bolt:" + r.file, "--consumer", "billing"}
	call(t, "resume", "--scope", "order.cancel", offline).want(t, cli.Done).says(t, "is not paused")
	call(t, "pause", "--reason", "maintenance", "--yes", offline).want(t, cli.Done).says(t, "not checked")
	checked := call(t, "pause", "--reason", "maintenance", "--yes", offline, "ONCEWARD_FROM="+r.from()).want(t, cli.Done)
	if strings.Contains(checked.stderr, "not checked") {
		t.Errorf("the broker is known: %s", checked.stderr)
	}
	call(t, "record", "list", offline).want(t, cli.Done).shows(t, "ord-1")
	if strings.Contains(call(t, "record", "list", offline).stdout, "pause") {
		t.Error("a pause is listed among the operations")
	}
}

func TestTheRecordOfALetterWithoutAKeyIsSeenAndNotChanged(t *testing.T) {
	r := newRig(t)
	r.start(consumer.AdminConfig{})
	r.publish("created", `{"broken"`)
	r.letters(1)
	r.quiet()
	via := []string{"--via", r.via, "--who", "eve"}
	var letter struct{ ID string }
	if err := json.Unmarshal([]byte(call(t, "dlq", "list", "--json", via).want(t, cli.Done).stdout), &letter); err != nil {
		t.Fatal(err)
	}
	record := func(args ...string) []string { return append(args, letter.ID, "--scope", "onceward.letter") }
	call(t, "record", record("get"), via).want(t, cli.Done).shows(t, "failed", "decode")
	call(t, "record", "get", letter.ID[:8], "--scope", "onceward.letter", via).want(t, cli.Nothing).says(t, "its whole ID")
	call(t, "dlq", "show", letter.ID, via).want(t, cli.Done).shows(t, "would reopen and send", "onceward.letter")
	call(t, "record", record("delete"), "--reason", "x", "--yes", via).want(t, cli.Usage).says(t, "follows the letter")
	call(t, "record", "list", via).want(t, cli.Nothing)
	call(t, "dlq", "discard", letter.ID, "--reason", "a test", "--yes", via).want(t, cli.Done)
	call(t, "record", record("get"), via).want(t, cli.Done).shows(t, "failed")
}
