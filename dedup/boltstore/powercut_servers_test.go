//go:build servers && linux

package boltstore

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/onceward/onceward/dedup"
)

// The power goes while another process writes, 100 times, and each life goes on
// with what the disk has kept.
func TestWhatWasAcknowledgedSurvivesPowerCuts(t *testing.T) {
	d, dir := mountDisk(t)
	r := rand.New(rand.NewPCG(7, 8))
	a := &told{claimed: map[int]bool{}, done: map[int]bool{}}
	for n := range 100 {
		cmd, out := process(t, "write", filepath.Join(dir, "billing.db"), fmt.Sprint("BOLTSTORE_FIRST=", a.next))
		after := 1 + r.IntN(15)
		a.read(t, out, func(lines int) {
			if lines == after {
				_ = cmd.Process.Kill()
			}
		})
		_ = cmd.Wait()
		file := d.cut("billing.db", r, n%4 > 0)
		if file == nil {
			continue // it was cut before the file had its name
		}
		s, err := Open(writeFile(t, used(file)), Options{Logger: quiet})
		if err != nil {
			t.Fatalf("open after cut %d: %v", n, err)
		}
		if s.Info().Unconfirmed {
			t.Errorf("cut %d leaves the file in doubt", n)
		}
		a.check(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if len(a.done) < 100 {
		t.Errorf("only %d batches were acknowledged", len(a.done))
	}
}

var _ = role("sync", roleSync)

// roleSync completes a claim while the disk fails, and again when it is well.
func roleSync(path string) {
	in := bufio.NewScanner(os.Stdin)
	s, err := Open(path, Options{Logger: quiet})
	if err != nil {
		fail(err)
	}
	c := claim("first", 1)
	a, err := s.Apply(context.Background(), []dedup.Op{c})
	if err != nil {
		fail(err)
	}
	end := []dedup.Op{success(c, a[0])}
	fmt.Println("ready")
	in.Scan()
	if _, err = s.Apply(context.Background(), end); err == nil {
		fail(fmt.Errorf("a commit whose sync failed was acknowledged"))
	}
	fmt.Println("failed")
	in.Scan()
	b, err := s.Apply(context.Background(), append(end, claim("second", 2)))
	if err != nil {
		fail(err)
	}
	again := b[0].Kind == dedup.Fenced && b[0].Record != nil && b[0].Record.State == dedup.Succeeded &&
		b[0].Record.Token == c.Token && b[0].Record.Fence == a[0].Fence
	if b[0].Kind != dedup.Done && !again || b[1].Kind != dedup.Acquired {
		fail(fmt.Errorf("the same completion again: %+v, %+v", b[0], b[1]))
	}
	fmt.Println("well")
}

// Each of the syncs of one commit fails, and the disk keeps or forgets what was
// written before it.
func TestACommitWhoseSyncFailedIsReadAgainBeforeItIsAnswered(t *testing.T) {
	for n := range 2 {
		for _, forget := range []bool{false, true} {
			t.Run(fmt.Sprintf("sync %d, forgets %v", n+1, forget), func(t *testing.T) {
				d, dir := mountDisk(t)
				pr, pw := io.Pipe()
				cmd, out := processWith(t, pr, "sync", filepath.Join(dir, "billing.db"))
				expect := func(want string) {
					t.Helper()
					if !out.Scan() || out.Text() != want {
						t.Fatalf("the process says %q, want %q", out.Text(), want)
					}
				}
				expect("ready")
				d.failSync(n, forget)
				fmt.Fprintln(pw)
				expect("failed")
				fmt.Fprintln(pw)
				expect("well")
				_ = pw.Close()
				_ = cmd.Wait()
				s := openAt(t, writeFile(t, used(d.cut("billing.db", rand.New(rand.NewPCG(1, 1)), false))))
				if r := lookup(t, s, "first"); r.State != dedup.Succeeded {
					t.Errorf("record %+v", r)
				}
			})
		}
	}
}
