package boltstore

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
)

// A process is killed in the middle of writing, again and again.
func TestWhatWasAcknowledgedSurvivesKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "billing.db")
	a := &told{claimed: map[int]bool{}, done: map[int]bool{}}
	r := rand.New(rand.NewPCG(1, 2))
	const lives = 50
	for range lives {
		cmd, out := process(t, "write", path, fmt.Sprint("BOLTSTORE_FIRST=", a.next))
		after := 1 + r.IntN(20)
		a.read(t, out, func(lines int) {
			if lines == after {
				_ = cmd.Process.Kill()
			}
		})
		_ = cmd.Wait()
		s := openAt(t, path)
		a.check(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if len(a.done) < lives || len(a.fences) < lives/2 {
		t.Errorf("only %d batches and %d fences were acknowledged", len(a.done), len(a.fences))
	}
}
