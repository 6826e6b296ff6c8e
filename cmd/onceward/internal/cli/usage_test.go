package cli_test

import (
	"strings"
	"testing"

	"github.com/onceward/onceward/cmd/onceward/internal/cli"
)

func TestAWrongCallIsToldWhatItLacks(t *testing.T) {
	kafka := []string{"--from", "kafka://a/t"}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"dlq", "lsit"}, `there is no command "dlq lsit"; is it list?`},
		{[]string{"dlq", "ls"}, "is it list?"},
		{[]string{"dlq", "redrive"}, "is it replay?"},
		{[]string{"dlq", "delete"}, "is it discard?"},
		{[]string{"dlq", "describe"}, "is it show?"},
		{[]string{"records"}, "is it record?"},
		{[]string{"frobnicate"}, `there is no command "frobnicate"`},
		{[]string{"completion", "nosuch"}, `there is no command "completion nosuch"`},
		{[]string{"completion", "bash", "x"}, "too many arguments: onceward completion bash"},
		{[]string{"help", "nosuch"}, `there is no command "nosuch"`},
		{[]string{"help", "dlq", "nosuch"}, `there is no command "dlq nosuch"`},
		{[]string{"dlq", "groups", "x"}, `onceward dlq groups takes no argument such as "x"`},
		{[]string{"dlq", "show"}, "ID is missing: onceward dlq show ID"},
		{[]string{"dlq", "show", "a", "b"}, "too many arguments: onceward dlq show ID"},
		{[]string{"dlq", "replay", "apply"}, "FILE is missing: onceward dlq replay apply FILE"},
		{[]string{"record", "get"}, "KEY is missing: onceward record get KEY"},
		{append([]string{"dlq", "list", "--since", "2026-01-02", "--until", "2026-01-01T01:00:00+02:00"}, kafka...), "--since 2026-01-02 00:00:00Z is not before --until 2025-12-31 23:00:00Z"},
		{append([]string{"dlq", "list", "--limit", "-1"}, kafka...), "--limit must be a whole number of 0 or more, not -1"},
		{append([]string{"record", "list", "--limit", "-1"}, kafka...), "--limit must be a whole number of 0 or more, not -1"},
		{append([]string{"dlq", "list", "--limit", "many"}, kafka...), `--limit must be a whole number, not "many"`},
		{append([]string{"dlq", "list", "--limit"}, []string{}...), "--limit lacks its value: --limit N"},
		{append([]string{"dlq", "list", "--window", "-1h"}, kafka...), "--window must be a time such as 30s, 15m or 24h of 0 or more"},
		{append([]string{"dlq", "list", "--window", "soon"}, kafka...), `--window must be a time such as 30s, 15m or 24h, not "soon"`},
		{[]string{"dlq", "replay", "apply", "f", "--rate", "-1"}, "--rate must be a number of 0 or more"},
		{[]string{"dlq", "replay", "apply", "f", "--rate", "NaN"}, "--rate must be a number of 0 or more"},
		{[]string{"dlq", "replay", "apply", "f", "--canary", "-1"}, "--canary must be"},
		{[]string{"dlq", "replay", "apply", "f", "--max-failure-ratio", "2"}, "above 0, at most 1"},
		{[]string{"dlq", "replay", "apply", "f", "--max-failure-ratio", "0"}, "above 0, at most 1"},
		{[]string{"dlq", "replay", "status", "f", "--wait", "-1s"}, "--wait must be"},
		{append([]string{"dlq", "replay", "plan", "-o", "f", "--expires-in", "1s"}, kafka...), "--expires-in must be 1m to 720h, not 1s"},
		{append([]string{"dlq", "show", ""}, kafka...), `an ID has at least 8 characters, not ""`},
		{append([]string{"dlq", "list", "0123456"}, kafka...), `an ID has at least 8 characters, not "0123456"`},
		{append([]string{"dlq", "export", ""}, kafka...), "an ID has at least"},
		{append([]string{"dlq", "discard", "", "--reason", "x", "--yes"}, kafka...), "an ID has at least"},
		{append([]string{"dlq", "replay", "plan", "-o", "f", ""}, kafka...), "an ID has at least"},
		{append([]string{"dlq", "replay", "plan", "-o", "f", "--why", "x", "--approve", "0123"}, kafka...), "an ID has at least"},
		{[]string{"dlq", "list", "--frobnicate"}, "there is no flag --frobnicate"},
		{[]string{"dlq", "list", "-z"}, "there is no flag -z"},
		{[]string{"pause", "--why", "x"}, "there is no flag --why; is it --reason?"},
		{[]string{"dlq", "show", "--why", "x"}, "there is no flag --why"},
		{[]string{"dlq", "list", "--via", "127.0.0.1:8080"}, "http://127.0.0.1:8080"},
		{[]string{"dlq", "list", "--via", "localhost:8080"}, "http://127.0.0.1:8080"},
		{[]string{"dlq", "list", "--via", "u:secret@a:80"}, "http://HOST:PORT"},
		{[]string{"dlq", "list", "--via", "http://u:secret@a"}, "must not hold a password"},
		{[]string{"dlq", "list", "--via", "http://:80"}, "http://HOST:PORT"},
		{[]string{"dlq", "list", "--via", "http://a/?token=secret"}, "must not have a query"},
		// Nobody answers what is waited for while a file is held.
		{[]string{"dlq", "replay", "apply", "f", "--canary", "1", "--store", "bolt:f"}, "--via"},
		{[]string{"dlq", "replay", "apply", "f", "--max-failure-ratio", "0.1", "--store", "bolt:f"}, "--via"},
		{[]string{"dlq", "replay", "status", "f", "--wait", "1s", "--store", "bolt:f"}, "--via"},
	} {
		r := call(t, c.args).want(t, cli.Usage).says(t, c.says)
		for _, raw := range []string{"strconv", "arg(s)", "secret", "onceward: onceward dlq: "} {
			if strings.Contains(r.stderr, raw) {
				t.Errorf("%v: %q is in %q", c.args, raw, r.stderr)
			}
		}
	}
	call(t, "dlq", "replay", "apply", "f", "--canary", "1", "ONCEWARD_STORE=bolt:f").want(t, cli.Usage).says(t, "--via")
}

