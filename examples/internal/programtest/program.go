// Package programtest runs the example programs as processes of their own, as
// one would deploy them, beside the other side that they post orders to.
package programtest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/boltstore"
)

// variable tells a test binary to be the program.
const variable = "ONCEWARD_EXAMPLE_PROGRAM"

// Main is a TestMain whose binary is also the program under test.
func Main(m *testing.M, program func()) {
	if os.Getenv(variable) != "" {
		program()
	}
	os.Exit(m.Run())
}

// Program is a running process.
type Program struct {
	Stdout, Stderr Output

	t     *testing.T
	cmd   *exec.Cmd
	ended chan struct{}
}

// Output is what a process has written so far.
type Output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write is for the process.
func (o *Output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// Lines are the lines of a log whose message it is.
func (o *Output) Lines(message string) (lines []map[string]any) {
	for line := range strings.Lines(o.String()) {
		var entry map[string]any
		if json.Unmarshal([]byte(line), &entry) == nil && entry["msg"] == message {
			lines = append(lines, entry)
		}
	}
	return lines
}

// Start starts the program; it is killed at the end of the test at the latest.
func Start(t *testing.T, env []string, args ...string) *Program {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &Program{t: t, cmd: exec.Command(self, args...), ended: make(chan struct{})}
	p.cmd.Env = append(append(os.Environ(), variable+"=1"), env...)
	p.cmd.Dir = t.TempDir()
	p.cmd.Stdout, p.cmd.Stderr = &p.Stdout, &p.Stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = p.cmd.Wait(); close(p.ended) }()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // mostly it has ended
		<-p.ended
		if t.Failed() {
			t.Logf("output of %v:\n%s%s", args, p.Stdout.String(), p.Stderr.String())
		}
	})
	return p
}

// Signal sends it a signal.
func (p *Program) Signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// Running demands that it has not ended.
func (p *Program) Running() {
	p.t.Helper()
	select {
	case <-p.ended:
		p.t.Fatalf("it has ended with status %d", p.cmd.ProcessState.ExitCode())
	default:
	}
}

// EndsWith waits for the end and demands the exit status.
func (p *Program) EndsWith(status int, within time.Duration) {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(within):
		p.t.Fatalf("still runs after %v", within)
	}
	if got := p.cmd.ProcessState.ExitCode(); got != status {
		p.t.Fatalf("exit status %d, want %d", got, status)
	}
}

// Stopping waits until it has begun to stop.
func (p *Program) Stopping() {
	p.t.Helper()
	WaitFor(p.t, "the drain to begin", func() bool { return strings.Contains(p.Stderr.String(), "stopping") })
}

// Health is the address of its health endpoints, from its log.
func (p *Program) Health() string {
	p.t.Helper()
	address := ""
	WaitFor(p.t, "the address of the health endpoints", func() bool {
		for _, line := range p.Stderr.Lines("health endpoints") {
			address, _ = line["address"].(string)
		}
		return address != ""
	})
	return "http://" + address
}

// Ready waits until it is.
func (p *Program) Ready() {
	p.t.Helper()
	WaitFor(p.t, "readiness", func() bool { code, _ := Get(p.t, p.Health()+"/readyz"); return code == http.StatusOK })
}

// Get asks an address; status 0 is no answer.
func Get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// WaitFor waits for up to 30 s.
func WaitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	again, late := time.NewTicker(10*time.Millisecond), time.After(30*time.Second)
	defer again.Stop()
	for !is() {
		select {
		case <-again.C:
		case <-late:
			t.Fatalf("waited 30 s for %s", what)
		}
	}
}

// Record reads what a consumer that has ended left behind of an order.
func Record(t *testing.T, file, id string) dedup.Record {
	t.Helper()
	store, err := boltstore.Open(file, boltstore.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	records, err := store.Lookup(t.Context(), []dedup.Key{{Consumer: "billing", Scope: "order.create", ID: id}})
	if err != nil {
		t.Fatal(err)
	}
	return records[0]
}
