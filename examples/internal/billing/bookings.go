package billing

import (
	"context"
	"encoding/binary"

	bolt "go.etcd.io/bbolt"

	"github.com/onceward/onceward/dedup/boltstore"
)

// bookings is the program's own table in the file: a number that counts up, and
// the order.
var bookings = []byte("bookings")

// book adds a row, in the commit that records the order as done: both are
// there, or neither.
func book(ctx context.Context, order []byte) error {
	return boltstore.InTx(ctx, func(tx *bolt.Tx) error {
		table, err := tx.CreateBucketIfNotExists(bookings)
		if err != nil {
			return err
		}
		n, err := table.NextSequence()
		if err != nil {
			return err
		}
		return table.Put(binary.BigEndian.AppendUint64(nil, n), order)
	})
}
