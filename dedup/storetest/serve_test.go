package storetest

import (
	"bufio"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/memstore"
)

// pipes is a network in memory, so that time in a bubble moves.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }

func (p *pipes) dial(ctx context.Context) (net.Conn, error) {
	mine, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return mine, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func TestAStoreBehindAWireKeepsEveryPromise(t *testing.T) {
	connect := func(tb testing.TB, dial func(context.Context) (net.Conn, error)) dedup.Store {
		tb.Helper()
		c, err := DialWith(dial)
		if err != nil {
			tb.Fatal(err)
		}
		return c
	}
	Run(t, Harness{
		Open: func(tb testing.TB) dedup.Store {
			tb.Helper()
			l := newPipes()
			tb.Cleanup(Serve(l, memstore.New()))
			return connect(tb, l.dial)
		},
		Peer:      func(tb testing.TB, s dedup.Store) dedup.Store { tb.Helper(); return connect(tb, s.(*client).dial) },
		Sequences: 50,
	})
}

func TestMain(m *testing.M) {
	if address := os.Getenv("ONCEWARD_TEST_STORE"); address != "" {
		claimForEver(address)
	}
	quietRapid()
	os.Exit(m.Run())
}

// claimForEver is another process: it claims, says so, and hangs.
func claimForEver(address string) {
	s, err := Dial("unix", address)
	if err != nil {
		fmt.Fprintln(os.Stdout, err)
		os.Exit(1)
	}
	answers, err := s.Apply(context.Background(), []dedup.Op{shortClaim(1)})
	fmt.Fprintln(os.Stdout, answers[0].Kind, err)
	select {}
}

func shortClaim(token byte) dedup.Op {
	return dedup.Op{
		Kind: dedup.Claim, Key: dedup.Key{Consumer: "billing", Scope: "order.create", ID: "7"}, Token: dedup.Token{token}, Policy: policy,
		Lease: dedup.MinLease,
	}
}

func TestTheClaimOfAKilledProcessLapses(t *testing.T) {
	address := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", address)
	if err != nil {
		t.Fatal(err)
	}
	s := memstore.New()
	t.Cleanup(Serve(l, s))
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), "ONCEWARD_TEST_STORE="+address)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err := child.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = child.Wait()
	if strings.TrimSpace(line) != "acquired <nil>" {
		t.Fatalf("the other process says %q, %v", line, err)
	}
	mine, err := Dial("unix", address)
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Close()
	var kinds []dedup.AnswerKind
	for range 200 {
		a, err := mine.Apply(t.Context(), []dedup.Op{shortClaim(2)})
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, a[0].Kind)
		if a[0].Kind != dedup.Busy {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if last := kinds[len(kinds)-1]; last != dedup.Acquired {
		t.Errorf("answers %v", kinds)
	}
}

func TestErrorsKeepWhatTheyAreOverTheWire(t *testing.T) {
	l := newPipes()
	s := memstore.New()
	defer Serve(l, s)()
	c, err := DialWith(l.dial)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if info := c.Info(); info.Local || info.ID != s.Info().ID {
		t.Errorf("info %+v", info)
	}
	s.Bound(1)
	a, err := c.Apply(t.Context(), []dedup.Op{{}, shortClaim(1), func() dedup.Op { op := shortClaim(2); op.Key.ID = "8"; return op }()})
	if err != nil || !errors.Is(a[0].Err, dedup.ErrInvalidOp) || a[1].Kind != dedup.Acquired || !errors.Is(a[2].Err, dedup.ErrFull) {
		t.Errorf("answers %+v, %v", a, err)
	}
	_ = s.Close()
	if _, err := c.Lookup(t.Context(), nil); !errors.Is(err, dedup.ErrClosed) {
		t.Errorf("closed behind the wire: %v", err)
	}
	lost := &dedup.DamagedError{Where: "file", What: "torn"}
	var damaged *dedup.DamagedError
	if err := toWire(fmt.Errorf("apply: %w", lost)).err(); !errors.As(err, &damaged) || *damaged != *lost {
		t.Errorf("damage arrives as %v", err)
	}
	if _, err := Dial("unix", filepath.Join(t.TempDir(), "nobody")); err == nil {
		t.Errorf("dialed nobody")
	}
}

func TestACallThatIsGivenUpSpoilsNoOther(t *testing.T) {
	l := newPipes()
	stuck := &stuckStore{Store: memstore.New(), entered: make(chan struct{}, 1), release: make(chan struct{})}
	defer Serve(l, stuck)()
	c, err := DialWith(l.dial)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-stuck.entered
		cancel()
	}()
	if _, err := c.Apply(ctx, []dedup.Op{shortClaim(1)}); !errors.Is(err, context.Canceled) {
		t.Errorf("given up with %v", err)
	}
	close(stuck.release)
	for range 10 {
		if _, err := c.Apply(t.Context(), []dedup.Op{shortClaim(1)}); err != nil {
			t.Errorf("after it: %v", err)
		}
	}
}

// stuckStore holds every Apply until it is released.
type stuckStore struct {
	dedup.Store
	entered, release chan struct{}
}

func (s *stuckStore) Apply(ctx context.Context, ops []dedup.Op) ([]dedup.Answer, error) {
	select {
	case s.entered <- struct{}{}:
	default:
	}
	<-s.release
	return s.Store.Apply(ctx, ops)
}

// Whatever is sent, a server neither panics nor stops serving others.
func FuzzServe(f *testing.F) {
	l := newPipes()
	f.Cleanup(Serve(l, memstore.New()))
	mine, theirs := net.Pipe()
	go func() {
		_ = gob.NewEncoder(mine).Encode(request{Call: callApply, Ops: []dedup.Op{shortClaim(1)}})
		_ = mine.Close()
	}()
	var sample []byte
	for buf := make([]byte, 1024); ; {
		n, err := theirs.Read(buf)
		sample = append(sample, buf[:n]...)
		if err != nil {
			break
		}
	}
	f.Add(sample)
	f.Add([]byte{0xf8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, garbage []byte) {
		bad, err := l.dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_ = bad.SetDeadline(time.Now().Add(50 * time.Millisecond))
		go func() { // its answers, if any, must not block it
			for buf := make([]byte, 1024); ; {
				if _, err := bad.Read(buf); err != nil {
					return
				}
			}
		}()
		_, _ = bad.Write(garbage)
		_ = bad.Close()
		c, err := DialWith(l.dial)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
	})
}
