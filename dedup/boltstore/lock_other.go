//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package boltstore

import "os"

// Here bbolt's own lock is all there is.
const locksItself = false

func tryLock(*os.File) (bool, error) { return true, nil }

func tryShare(*os.File) (bool, error) { return true, nil }

// unlock does nothing: closing is all there is.
func unlock(*os.File) error { return nil }

func inodeOf(*os.File) (uint64, bool) { return 0, false }

func syncNames(d *os.File) error { return d.Sync() }
