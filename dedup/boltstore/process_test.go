package boltstore

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/dedup"
)

// TestMain runs this binary as another process where a test asks for one.
func TestMain(m *testing.M) {
	if role := os.Getenv("BOLTSTORE_ROLE"); role != "" {
		roles[role](os.Getenv("BOLTSTORE_PATH"))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// roles are what other processes do.
var roles = map[string]func(path string){
	"write": roleWrite,
	"hold":  roleHold,
}

// role adds one that only some systems have.
func role(name string, f func(path string)) bool {
	roles[name] = f
	return true
}

// process starts one and returns its output, line by line.
func process(t testing.TB, role, path string, env ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	return processWith(t, nil, role, path, env...)
}

func processWith(t testing.TB, in io.Reader, role, path string, env ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Stdin = in
	cmd.Env = append(append(os.Environ(), "BOLTSTORE_ROLE="+role, "BOLTSTORE_PATH="+path), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	return cmd, bufio.NewScanner(out)
}

func fail(err error) {
	fmt.Println("error", err)
	os.Exit(1)
}

// roleWrite claims and completes ids without end, from BOLTSTORE_FIRST on, three
// in a batch, and tells what was acknowledged: "claimed" or "done", and the
// first id. One key is claimed again and again; its fence is told.
func roleWrite(path string) {
	s, err := Open(path, Options{Logger: quiet})
	if err != nil {
		fail(err)
	}
	var first int
	_, _ = fmt.Sscan(os.Getenv("BOLTSTORE_FIRST"), &first)
	apply := func(ops ...dedup.Op) []dedup.Answer {
		a, err := s.Apply(context.Background(), ops)
		if err != nil {
			fail(err)
		}
		return a
	}
	a := apply(claim("same", uint64(first+1)))
	fmt.Println("fence", a[0].Fence)
	for n := first; ; n += 3 {
		var ops []dedup.Op
		for i := n; i < n+3; i++ {
			ops = append(ops, claim(fmt.Sprint(i), uint64(i+1)))
		}
		a := apply(ops...)
		fmt.Println("claimed", n)
		for i := range ops {
			ops[i] = success(ops[i], a[i])
		}
		apply(ops...)
		fmt.Println("done", n)
	}
}

func roleHold(path string) {
	if _, err := Open(path, Options{Logger: quiet}); err != nil {
		fail(err)
	}
	fmt.Println("held")
	time.Sleep(time.Minute)
}

// told is what a writer has acknowledged.
type told struct {
	claimed, done map[int]bool
	fences        []uint64
	next          int
}

func (a *told) read(t testing.TB, out *bufio.Scanner, stop func(lines int)) {
	t.Helper()
	for lines := 0; out.Scan(); {
		var n int
		word, rest, _ := strings.Cut(out.Text(), " ")
		if _, err := fmt.Sscan(rest, &n); err != nil || word == "error" {
			t.Fatalf("the writer says %q", out.Text())
		}
		switch word {
		case "fence":
			a.fences = append(a.fences, uint64(n))
		case "claimed":
			a.claimed[n], a.next = true, n+3
		case "done":
			a.done[n] = true
		}
		lines++
		stop(lines)
	}
}

// check compares the file with what was acknowledged.
func (a *told) check(t testing.TB, s *Store) {
	t.Helper()
	for first := range a.claimed {
		for i := first; i < first+3; i++ {
			switch r := lookup(t, s, fmt.Sprint(i)); {
			case a.done[first] && r.State != dedup.Succeeded:
				t.Errorf("%d was completed and is %s", i, r.State)
			case r.State != dedup.Succeeded && (r.State != dedup.InProgress || r.Live):
				t.Errorf("%d was claimed and is %s, live %v", i, r.State, r.Live)
			}
		}
	}
	for i := 1; i < len(a.fences); i++ {
		if a.fences[i] <= a.fences[i-1] {
			t.Errorf("fence %d after %d", a.fences[i], a.fences[i-1])
		}
	}
}
