package records

import (
	"encoding/binary"
	"hash/crc32"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/wire"
)

// Append appends one uncompressed batch of the given messages, without a
// producer id, to b.
func Append(b []byte, messages []*brokers.Outgoing, now time.Time) []byte {
	start := len(b)
	ms := now.UnixMilli()
	b = wire.AppendInt64(b, 0) // base offset: the broker's
	b = wire.AppendInt32(b, 0) // length, below
	b = wire.AppendInt32(b, -1)
	b = append(b, 2)           // format
	b = wire.AppendInt32(b, 0) // checksum, below
	b = wire.AppendInt16(b, 0) // attributes
	b = wire.AppendInt32(b, int32(len(messages)-1))
	b = wire.AppendInt64(b, ms)
	b = wire.AppendInt64(b, ms)
	b = wire.AppendInt64(b, -1) // producer
	b = wire.AppendInt16(b, -1)
	b = wire.AppendInt32(b, -1)
	b = wire.AppendInt32(b, int32(len(messages)))
	var rec []byte
	for i, m := range messages {
		rec = append(rec[:0], 0, 0) // attributes, time
		rec = binary.AppendVarint(rec, int64(i))
		rec = wire.AppendVarBytes(rec, m.Key)
		rec = wire.AppendVarBytes(rec, m.Value)
		rec = binary.AppendVarint(rec, int64(len(m.Headers)))
		for _, h := range m.Headers {
			rec = binary.AppendVarint(rec, int64(len(h.Key)))
			rec = append(rec, h.Key...)
			rec = wire.AppendVarBytes(rec, h.Value)
		}
		b = binary.AppendVarint(b, int64(len(rec)))
		b = append(b, rec...)
	}
	batch := b[start:]
	binary.BigEndian.PutUint32(batch[8:], uint32(len(batch)-12))
	binary.BigEndian.PutUint32(batch[17:], crc32.Checksum(batch[21:], castagnoli))
	return b
}

// Size is about how many bytes a message takes in a batch, never less than it
// does.
func Size(m *brokers.Outgoing) int {
	n := 24 + len(m.Key) + len(m.Value)
	for i := range m.Headers {
		n += 10 + len(m.Headers[i].Key) + len(m.Headers[i].Value)
	}
	return n
}
