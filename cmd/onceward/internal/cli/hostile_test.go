package cli_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/onceward/onceward/cmd/onceward/internal/cli"
	"github.com/onceward/onceward/consumer"
)

// Whoever can send a message must not move the cursor of whoever looks at it.
func TestNothingThatALetterSaysIsObeyedByTheTerminal(t *testing.T) {
	r := newRig(t)
	r.start(consumer.AdminConfig{})
	r.publish("created", `{"order_id":"ord-\u001b]0;gone\u0007-\u202e1","kind":"hostile","raw":"`+"\u009b31m"+`"}`, "x-title", "\x1b[2Jgone")
	r.publish("created", "\x1b[31mno json\xff\x00")
	r.letters(2)
	via := []string{"--via", r.via}
	var all []result
	for _, args := range [][]string{{"dlq", "groups"}, {"dlq", "list"}, {"dlq", "export"}, {"record", "list"}, {"record", "export"}} {
		all = append(all, call(t, args, via).want(t, cli.Done), call(t, args, "--json", via).want(t, cli.Done))
	}
	for _, id := range ids(t, via) {
		for _, form := range []string{"auto", "text", "json", "hex"} {
			all = append(all, call(t, "dlq", "show", id, "--payload", form, via).want(t, cli.Done))
		}
		all = append(all, call(t, "dlq", "show", id, "--json", via).want(t, cli.Done))
	}
	all = append(all, call(t, "record", "get", "ord-\x1b]0;gone\a-\u202e1", via).want(t, cli.Done), call(t, "record", "get", "\x1b[31m", via))
	for _, one := range all {
		for _, text := range []string{one.stdout, one.stderr} {
			if i := strings.IndexFunc(text, func(c rune) bool { return c != '\n' && c != '\t' && !strconv.IsPrint(c) }); i >= 0 {
				t.Errorf("%q goes out in %q", text[i:min(i+4, len(text))], text)
			}
		}
	}
}
