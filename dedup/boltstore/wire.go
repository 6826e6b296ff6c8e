package boltstore

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"time"
)

// Everything in the file is little-endian, counted in varints where it may be
// large, and ends with a CRC-32C over where it lies and what it says.

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const sumSize = 4

// errRow says that bytes are not what they were written as.
var errRow = errors.New("checksum or form is wrong")

// seal appends the checksum of the row that began at start of b, bound to the
// table and key that it is stored under.
func seal(b []byte, start int, table byte, key []byte) []byte {
	return binary.LittleEndian.AppendUint32(b, rowSum(b[start:], table, key))
}

func rowSum(row []byte, table byte, key []byte) uint32 {
	sum := crc32.Update(uint32(table), castagnoli, key)
	return crc32.Update(sum, castagnoli, row)
}

// unseal checks a row and returns it without its checksum, and that.
func unseal(row []byte, table byte, key []byte) ([]byte, uint32, error) {
	if len(row) < sumSize {
		return nil, 0, errRow
	}
	body := row[:len(row)-sumSize]
	sum := binary.LittleEndian.Uint32(row[len(body):])
	if sum != rowSum(body, table, key) {
		return nil, 0, errRow
	}
	return body, sum, nil
}

// spread makes a row's checksum fit to be added up: the sum over a table
// changes with any row that is lost, doubled or replaced.
func spread(sum uint32) uint64 {
	x := uint64(sum) + 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendSigned(b []byte, v int64) []byte { return binary.AppendVarint(b, v) }

func appendString[T string | []byte](b []byte, s T) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// appendTime writes t as nanoseconds since base, for times by the store's
// clock: those lie within a few centuries.
func appendTime(b []byte, t time.Time, base int64) []byte {
	if t.IsZero() {
		return append(b, 0)
	}
	d := t.UnixNano() - base
	return binary.AppendUvarint(append(b, 1), uint64(d<<1^d>>63))
}

// appendDate writes any time.
func appendDate(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(b, 0)
	}
	b = binary.AppendVarint(append(b, 1), t.Unix())
	return binary.AppendUvarint(b, uint64(t.Nanosecond()))
}

// reader takes a row apart. After the first fault it reads zeros; see ok.
type reader struct {
	b   []byte
	bad bool
}

// ok says that everything was there and nothing is left over.
func (r *reader) ok() bool { return !r.bad && len(r.b) == 0 }

func (r *reader) fail() {
	r.b, r.bad = nil, true
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.fail()
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) uint32() uint32 {
	v := r.uvarint()
	if v > 1<<32-1 {
		r.fail()
		return 0
	}
	return uint32(v)
}

// count reads how many of something follow, at most 1024: more than any record
// can have.
func (r *reader) count() uint64 {
	n := r.uvarint()
	if n > 1<<10 {
		r.fail()
		return 0
	}
	return n
}

// take returns the next n bytes of the row itself.
func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.fail()
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) bytes() []byte  { return r.take(r.uvarint()) }
func (r *reader) string() string { return string(r.bytes()) }

// copied is bytes in memory of their own; nil when empty.
func (r *reader) copied() []byte {
	v := r.bytes()
	if len(v) == 0 {
		return nil
	}
	return append([]byte(nil), v...)
}

func (r *reader) time(base int64) time.Time {
	if r.byte() == 0 {
		return time.Time{}
	}
	v := r.uvarint()
	return time.Unix(0, base+(int64(v>>1)^-int64(v&1))).UTC()
}

func (r *reader) date() time.Time {
	if r.byte() == 0 {
		return time.Time{}
	}
	s, ns := r.varint(), r.uvarint()
	if ns >= 1e9 {
		r.fail()
		return time.Time{}
	}
	return time.Unix(s, int64(ns)).UTC()
}

func (r *reader) uint64fixed() uint64 {
	v := r.take(8)
	if v == nil {
		return 0
	}
	return binary.LittleEndian.Uint64(v)
}

func (r *reader) uint32fixed() uint32 {
	v := r.take(4)
	if v == nil {
		return 0
	}
	return binary.LittleEndian.Uint32(v)
}
