package consumer_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Some promises are about the death of a process, so the test binary starts
// itself again in another role.
const (
	roleVariable   = "ONCEWARD_TEST_ROLE"
	configVariable = "ONCEWARD_TEST_CONFIG" // JSON
)

var roles = map[string]func(config string) error{
	"server":   serverProcess,
	"consumer": consumerProcess,
}

func TestMain(m *testing.M) {
	role := roles[os.Getenv(roleVariable)]
	if role == nil {
		os.Exit(m.Run())
	}
	go func() { // whose parent has died dies too
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(9)
	}()
	if err := role(os.Getenv(configVariable)); err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
}

// full is the size of a reliability run: n when asked for by make soak, else
// about a tenth.
func full(n int) int {
	if soaks() {
		return n
	}
	return max(n/10, 1)
}

// soaks says that the run is one of make soak.
func soaks() bool { return os.Getenv("ONCEWARD_SOAK") != "" }

// process is this binary in another role. What it prints are words on lines.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	words chan []string // closed when it is dead
	err   error         // of Wait; once words is closed
}

func start(t *testing.T, role string, config any) *process {
	t.Helper()
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(os.Args[0], "-test.run=^$"), words: make(chan []string, 64)}
	p.cmd.Env = append(os.Environ(), roleVariable+"="+role, configVariable+"="+string(text))
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.words <- strings.Fields(lines.Text())
		}
		p.err = p.cmd.Wait()
		close(p.words)
	}()
	t.Cleanup(p.kill)
	return p
}

// kill is kill -9, and waits until it is dead.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	p.wait(func([]string) {})
}

// wait shows what the process prints until it is dead.
func (p *process) wait(see func(words []string)) {
	for words := range p.words {
		see(words)
	}
}

// killed says that it was killed by SIGKILL; once it is dead.
func (p *process) killed() bool {
	var exit *exec.ExitError
	return errors.As(p.err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
}

const (
	terminate = syscall.SIGTERM
	noSignal  = syscall.Signal(0) // asks whether a process lives
)

// terminated is closed at SIGTERM.
func terminated() <-chan struct{} {
	c, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(c, syscall.SIGTERM)
	go func() { <-c; close(done) }()
	return done
}

// serverConfig says where a nats-server keeps its files and listens; port 0
// takes a free one.
type serverConfig struct {
	Dir  string
	Port int
}

// serverProcess is a nats-server, until it is killed.
func serverProcess(config string) error {
	var c serverConfig
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return err
	}
	s, err := newServer(c)
	if err != nil {
		return err
	}
	fmt.Println("listens", s.ClientURL(), s.Addr())
	<-terminated()
	s.Shutdown()
	return nil
}

func newServer(c serverConfig) (*server.Server, error) {
	if c.Port == 0 {
		c.Port = server.RANDOM_PORT
	}
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: c.Port, JetStream: true, StoreDir: c.Dir, NoSigs: true, NoLog: true,
	})
	if err != nil {
		return nil, err
	}
	s.Start()
	if !s.ReadyForConnections(20 * time.Second) {
		return nil, errors.New("nats-server does not answer")
	}
	return s, nil
}

// natsServer is a nats-server in a process of its own.
type natsServer struct {
	t    *testing.T
	url  string
	conf serverConfig

	mu   sync.Mutex
	proc *process
}

func startServer(t *testing.T) *natsServer {
	s := &natsServer{t: t, conf: serverConfig{Dir: t.TempDir()}}
	s.restart()
	return s
}

// restart starts it, at the address of before.
func (s *natsServer) restart() {
	s.t.Helper()
	p := start(s.t, "server", s.conf)
	words := <-p.words
	if len(words) < 3 || words[0] != "listens" {
		s.t.Fatalf("nats-server says %q", words)
	}
	s.url = words[1]
	if _, err := fmt.Sscanf(words[2][strings.LastIndex(words[2], ":")+1:], "%d", &s.conf.Port); err != nil {
		s.t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proc = p
}

func (s *natsServer) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proc.kill()
}
