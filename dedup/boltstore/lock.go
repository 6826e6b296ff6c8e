package boltstore

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ErrLocked says that another process holds the file.
var ErrLocked = errors.New("file is held by another process")

// fileLock is the lock on the file beside the store's own, named like it with
// ".lock" behind. bbolt locks its file too, and gives that up whenever the file
// is closed; this one is held from Open to Close, so that a store which reads
// its file again after a failure does not lose it to another process while
// handlers run. It holds the process id of its owner, for whoever waits. It is
// never removed: who holds a removed file would not hold what others lock.
type fileLock struct{ f *os.File }

const lockPoll = 20 * time.Millisecond

// acquire waits for the lock of the store at path.
func acquire(path string, wait time.Duration, log *slog.Logger) (*fileLock, error) {
	name := path + ".lock"
	deadline := time.Now().Add(wait)
	told := false
	for {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, fmt.Errorf("open the lock: %w", err)
		}
		held, err := tryLock(f)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", name, err), f.Close())
		}
		if held && same(f, name) {
			l := &fileLock{f}
			l.sign()
			return l, nil
		}
		owner := readOwner(f)
		if err := f.Close(); err != nil {
			return nil, fmt.Errorf("close the lock: %w", err)
		}
		if held {
			continue // somebody removed it meanwhile
		}
		if !time.Now().Before(deadline) {
			return nil, locked(path, owner, wait)
		}
		if !told {
			told = true
			log.Warn("store is held by another process, waiting", "store", path, "pid", owner, "at_most", wait)
		}
		time.Sleep(min(lockPoll, max(time.Until(deadline), time.Millisecond)))
	}
}

func locked(path string, owner int, wait time.Duration) error {
	who := "process " + strconv.Itoa(owner)
	if owner == 0 {
		who = "a process that left no id"
	}
	return fmt.Errorf("%s: %w: %s, after waiting %v (Options.LockWait); a local store covers one process only", path, ErrLocked, who, wait)
}

func same(f *os.File, name string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Stat(name)
	return err == nil && os.SameFile(a, b)
}

// sign leaves the process id. It is for people: without it the lock holds too.
func (l *fileLock) sign() {
	if l.f.Truncate(0) == nil {
		_, _ = l.f.WriteAt(strconv.AppendInt(nil, int64(os.Getpid()), 10), 0)
	}
}

func readOwner(f *os.File) int {
	b := make([]byte, 20)
	n, _ := f.ReadAt(b, 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	if err != nil || pid < 0 {
		return 0
	}
	return pid
}

func (l *fileLock) release() error {
	if l == nil || l.f == nil {
		return nil
	}
	f := l.f
	l.f = nil
	_ = f.Truncate(0)
	return f.Close() // and with it the lock
}

// holder finds who holds a file that has no lock file of ours, such as another
// program of bbolt's, where the system tells. 0: not known.
func holder(f *os.File) int {
	inode, ok := inodeOf(f)
	if !ok {
		return 0
	}
	table, err := os.Open("/proc/locks")
	if err != nil {
		return 0
	}
	defer table.Close()
	// 1: FLOCK ADVISORY WRITE 1234 fd:00:5678 0 EOF
	for s := bufio.NewScanner(table); s.Scan(); {
		w := strings.Fields(s.Text())
		if len(w) < 6 || w[1] != "FLOCK" || !strings.HasSuffix(w[5], ":"+strconv.FormatUint(inode, 10)) {
			continue
		}
		if pid, err := strconv.Atoi(w[4]); err == nil && pid > 0 {
			return pid
		}
	}
	return 0
}

// syncDir makes the names in the directory of path durable.
func syncDir(path string) error {
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("open the directory: %w", err)
	}
	return errors.Join(syncNames(d), d.Close())
}
