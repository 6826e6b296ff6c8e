//go:build servers && linux

package kafkabroker_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// memberVariable makes this test binary a member: some promises are about the
// death of a process, so it starts itself again.
const memberVariable = "ONCEWARD_TEST_MEMBER" // JSON of memberConfig

func TestMain(m *testing.M) {
	text := os.Getenv(memberVariable)
	if text == "" {
		os.Exit(m.Run())
	}
	go func() { // whose parent has died dies too
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(9)
	}()
	var cfg memberConfig
	err := json.Unmarshal([]byte(text), &cfg)
	if err == nil {
		err = cfg.run()
	}
	if err != nil {
		_, _ = io.WriteString(os.Stderr, "member "+cfg.Name+": "+err.Error()+"\n")
		os.Exit(1)
	}
}

// process is a member in a process of its own.
type process struct {
	name string
	cmd  *exec.Cmd
	dead chan struct{}
	err  error // of Wait, once it is dead
}

func startMember(t *testing.T, cfg memberConfig) *process {
	t.Helper()
	cfg.Log = filepath.Join(t.TempDir(), cfg.Name+".log")
	text, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{name: cfg.Name, cmd: exec.Command(os.Args[0], "-test.run=^$"), dead: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), memberVariable+"="+string(text))
	p.cmd.Stderr = os.Stderr
	// One that is stopped does not see the end of its input.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.dead)
		p.err = p.cmd.Wait()
		stdin.Close()
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // mostly it has ended
		<-p.dead
		if log, err := os.ReadFile(cfg.Log); err == nil && t.Failed() {
			lines := strings.Split(string(log), "\n")
			t.Logf("the last that %s said:\n%s", p.name, strings.Join(lines[max(0, len(lines)-20):], "\n"))
		}
	})
	return p
}

func (p *process) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Errorf("%s: %v", p.name, err)
	}
}

// terminate is SIGTERM, after which a member ends in order.
func (p *process) terminate(t *testing.T) {
	t.Helper()
	p.signal(t, syscall.SIGTERM)
	p.wait(t, 30*time.Second)
	if p.err != nil {
		t.Errorf("%s ended with %v", p.name, p.err)
	}
}

func (p *process) wait(t *testing.T, within time.Duration) {
	t.Helper()
	select {
	case <-p.dead:
	case <-time.After(within):
		t.Fatalf("%s still runs after %v", p.name, within)
	}
}

// killed says that it was killed by SIGKILL; once it is dead.
func (p *process) killed() bool {
	var exit *exec.ExitError
	return errors.As(p.err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
}

// terminated is closed at SIGTERM.
func terminated() <-chan struct{} {
	c, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(c, syscall.SIGTERM)
	go sync.OnceFunc(func() { <-c; close(done) })()
	return done
}

// socketDir is a folder whose path is short enough for a socket's address.
func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ow") //nolint:usetesting // the name of the test would make it too long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
