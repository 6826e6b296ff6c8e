package boltstore

import (
	"os"

	"golang.org/x/sys/unix"
)

// dropCache has the next read come from the disk. After a failed sync the
// kernel may go on showing pages that never got there.
func dropCache(path string) {
	f, err := os.Open(path)
	if err != nil {
		return
	}
	defer f.Close()
	_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}
