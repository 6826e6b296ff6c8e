package natsbroker

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceward/onceward/brokers"
)

// serverDir is set in a copy of the test binary that is to be a server: a real
// process, which can be killed.
const serverDir = "ONCEWARD_NATS_SERVER_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(serverDir); dir != "" {
		serve(dir, os.Getenv("ONCEWARD_NATS_SERVER_PORT"))
	}
	os.Exit(m.Run())
}

func serve(dir, port string) {
	options := &server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true}
	if port != "" {
		fmt.Sscan(port, &options.Port)
	}
	s, err := server.NewServer(options)
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	go s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		fmt.Println("error: not ready")
		os.Exit(1)
	}
	fmt.Println(s.ClientURL())
	// The parent holds our standard input: it ends when the parent does.
	_, _ = bufio.NewReader(os.Stdin).ReadString(0)
	os.Exit(0)
}

// process is a nats-server in a process of its own.
type process struct {
	cmd  *exec.Cmd
	dir  string
	url  string
	port string
}

func startProcess(t testing.TB) *process {
	t.Helper()
	p := &process{dir: t.TempDir()}
	p.start(t)
	t.Cleanup(p.kill)
	return p
}

func (p *process) start(t testing.TB) {
	t.Helper()
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(os.Environ(), serverDir+"="+p.dir, "ONCEWARD_NATS_SERVER_PORT="+p.port)
	if _, err := p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || strings.HasPrefix(line, "error") {
		t.Fatalf("server: %q, %v", line, err)
	}
	p.url = strings.TrimSpace(line)
	_, p.port, _ = strings.Cut(strings.TrimPrefix(p.url, "nats://"), ":")
}

// kill is kill -9.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

func connect(t testing.TB, config Config) *Broker {
	t.Helper()
	b, err := Connect(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func specOf(stream string) brokers.Spec {
	return brokers.Spec{
		Consumer: "billing", Topics: []string{stream}, StartFrom: brokers.Start{Kind: brokers.StartEarliest},
		Unfinished: brokers.Limit{Messages: 1000, Bytes: 8 << 20}, LongestWait: time.Hour, Drain: time.Second,
	}
}

func openSource(t testing.TB, b *Broker, spec brokers.Spec) *source {
	t.Helper()
	s, err := b.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		s.Close(ctx)
	})
	return s.(*source)
}

func receive(t testing.TB, s brokers.Source, n int) []*brokers.Delivery {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var got []*brokers.Delivery
	for len(got) < n {
		more, err := s.Receive(ctx, brokers.Limit{Messages: n - len(got), Bytes: 1 << 30})
		if err != nil {
			t.Fatalf("received %d of %d: %v", len(got), n, err)
		}
		got = append(got, more...)
	}
	return got
}

func publishNumbers(t testing.TB, js jetstream.JetStream, stream string, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		if _, err := js.PublishAsync(stream+".x", fmt.Append(nil, i), jetstream.WithStallWait(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
}

// gate is a network that can stop bringing answers.
type gate struct {
	mu     sync.Mutex
	closed chan struct{} // closed while answers pass
	conns  []net.Conn
}

func newGate() *gate {
	g := &gate{closed: make(chan struct{})}
	close(g.closed)
	return g
}

func (g *gate) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.conns = append(g.conns, c)
	return &gated{Conn: c, g: g}, nil
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = make(chan struct{})
}

// open loses what came meanwhile: the connection breaks.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cut()
	close(g.closed)
}

func (g *gate) cut() {
	for _, c := range g.conns {
		_ = c.Close()
	}
	g.conns = nil
}

type gated struct {
	net.Conn
	g        *gate
	mu       sync.Mutex
	deadline time.Time
}

func (c *gated) SetDeadline(t time.Time) error {
	c.mu.Lock()
	c.deadline = t
	c.mu.Unlock()
	return c.Conn.SetDeadline(t)
}

func (c *gated) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		return n, err
	}
	c.g.mu.Lock()
	wait := c.g.closed
	c.g.mu.Unlock()
	select {
	case <-wait:
		return n, err
	default:
	}
	c.mu.Lock()
	deadline := c.deadline
	c.mu.Unlock()
	if deadline.IsZero() {
		<-wait
		return 0, net.ErrClosed
	}
	late := time.NewTimer(time.Until(deadline))
	defer late.Stop()
	select {
	case <-wait:
		return 0, net.ErrClosed
	case <-late.C:
		return 0, os.ErrDeadlineExceeded
	}
}
