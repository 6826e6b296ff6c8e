package records

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// headerSize is how much of a batch comes before its records.
const headerSize = 61

// Bits of a batch's attributes.
const (
	codecMask     = 0x07
	logAppendTime = 0x08
	transactional = 0x10
	control       = 0x20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// batch is one record batch of format 2.
//
// Source: the layout is that of Kafka's DefaultRecordBatch.
type batch struct {
	base, last int64
	attributes uint16
	firstTime  int64
	maxTime    int64
	producer   int64
	count      int
	body       []byte // the records, perhaps compressed
	size       int    // of the whole batch
}

// CorruptError is a batch that cannot be read.
type CorruptError struct {
	Offset int64
	Wrong  string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("batch at offset %d: %s", e.Offset, e.Wrong)
}

// cut takes the first batch off b. ok is false when it is not there as a
// whole, as the last one of an answer may be.
func cut(b []byte) (t batch, ok bool, err error) {
	if len(b) < headerSize {
		return t, false, nil
	}
	be := binary.BigEndian
	t.base = int64(be.Uint64(b))
	length := int64(int32(be.Uint32(b[8:])))
	if b[16] != 2 {
		return t, false, &CorruptError{t.base, fmt.Sprintf("message format %d; only 2 (Kafka 0.11 and newer) can be read", b[16])}
	}
	if length < headerSize-12 {
		return t, false, &CorruptError{t.base, fmt.Sprintf("length %d", length)}
	}
	if length > int64(len(b)-12) {
		return t, false, nil
	}
	t.size = int(length) + 12
	b = b[:t.size]
	if sum := crc32.Checksum(b[21:], castagnoli); sum != be.Uint32(b[17:]) {
		return t, false, &CorruptError{t.base, "checksum does not match"}
	}
	t.attributes = be.Uint16(b[21:])
	t.last = t.base + int64(int32(be.Uint32(b[23:])))
	t.firstTime = int64(be.Uint64(b[27:]))
	t.maxTime = int64(be.Uint64(b[35:]))
	t.producer = int64(be.Uint64(b[43:]))
	t.count = int(int32(be.Uint32(b[57:])))
	t.body = b[headerSize:]
	if t.base < 0 || t.last < t.base || t.count < 0 {
		return t, false, &CorruptError{t.base, fmt.Sprintf("%d records, last offset %d", t.count, t.last)}
	}
	return t, true, nil
}
