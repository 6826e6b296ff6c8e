package boltstore

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
)

func TestASecondProcessWaitsAndSaysForWhom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "billing.db")
	cmd, out := process(t, "hold", path)
	if !out.Scan() || out.Text() != "held" {
		t.Fatalf("the holder says %q", out.Text())
	}
	pid := fmt.Sprint("pid=", cmd.Process.Pid)

	var logged bytes.Buffer
	began := time.Now()
	_, err := Open(path, Options{LockWait: 100 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), fmt.Sprint("process ", cmd.Process.Pid)) {
		t.Errorf("open: %v, want who holds it", err)
	}
	if waited := time.Since(began); waited < 100*time.Millisecond {
		t.Errorf("waited %v", waited)
	}
	if !strings.Contains(logged.String(), pid) {
		t.Errorf("log %q, want %s", logged.String(), pid)
	}

	began = time.Now()
	if _, err := Open(path, Options{LockWait: -1, Logger: quiet}); !errors.Is(err, ErrLocked) || time.Since(began) > time.Second {
		t.Errorf("open without waiting: %v after %v", err, time.Since(began))
	}

	go func() {
		time.Sleep(100 * time.Millisecond)
		_ = cmd.Process.Kill()
	}()
	s, err := Open(path, Options{Logger: quiet, LockWait: 20 * time.Second})
	if err != nil {
		t.Fatalf("open when the holder has died: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestTwoStoresInOneProcessDoNotShareAFile(t *testing.T) {
	s := newStore(t)
	if _, err := Open(s.path, Options{LockWait: -1, Logger: quiet}); !errors.Is(err, ErrLocked) {
		t.Errorf("open: %v", err)
	}
}

func TestAFileHeldByAnotherProgramIsWaitedFor(t *testing.T) {
	s := newStore(t)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := bolt.Open(s.path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(s.path, Options{LockWait: 50 * time.Millisecond, Logger: quiet}); !errors.Is(err, ErrLocked) {
		t.Errorf("open: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	openAt(t, s.path)
}

func TestReadersShareAFileAndWriteNothing(t *testing.T) {
	s := newStore(t)
	complete(t, s, 0, 10)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	reading := func(o *Options) { o.ReadOnly = true }
	a, b := openAt(t, s.path, reading), openAt(t, s.path, reading)
	for _, r := range []*Store{a, b} {
		if got := lookup(t, r, "3"); got.State.String() != "succeeded" {
			t.Errorf("record %+v", got)
		}
		if _, err := r.Apply(t.Context(), nil); !errors.Is(err, errReadOnly) {
			t.Errorf("apply: %v", err)
		}
	}
}
