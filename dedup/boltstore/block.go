package boltstore

import (
	"encoding/binary"

	bolt "go.etcd.io/bbolt"
)

// block is what bbolt stores: the entries that one commit appends to a segment,
// in pieces of at most blockBytes, under the number of the first. A key for
// each entry would cost more than the entry.
//
//	length of an entry, the entry; and so on
type block []byte

// blockBytes: two blocks and what bbolt writes around them fill a page of 4 KiB.
// Larger ones would be copied whole by every commit that follows.
const blockBytes = 2000

// next takes the first entry off b. ok is false at the end and for what is no
// block; see whole.
func (b *block) next() (row []byte, ok bool) {
	n, size := binary.Uvarint(*b)
	if size <= 0 || n == 0 || n > uint64(len(*b)-size) {
		return nil, false
	}
	row = (*b)[size : size+int(n) : size+int(n)]
	*b = (*b)[size+int(n):]
	return row, true
}

// at is the i-th entry; nil where there is none.
func (b block) at(i uint32) []byte {
	for ; ; i-- {
		row, ok := b.next()
		if !ok || i == 0 {
			return row
		}
	}
}

// appended adds an entry.
func (b block) appended(row []byte) block {
	return append(binary.AppendUvarint(b, uint64(len(row))), row...)
}

// seek finds the block that holds entry n, and its first entry's number.
func seek(c *bolt.Cursor, key []byte) (first uint32, b block) {
	n := binary.BigEndian.Uint32(key)
	k, v := c.Seek(key)
	switch {
	case k == nil:
		k, v = c.Last()
	case len(k) == 4 && binary.BigEndian.Uint32(k) > n:
		k, v = c.Prev()
	}
	if len(k) != 4 || binary.BigEndian.Uint32(k) > n {
		return 0, nil
	}
	return binary.BigEndian.Uint32(k), v
}

// entryIn reads entry n of a segment's bucket; nil where it is not there.
func entryIn(bucket *bolt.Bucket, key []byte) []byte {
	first, b := seek(bucket.Cursor(), key)
	if b == nil {
		return nil
	}
	return b.at(binary.BigEndian.Uint32(key) - first)
}
