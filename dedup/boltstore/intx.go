package boltstore

import (
	"context"
	"fmt"

	"github.com/onceward/onceward/dedup"
	bolt "go.etcd.io/bbolt"
)

// InTx has f run in the commit that completes the record of the handler that
// ctx belongs to: what f writes is there exactly when the record says
// succeeded. It is dropped when the handler fails.
//
// f must do nothing but read and write through tx, and be quick: it runs when
// the handler has returned, while the store writes for everybody, and again
// when the commit has to be repeated. It has top-level buckets of its own
// choice; the bucket "onceward" is the store's, and a file in which anybody
// else has changed it does not open again. Where f fails or panics, nothing of
// that completion is written, the record stays claimed, and the completion is
// answered with the error; other completions in the same commit are not
// affected.
//
// Errors: [dedup.ErrNotEnlisted] when ctx is not of a handler whose store is a
// boltstore.
func InTx(ctx context.Context, f func(tx *bolt.Tx) error) error {
	return dedup.Enlist(ctx, f)
}

// run does one piece of enlisted work.
func run(tx *bolt.Tx, work any) (err error) {
	f, ok := work.(func(*bolt.Tx) error)
	if !ok {
		return fmt.Errorf("%w: enlisted work of type %T, want func(*bolt.Tx) error", dedup.ErrInvalidOp, work)
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return f(tx)
}
