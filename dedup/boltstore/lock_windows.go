package boltstore

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/windows"
)

// locksItself is false: a second lock of bbolt's through the same handle would
// be refused.
const locksItself = false

// lockAt is far behind the process id, which others must be able to read.
const lockAt = 1 << 30

func tryLock(f *os.File) (bool, error) {
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0,
		&windows.Overlapped{Offset: lockAt})
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, windows.ERROR_LOCK_VIOLATION), errors.Is(err, windows.ERROR_IO_PENDING):
		return false, nil
	}
	return false, fmt.Errorf("LockFileEx: %w", err)
}

func tryShare(*os.File) (bool, error) { return true, nil }

// unlock does nothing: bbolt's lock goes with its handle.
func unlock(*os.File) error { return nil }

func inodeOf(*os.File) (uint64, bool) { return 0, false }

// syncNames does nothing: a directory cannot be synced here.
func syncNames(*os.File) error { return nil }