func TestTheHelpOfACommandBeginsWithItsOwnFlags(t *testing.T) {
	for _, c := range []struct{ command, own, next string }{
		{"dlq replay apply", "--canary", "Where to look:"}, {"dlq replay plan", "--approve", "Which letters:"},
		{"dlq replay status", "--each", "Where to look:"}, {"pause", "--reason", "Where to look:"},
	} {
		text := call(t, strings.Fields(c.command), "--help").want(t, cli.Done).stdout
		own, next := strings.Index(text, c.own+" "), strings.Index(text, c.next)
		if own < 0 || next < own {
			t.Errorf("%s: %s is not before %q in\n%s", c.command, c.own, c.next, text)
		}
		if head, _, _ := strings.Cut(text, c.next); strings.Contains(head, "--token-file") {
			t.Errorf("%s: flags of the connection are among its own:\n%s", c.command, head)
		}
		if same := call(t, "help", strings.Fields(c.command)).want(t, cli.Done).stdout; same != text {
			t.Errorf("help %s is not %s --help:\n%s", c.command, c.command, same)
		}
	}
	call(t, "dlq", "list", "--help").shows(t, "crash-loop, decode", "resolved, discarded, gone, none, all", "Every command:", "--json")
	call(t, "dlq", "replay", "plan", "--help").shows(t, "(--reason chooses letters)")
	for _, command := range []string{
		"dlq replay apply", "dlq replay plan", "dlq replay status", "dlq groups", "dlq list", "dlq show", "dlq export", "dlq resolve",
		"dlq discard", "dlq open", "record get", "record list", "record export", "record rerun", "record unlock", "record delete",
		"record import", "pause", "resume", "doctor",
	} {
		call(t, strings.Fields(command), "--help").shows(t, "Examples:\n  onceward "+command)
	}
	call(t, "__complete", "help", "dlq", "").want(t, cli.Done).shows(t, "groups")
	call(t, "__complete", "dlq", "show", "").want(t, cli.Done).shows(t, ":4")             // no files
	call(t, "__complete", "dlq", "replay", "status", "").want(t, cli.Done).shows(t, ":0") // files
	for _, alone := range [][]string{{}, {"dlq"}} {
		if text := call(t, alone).want(t, cli.Usage).stderr; strings.Count(text, "--help says more") != 1 {
			t.Errorf("%v tells of its help below its help:\n%s", alone, text)
		}
	}
	if said, asked := call(t, "version").stdout, call(t, "--version").want(t, cli.Done).stdout; said != asked || strings.Contains(said, "  ") {
		t.Errorf("version says %q, --version %q", said, asked)
	}
}

// A variable that is not set must not widen what a command does: to all letters,
// or to the whole consumer.
func TestAFlagWithoutAValueIsRefused(t *testing.T) {
	for _, args := range [][]string{
		{"dlq", "list", "--reason", ""}, {"dlq", "groups", "--state", "held,"}, {"dlq", "export", "--key", ""}, {"dlq", "list", "--error", ""},
		{"dlq", "list", "--since", ""}, {"dlq", "replay", "plan", "-o", "f", "--why", "x", "--approve", ""}, {"dlq", "replay", "plan", "-o", ""},
		{"pause", "--reason", "x", "--yes", "--scope", ""}, {"resume", "--scope", ""}, {"record", "list", "--state", ""},
		{"record", "rerun", "--scope", "s", "--completed-between", ""}, {"dlq", "resolve", "01234567", "--reason", ""},
	} {
		call(t, args, "--via", "http://127.0.0.1:1").want(t, cli.Usage).says(t, "is empty: --")
	}
}
