package main

import (
	"path/filepath"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"
)

var (
	ids    = []byte("ids")
	record = make([]byte, 120)
)

func init() {
	// What a team writes first: one transaction that claims, the handler, one
	// that completes.
	cases["store-naive"] = func(m *meter) {
		db := openBolt(filepath.Join(*dir, "naive.db"))
		fillNaive(db, *pre)
		m.first()
		for i := range *n {
			id := []byte(orderID(*pre + i))
			must(db.Update(func(tx *bolt.Tx) error {
				b := tx.Bucket(ids)
				if b.Get(id) != nil {
					panic("claimed before")
				}
				return b.Put(id, record)
			}))
			must(db.Update(func(tx *bolt.Tx) error { return tx.Bucket(ids).Put(id, record) }))
		}
		m.last(*n)
		must(db.Close())
	}
}

func openBolt(path string) *bolt.DB {
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: time.Second})
	must(err)
	must(db.Update(func(tx *bolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(ids)
		return err
	}))
	return db
}

// fillNaive puts ids in order, with pages as full as those of a tree that
// grew by random keys.
func fillNaive(db *bolt.DB, count int) {
	keys := make([]string, count)
	for i := range keys {
		keys[i] = orderID(i)
	}
	slices.Sort(keys)
	db.NoSync = true
	for chunk := range slices.Chunk(keys, 50000) {
		must(db.Update(func(tx *bolt.Tx) error {
			b := tx.Bucket(ids)
			b.FillPercent = 0.69
			for _, k := range chunk {
				must(b.Put([]byte(k), record))
			}
			return nil
		}))
	}
	db.NoSync = false
	must(db.Sync())
}
