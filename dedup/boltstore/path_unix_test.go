//go:build unix

package boltstore

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// What is no file is refused, and nothing is made in its place or beside it.
func TestOnlyARegularFileIsOpened(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.Mkdir(in("folder"), 0o700), os.Symlink(in("unmounted"), in("link")), unix.Mkfifo(in("pipe"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"":                       "path is empty",
		in("folder"):             "not a regular file",
		in("pipe"):               "not a regular file",
		in("link"):               "leads to nothing",
		in("missing/billing.db"): "missing",
		in("nul\x00.db"):         "invalid argument",
	} {
		before, err := os.Lstat(path)
		for _, o := range []Options{{}, {Adopt: true}, {ReadOnly: true}} {
			o.LockWait, o.Logger = -1, quiet
			if s, err := Open(path, o); err == nil {
				t.Errorf("%q opens", path)
				_ = s.Close()
			} else if !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v, want %q", path, err, want)
			}
		}
		if err == nil {
			if after, err := os.Lstat(path); err != nil || after.Mode() != before.Mode() {
				t.Errorf("%q was replaced: %v %v", path, after, err)
			}
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 3 {
		t.Errorf("left in the folder: %v, %v", left, err)
	}
}

// The lock that is held for as long as the store is open lies beside the file,
// whatever name it was reached by.
func TestAFileIsLockedByItsOwnName(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	openAt(t, filepath.Join(link, "billing.db"))
	if err := os.Symlink(filepath.Join(dir, "billing.db"), filepath.Join(link, "other.db")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{filepath.Join(dir, "billing.db"), filepath.Join(dir, "other.db"), filepath.Join(link, "billing.db")} {
		if _, err := Open(name, Options{LockWait: -1, Logger: quiet}); !errors.Is(err, ErrLocked) {
			t.Errorf("%s: %v, want ErrLocked", name, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "billing.db.lock")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "other.db.lock")); err == nil {
		t.Error("a link has a lock of its own")
	}
}

func TestAFileWithoutAStoreCannotBeLookedAt(t *testing.T) {
	for name, path := range map[string]string{"missing": filepath.Join(t.TempDir(), "none.db"), "empty": writeFile(t, nil)} {
		if _, err := Open(path, Options{ReadOnly: true, Logger: quiet}); err == nil || !strings.Contains(err.Error(), "no store in this file") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
