package cli_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/onceward/onceward/cmd/onceward/internal/cli"
	"github.com/onceward/onceward/consumer"
)

// words splits a command as a shell does, as far as the readme needs it.
func words(line string, variables map[string]string) []string {
	var found []string
	for _, m := range regexp.MustCompile(`"([^"]*)"|(\S+)`).FindAllStringSubmatch(line, -1) {
		found = append(found, os.Expand(m[1]+m[2], func(name string) string { return variables[name] }))
	}
	return found
}

// The operator's page of the readme is one incident; its commands are run here
// as they stand there.
func TestTheIncidentOfTheReadmeRunsAsItIsWritten(t *testing.T) {
	text, err := os.ReadFile("../../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var commands, inText []string
	for _, block := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		for line := range strings.Lines(block[1]) {
			if strings.HasPrefix(line, "onceward ") {
				commands = append(commands, strings.TrimSpace(line))
			}
		}
	}
	for _, m := range regexp.MustCompile("`onceward ([^`]+)`((?:, `[a-z ]+`)*)").FindAllStringSubmatch(string(text), -1) {
		inText = append(inText, m[1])
		// `onceward record get`, `list`, … are commands beside the first.
		parent := m[1][:strings.LastIndexByte(" "+m[1], ' ')]
		for _, other := range regexp.MustCompile("`([a-z ]+)`").FindAllStringSubmatch(m[2], -1) {
			inText = append(inText, parent+other[1])
		}
	}
	if len(commands) < 7 || len(inText) < 10 {
		t.Fatalf("the page has %d commands, and %d in its text", len(commands), len(inText))
	}
	// What the text names beside the incident is there: other tests run it.
	for _, command := range inText {
		words := words(strings.TrimPrefix(command, "onceward "), nil)
		call(t, words, "--help").want(t, cli.Done)
		if name := words[:min(len(words), 2)]; !strings.Contains(call(t, words, "--help").stdout, "onceward "+strings.Join(name, " ")) {
			t.Errorf("onceward %s is not there", command)
		}
	}
	r := startRig(t)
	r.start(consumer.AdminConfig{})
	for i := range 20 {
		r.publish("created", order(fmt.Sprintf("ord-%d", i), "refuse"))
	}
	r.letters(20)
	r.publish("created", `{"kind":"test"}`)
	r.letters(21)
	t.Chdir(t.TempDir()) // where plan.jsonl goes
	// $ID is what one has just seen in the list: a refused order, and in the end
	// the test order, which is no order at all.
	variables := map[string]string{"ID": ids(t, "--via", r.via, "--key", "ord-7")[0]}
	for _, command := range commands {
		if strings.HasPrefix(command, "onceward dlq discard") {
			variables["ID"] = ids(t, "--via", r.via, "--reason", "key")[0]
		}
		if strings.Contains(command, "replay apply") {
			r.mended.Store(true)
		}
		args := words(command, variables)[1:]
		if strings.Contains(command, "replay status") {
			args = append(args, "--wait", "20s") // a person looks twice
		}
		call(t, args, "ONCEWARD_VIA="+r.via, terminal("y\n")).want(t, cli.Done)
	}
	r.quiet() // a letter is resolved when its copy is acknowledged
	call(t, "dlq", "list", "--via", r.via).want(t, cli.Nothing)
	if n := r.ran.Load(); n != 40 {
		t.Errorf("handlers ran %d times, want 20 for the orders and 20 for their letters", n)
	}
}
