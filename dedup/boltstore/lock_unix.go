//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package boltstore

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// locksItself says that a file may be locked before bbolt locks it again
// through the same descriptor.
const locksItself = true

func tryLock(f *os.File) (bool, error) {
	return flock(f, syscall.LOCK_EX)
}

func tryShare(f *os.File) (bool, error) {
	return flock(f, syscall.LOCK_SH)
}

func flock(f *os.File, how int) (bool, error) {
	for {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		default:
			return false, fmt.Errorf("flock: %w", err)
		}
	}
}

// unlock gives up a file's lock, which a map of the file would hold beyond its
// descriptor.
func unlock(f *os.File) error {
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_UN); err != nil {
		return fmt.Errorf("unlock: %w", err)
	}
	return nil
}

func inodeOf(f *os.File) (uint64, bool) {
	i, err := f.Stat()
	if err != nil {
		return 0, false
	}
	s, ok := i.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return uint64(s.Ino), true
}

func syncNames(d *os.File) error {
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) {
		return fmt.Errorf("sync the directory: %w", err)
	}
	return nil
}
