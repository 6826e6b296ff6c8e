// Package wire reads and writes the primitive types of Kafka's protocol.
//
// # Guarantees
//
// A [Reader] never panics and never allocates more than what it was given
// holds: each length is compared with the bytes that are left before anything
// is made of it. kafka-go's own decoder trusts lengths, which is why whatever
// comes from a socket passes through here first.
package wire

import (
	"encoding/binary"
	"errors"
)

// ErrMalformed is what [Reader.Err] reports for every kind of wrong length.
var ErrMalformed = errors.New("malformed answer: a length does not fit into what was received")

// Reader takes values from the front of a slice. After the first fault all
// values are zero; look at Err once at the end.
type Reader struct {
	b   []byte
	bad bool
}

// NewReader reads b without copying it.
func NewReader(b []byte) Reader { return Reader{b: b} }

// Err is ErrMalformed once something did not fit.
func (r *Reader) Err() error {
	if r.bad {
		return ErrMalformed
	}
	return nil
}

// Bad says whether something did not fit.
func (r *Reader) Bad() bool { return r.bad }

// Len is how many bytes are left.
func (r *Reader) Len() int { return len(r.b) }

// Take returns the next n bytes, which are part of the slice read.
func (r *Reader) Take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.b, r.bad = nil, true
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

// Int8 reads one byte.
func (r *Reader) Int8() int8 {
	if v := r.Take(1); v != nil {
		return int8(v[0])
	}
	return 0
}

// Int16 reads a big-endian number, as all the fixed ones are.
func (r *Reader) Int16() int16 {
	if v := r.Take(2); v != nil {
		return int16(binary.BigEndian.Uint16(v))
	}
	return 0
}

// Int32 reads four bytes.
func (r *Reader) Int32() int32 {
	if v := r.Take(4); v != nil {
		return int32(binary.BigEndian.Uint32(v))
	}
	return 0
}

// Int64 reads eight bytes.
func (r *Reader) Int64() int64 {
	if v := r.Take(8); v != nil {
		return int64(binary.BigEndian.Uint64(v))
	}
	return 0
}

// UUID reads sixteen bytes.
func (r *Reader) UUID() (id [16]byte) {
	copy(id[:], r.Take(16))
	return id
}

// Uvarint reads an unsigned number of variable length.
func (r *Reader) Uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.b, r.bad = nil, true
		return 0
	}
	r.b = r.b[n:]
	return v
}

// Varint reads a zigzag number of variable length.
func (r *Reader) Varint() int64 {
	if len(r.b) > 0 && r.b[0] < 0x80 { // most numbers of a record
		c := r.b[0]
		r.b = r.b[1:]
		return int64(c>>1) ^ -int64(c&1)
	}
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.b, r.bad = nil, true
		return 0
	}
	r.b = r.b[n:]
	return v
}

// length turns a compact length, one more than it says and 0 for null, into
// -1 or the length.
func (r *Reader) length() int {
	n := r.Uvarint()
	if n > uint64(len(r.b))+1 {
		r.b, r.bad = nil, true
		return -1
	}
	return int(n) - 1
}

// String reads a string with a length of two bytes; null is empty.
func (r *Reader) String() string {
	n := r.Int16()
	if n < 0 {
		return ""
	}
	return string(r.Take(int(n)))
}

// CompactString reads a string with a length of variable size; null is empty.
func (r *Reader) CompactString() string {
	n := r.length()
	if n < 0 {
		return ""
	}
	return string(r.Take(n))
}

// Bytes reads bytes with a length of four bytes, nil for null. They are part
// of the slice read.
func (r *Reader) Bytes() []byte {
	n := r.Int32()
	if n < 0 {
		return nil
	}
	return r.Take(int(n))
}

// CompactBytes is Bytes with a length of variable size.
func (r *Reader) CompactBytes() []byte {
	n := r.length()
	if n < 0 {
		return nil
	}
	return r.Take(n)
}

// VarBytes is Bytes with a zigzag length, as in records.
func (r *Reader) VarBytes() []byte {
	n := r.Varint()
	if n < 0 {
		return nil
	}
	if n > int64(len(r.b)) {
		r.b, r.bad = nil, true
		return nil
	}
	return r.Take(int(n))
}

// Count reads the number of elements of an array, each at least size bytes
// long; null is 0. More elements than bytes are a fault.
func (r *Reader) Count(size int) int { return r.fits(int64(r.Int32()), size) }

// CompactCount is Count with a length of variable size.
func (r *Reader) CompactCount(size int) int { return r.fits(int64(r.length()), size) }

// VarCount is Count with a zigzag length.
func (r *Reader) VarCount(size int) int { return r.fits(r.Varint(), size) }

func (r *Reader) fits(n int64, size int) int {
	if n <= 0 {
		return 0
	}
	if n > int64(len(r.b)/size) {
		r.b, r.bad = nil, true
		return 0
	}
	return int(n)
}

// VersionedReader reads a layout of which some versions are flexible: with
// compact lengths, and tags at the end of each structure.
type VersionedReader struct {
	Reader
	Flexible bool
}

// Count is [Reader.Count] or [Reader.CompactCount].
func (r *VersionedReader) Count(size int) int {
	if r.Flexible {
		return r.CompactCount(size)
	}
	return r.Reader.Count(size)
}

// String is [Reader.String] or [Reader.CompactString].
func (r *VersionedReader) String() string {
	if r.Flexible {
		return r.CompactString()
	}
	return r.Reader.String()
}

// Bytes is [Reader.Bytes] or [Reader.CompactBytes].
func (r *VersionedReader) Bytes() []byte {
	if r.Flexible {
		return r.CompactBytes()
	}
	return r.Reader.Bytes()
}

// SkipTags is [Reader.SkipTags] where there are tags.
func (r *VersionedReader) SkipTags() {
	if r.Flexible {
		r.Reader.SkipTags()
	}
}

// SkipTags passes the tagged fields at the end of a flexible structure.
func (r *Reader) SkipTags() {
	for n := r.CompactTags(); n > 0 && !r.bad; n-- {
		r.Uvarint()
		size := r.Uvarint()
		if size > uint64(len(r.b)) {
			r.b, r.bad = nil, true
			return
		}
		r.Take(int(size))
	}
}

// CompactTags reads the number of tagged fields, at least two bytes each.
func (r *Reader) CompactTags() int {
	n := r.Uvarint()
	if n > uint64(len(r.b)/2) {
		r.b, r.bad = nil, true
		return 0
	}
	return int(n)
}
