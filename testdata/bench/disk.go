package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// Magic numbers of file systems in memory. Source: statfs(2).
const (
	tmpfs = 0x01021994
	ramfs = 0x858458f6
)

// prepareDisk makes the folder, refuses one in memory, and prints how long
// the disk takes to make 4 KiB durable: every figure of a durable store hangs
// on it.
func prepareDisk(dir string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("statfs %s: %w", dir, err)
	}
	if fs.Type == tmpfs || uint32(fs.Type) == ramfs {
		return fmt.Errorf("%s is a file system in memory, where durability costs nothing: give a folder on a disk with -dir", dir)
	}
	f, err := os.Create(filepath.Join(dir, "fsync"))
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	block := make([]byte, 4096)
	var took []time.Duration
	for range 500 {
		if _, err := f.Write(block); err != nil {
			return err
		}
		t := time.Now()
		if err := f.Sync(); err != nil {
			return err
		}
		took = append(took, time.Since(t))
	}
	slices.Sort(took)
	fmt.Printf("disk: append 4 KiB and fsync: p50 %.3f ms, p99 %.3f ms\n", ms(took[len(took)/2]), ms(took[len(took)*99/100]))
	return nil
}
