package boltstore

import (
	"testing"
	"time"

	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/storetest"
	bolt "go.etcd.io/bbolt"
)

func TestStoreKeepsEveryPromiseOfTheContract(t *testing.T) {
	// Short segments, so that each check sees many. What the disk does is tested
	// elsewhere.
	fast := func(o *Options) { o.noSync, o.entries = true, 7 }
	storetest.Run(t, storetest.Harness{
		Open: func(t testing.TB) dedup.Store { return newStore(t, fast) },
		Reopen: func(t testing.TB, s dedup.Store) dedup.Store {
			return again(t, s.(*Store), fast)
		},
		Crash: func(t testing.TB, s dedup.Store) dedup.Store {
			return openAt(t, copyOf(t, s.(*Store).path), fast)
		},
		Work:      func(do func() error) any { return func(*bolt.Tx) error { return do() } },
		SweepLate: 2 * time.Minute,
	})
}

// copyOf is what a killed process leaves: the file as it is, without its lock.
func copyOf(t testing.TB, path string) string {
	t.Helper()
	return writeFile(t, readFile(t, path))
}
