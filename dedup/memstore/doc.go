// Package memstore keeps records in memory: for tests, and for programs whose
// repeats all arrive within the life of one process.
//
// # Usage
//
//	store := memstore.New()
//	defer store.Close()
//
// # Guarantees
//
// Every rule of [dedup.Store] holds, with one difference: nothing outlives the
// process. After a restart every message that the broker repeats runs again.
// It covers this process only, and says so (Info().Local).
//
// # Concurrency
//
// All methods may be called from many goroutines. An Apply is one step; reads
// see it whole or not at all. Nothing waits but for a lock that is held for
// microseconds, and no goroutine is started.
//
// # Testing
//
// Its clock is time.Now, compared by its monotonic reading: a step of the wall
// clock moves no lease and no window, and inside testing/synctest it follows
// the bubble's time.
package memstore
