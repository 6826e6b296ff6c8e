package boltstore

import (
	"encoding/binary"
	"time"
)

// segment is one bucket of the log: the entries of one class in the order in
// which they were written, numbered from 0. A class is all records with the
// same window, so that what is written first is over first; a segment is
// dropped as a whole once nothing in it counts any more, and within a class
// always the oldest one first. So an entry never outlives the one that
// replaced it.
type segment struct {
	no    uint32
	class uint32 // in the dictionary: the window; 0: kept for ever
	seq   uint64 // of its first entry
	base  int64  // when it was begun, by the store's clock, in ns; times in entries count from here
	count uint32 // entries
	chain uint32 // checksum over the checksums of its entries, in order
	// mark: entries below it count no more, whatever they say. Sweeping raises
	// it before the segment is dropped.
	mark uint32
	// closed: nothing is appended any more.
	closed bool
}

// maxEntries bounds a segment so that dropping one is short.
const maxEntries = 100_000

// period is for how long a segment of a class takes new entries: an eighth of
// the window, so that an unfinished record in it keeps the others from going
// for no longer than that.
func period(window time.Duration) time.Duration {
	return max(window/8, time.Minute)
}

const segmentRowSize = 4 + 8 + 8 + 4 + 4 + 4 + 1

func segmentKey(no uint32) []byte { return binary.BigEndian.AppendUint32(nil, no) }

func (g *segment) row() []byte {
	b := make([]byte, 0, segmentRowSize+sumSize)
	b = binary.LittleEndian.AppendUint32(b, g.class)
	b = binary.LittleEndian.AppendUint64(b, g.seq)
	b = binary.LittleEndian.AppendUint64(b, uint64(g.base))
	b = binary.LittleEndian.AppendUint32(b, g.count)
	b = binary.LittleEndian.AppendUint32(b, g.chain)
	b = binary.LittleEndian.AppendUint32(b, g.mark)
	b = appendBool(b, g.closed)
	return seal(b, 0, tableSegments, segmentKey(g.no))
}

func parseSegment(key, row []byte) (*segment, uint32, error) {
	if len(key) != 4 || len(row) != segmentRowSize+sumSize {
		return nil, 0, errRow
	}
	body, sum, err := unseal(row, tableSegments, key)
	if err != nil {
		return nil, 0, err
	}
	r := reader{b: body}
	g := &segment{no: binary.BigEndian.Uint32(key)}
	g.class, g.seq, g.base = r.uint32fixed(), r.uint64fixed(), int64(r.uint64fixed())
	g.count, g.chain, g.mark = r.uint32fixed(), r.uint32fixed(), r.uint32fixed()
	g.closed = r.byte() != 0
	if !r.ok() || g.no == 0 || g.mark > g.count || g.count > maxEntries {
		return nil, 0, errRow
	}
	return g, sum, nil
}

// link adds one entry's checksum to the chain.
func (g *segment) link(sum uint32) {
	g.chain = mix(g.chain ^ mix(sum+g.count))
	g.count++
}

// mix is a bijection of 32 bits, so that no two entries cancel out.
func mix(x uint32) uint32 {
	x ^= x >> 16
	x *= 0x7feb352d
	x ^= x >> 15
	x *= 0x846ca68b
	return x ^ x>>16
}
