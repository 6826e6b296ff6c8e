// Package boltstore keeps records in one bbolt file: the store for one process.
//
// # Usage
//
//	store, err := boltstore.Open("billing.db", boltstore.Options{})
//	...
//	defer store.Close()
//
// A handler writes rows of its own in the commit that completes its record:
//
//	err := boltstore.InTx(ctx, func(tx *bolt.Tx) error { ... })
//
// # Guarantees
//
// What [Store.Apply] has answered survives the death of the process and the
// loss of power, on a disk that keeps what it has synced. Every commit is on
// disk, and synced, before its answers are given.
//
// The file is an append log: entries with ascending keys, in buckets of at most
// 100,000, with an index in memory that is rebuilt at opening. So a record costs
// the disk what it is long, not a page, and at most [IndexBytes] of memory; a hit
// is confirmed by reading the entry. Records whose window is over go with their
// bucket: what expires costs, not what is kept.
//
// Damage is noticed and refused, never guessed around. Every entry has a
// checksum bound to its place, every bucket a count and a chained checksum, and
// one row that each commit writes sums up all the others. Pages are checked
// before bbolt, which trusts them, gets to see them. What is refused comes with
// a [*dedup.DamagedError] that says what may be lost and how to go on. Where one
// of the two meta pages is invalid, bbolt would open the commit before without a
// word: such a file takes no write until [Store.Confirm] has compared its
// sequence with what its consumer saw last, or [Options.Adopt] accepts it. Rows
// in buckets of your own have no checksum but what you give them.
//
// When the disk is full, read-only or failing, calls fail and say why, nothing
// in memory runs ahead of the file, and the store goes on by itself when the
// disk does. If nobody knows whether a failed commit has happened, the file is
// read again first.
//
// Fences are never smaller than the number of entries ever written, so they rise
// over deletion and expiry too. The clock is the wall clock as of opening and
// the monotonic clock since; it never falls behind what the file has seen, and
// wall clock steps do not touch it. Claims of an earlier opening are lapsed: the
// lock of their owner was free.
//
// # Cost
//
// A record takes some 300 bytes of disk, its claim and its completion together,
// until its window is over, and at most [IndexBytes] of memory. Opening reads
// and checks all of the file: a million records take well under a second and a
// half from the page cache, and the disk's time otherwise. A commit is two
// syncs, however many operations it has. The file does not shrink; what expires
// is used again. Records with no window and tombstones stay for ever.
//
// # Concurrency
//
// All methods may be called concurrently. Writers take turns, one commit each:
// use [dedup.Batcher] to turn many callers into few commits. Readers do not wait
// for commits, and do not hold up writers.
//
// A second process that opens the file waits for [Options.LockWait]. Beside the
// file lies another with ".lock" behind its name: the lock, with the process id
// of its holder. It stays, and is not to be copied or removed while a process
// runs.
//
// # Testing
//
// In tests of your own use package memstore, or a file in [testing.T.TempDir]:
// in [testing/synctest] the store's clock is the bubble's.
package boltstore
