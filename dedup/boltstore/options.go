package boltstore

import (
	"log/slog"
	"time"
)

// Options of [Open]. The zero value is right for most.
type Options struct {
	// LockWait is how long Open waits for a file that another process holds,
	// such as the predecessor in a rolling restart. Default 5 s: longer than a
	// process takes to die, shorter than a supervisor's patience. Negative: do
	// not wait.
	LockWait time.Duration

	// Adopt says on purpose that from now on this file is the one: its consumers
	// take it over although their mark at the broker names another, or a later
	// state of this one. What only the other recorded runs again. It also
	// accepts a file whose newest commit may be missing. Open with it once, and
	// without it from then on.
	Adopt bool

	// MaxIndexBytes bounds the memory of the index, at [IndexBytes] a record.
	// From four fifths of it on, the store warns with the days left; at the bound
	// it takes no new keys ([dedup.ErrFull]) and everything else goes on. Default
	// 1 GiB, which is 26 million records.
	MaxIndexBytes int64

	// ReadOnly opens a file to look at it: Lookup, Letters, Scan, Prefixes. It
	// may be shared with others that read only. A claim that is not complete is
	// shown as lapsed.
	ReadOnly bool

	// Logger for what an operator should know. Default [slog.Default].
	Logger *slog.Logger

	// For tests of this package: commits that do not wait for the disk,
	// shorter segments than maxEntries.
	noSync  bool
	entries uint32
	// fault fails a commit that has happened.
	fault func() error
	// hash makes keys collide.
	hash func(hash) hash
}

// IndexBytes is what one record takes in memory at most. It needs 32 to 40; the
// rest of a file's record stays on disk.
const IndexBytes = 40

const (
	defaultLockWait      = 5 * time.Second
	defaultMaxIndexBytes = 1 << 30
)

func (o Options) withDefaults() Options {
	switch {
	case o.LockWait == 0:
		o.LockWait = defaultLockWait
	case o.LockWait < 0:
		o.LockWait = 0
	}
	if o.MaxIndexBytes <= 0 {
		o.MaxIndexBytes = defaultMaxIndexBytes
	}
	if o.entries == 0 {
		o.entries = maxEntries
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}
