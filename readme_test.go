package onceward_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// ranBy says what runs each command of README.md: a file, and the words in it
// that do.
var ranBy = map[string][2]string{
	"go get github.com/onceward/onceward@latest":                                {".ci/run", `go get "$module@latest"`},
	"go run github.com/onceward/onceward/examples/quickstart@latest":            {".ci/run", `go run "$module/examples/quickstart@latest"`},
	"go run ./examples/quickstart":                                              {".ci/run", `proof "$out/examples/quickstart"`},
	"go run ./examples/nats-orders --url nats://127.0.0.1:4222 --create":        {"examples/nats-orders/orders_test.go", `"--url", s.url, "--create"`},
	"go run ./examples/nats-orders produce --url nats://127.0.0.1:4222":         {"examples/nats-orders/orders_test.go", `"produce", "--url", s.url`},
	"go run ./examples/quickstart --kafka 127.0.0.1:9092":                       {"examples/quickstart/kafka_servers_test.go", `"--kafka", addresses`},
	"go run ./examples/quickstart --kafka embedded":                             {"examples/quickstart/quickstart_test.go", `"--kafka", embedded`},
	"go run ./examples/kafka-orders --brokers 127.0.0.1:9092 --create":          {"examples/kafka-orders/orders_test.go", `"--brokers", s.addresses, "--create"`},
	"go run ./examples/kafka-orders produce --brokers 127.0.0.1:9092 --create":  {"examples/kafka-orders/orders_test.go", `"produce", "--brokers", s.addresses, "--create"`},
	"go run ./examples/replay":                                                  {".ci/run", `proof "$out/examples/replay"`},
	"CGO_ENABLED=0 go install github.com/onceward/onceward/cmd/onceward@latest": {".ci/run", `CGO_ENABLED=0 go install "$module/cmd/onceward@latest"`},
	"export ONCEWARD_VIA=http://127.0.0.1:8080":                                 {"cmd/onceward/internal/cli/readme_test.go", `ONCEWARD_VIA`},
	"make bench-store": {"Makefile", "bench-store:"},
	"make bench-nats":  {"Makefile", "bench-nats:"},
	"make bench-kafka": {"Makefile", "bench-kafka:"},
	"make test":        {".ci/run", "--no-print-directory test"},
	"go test ./...":    {"Makefile", "./..."},
}

var (
	fence  = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")
	inline = regexp.MustCompile("`((?:go|make|nats|docker|kubectl) [^`]+)`")
	link   = regexp.MustCompile(`\]\(([^)]+)\)`)
)

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// blocks are the fenced blocks of a language.
func blocks(text, language string) (found []string) {
	for _, m := range fence.FindAllStringSubmatch(text, -1) {
		if m[1] == language {
			found = append(found, m[2])
		}
	}
	return found
}

func TestEveryCommandInTheReadmeIsRunSomewhere(t *testing.T) {
	text := readme(t)
	var commands []string
	for _, block := range blocks(text, "sh") {
		commands = append(commands, strings.FieldsFunc(block, func(r rune) bool { return r == '\n' })...)
	}
	for _, m := range inline.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		commands = append(commands, m[1])
	}
	for _, command := range commands {
		by, known := ranBy[command]
		if strings.HasPrefix(command, "onceward ") {
			by, known = [2]string{"cmd/onceward/internal/cli/readme_test.go", `HasPrefix(line, "onceward ")`}, true
		}
		if !known {
			t.Errorf("%q is run by nothing", command)
			continue
		}
		file, err := os.ReadFile(by[0])
		if err != nil || !strings.Contains(string(file), by[1]) {
			t.Errorf("%q should be run by %s, which has no %q: %v", command, by[0], by[1], err)
		}
	}
	for command := range ranBy {
		if !slices.Contains(commands, command) {
			t.Errorf("%q is no longer in the readme", command)
		}
	}
}

func TestTheReadmeNamesTheLeastGo(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	least := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(mod)
	if least == nil || !strings.Contains(readme(t), fmt.Sprintf("Go, %s or later", least[1])) {
		t.Errorf("it does not name Go %s", least)
	}
}

// surroundings are what the readme's code stands in: a user's program.
const surroundings = `// Package main is generated.
package main

import (
	"context"

	"github.com/onceward/onceward/brokers/natsbroker"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup/boltstore"
)

type Order struct{ Number string }

func (o Order) ID() string { return o.Number }

type Receipt struct{}

func create(context.Context, Order) error            { return nil }
func charge(context.Context, Order) (Receipt, error) { return Receipt{}, nil }
func send(context.Context, []byte) error             { return nil }

var (
	ctx    context.Context
	config consumer.Config
	_      = natsbroker.Connect
	_      = boltstore.Open
)

func main() {
%s
	_, _ = err, c
}
`

func TestTheCodeInTheReadmeCompiles(t *testing.T) {
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	code := blocks(readme(t), "go")
	if len(code) == 0 {
		t.Fatal("there is none")
	}
	overlay := map[string]map[string]string{"Replace": {}}
	args := []string{"build", "-o", t.TempDir() + string(filepath.Separator), "-overlay", filepath.Join(t.TempDir(), "overlay.json")}
	for i, block := range code {
		written, seeming := filepath.Join(t.TempDir(), "main.go"), fmt.Sprintf("internal/readme%d", i)
		if err := os.WriteFile(written, fmt.Appendf(nil, surroundings, block), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay["Replace"][filepath.Join(root, seeming, "main.go")] = written
		args = append(args, "./"+seeming)
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(args[4], text, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if lines := strings.Count(strings.TrimSpace(code[0]), "\n") + 1; lines > 10 {
		t.Errorf("the wrap has %d lines, and promises ten", lines)
	}
}

func TestLinksInTheReadmeLeadSomewhere(t *testing.T) {
	for _, m := range link.FindAllStringSubmatch(readme(t), -1) {
		path := m[1]
		if documented, ours := strings.CutPrefix(path, "https://pkg.go.dev/"+module); ours {
			path = "." + documented
		}
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%s: %v", m[1], err)
		}
	}
}

// The example's last screen shows how to wrap a handler too; both are one
// text.
func TestTheQuickstartShowsTheCodeOfTheReadme(t *testing.T) {
	shown, err := os.ReadFile("examples/quickstart/report.go")
	if err != nil {
		t.Fatal(err)
	}
	bare := func(b []byte) []byte { return bytes.Join(bytes.Fields(b), []byte(" ")) }
	if code := blocks(readme(t), "go")[0]; !bytes.Contains(bare(shown), bare([]byte(code))) {
		t.Errorf("report.go does not show\n%s", code)
	}
}
