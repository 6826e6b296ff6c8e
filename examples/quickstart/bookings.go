package main

import (
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/boltstore"
)

// addBooking adds a row. It never looks whether there is one for the order.
func addBooking(table *bolt.Bucket, id string) error {
	n, err := table.NextSequence()
	if err != nil {
		return err
	}
	return table.Put(binary.BigEndian.AppendUint64(nil, n), []byte(id))
}

// readBookings counts the rows of each order. Nobody may have the file open
// for writing. A file that is not there yet has none.
func readBookings(path string) (map[string]int, error) {
	booked := map[string]int{}
	db, err := bolt.Open(path, 0, &bolt.Options{ReadOnly: true, Timeout: 10 * time.Second})
	if errors.Is(err, fs.ErrNotExist) {
		return booked, nil
	}
	if err != nil {
		return nil, err
	}
	defer db.Close()
	err = db.View(func(tx *bolt.Tx) error {
		table := tx.Bucket(bookings)
		if table == nil {
			return nil
		}
		return table.ForEach(func(_, id []byte) error {
			booked[string(id)]++
			return nil
		})
	})
	return booked, err
}

// readRecords reads what onceward has recorded of each order.
func readRecords(ctx context.Context, path, consumer string) (map[string]dedup.Record, error) {
	store, err := boltstore.Open(path, boltstore.Options{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	records := map[string]dedup.Record{}
	for record, err := range store.Scan(ctx, consumer) {
		if err != nil {
			return nil, errors.Join(err, store.Close())
		}
		if !dedup.ReservedScope(record.Key.Scope) { // those of letters without a key
			records[record.Key.ID] = record
		}
	}
	return records, store.Close()
}
