package records

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"hash/crc32"
	"io"
	"testing"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/wire"
)

// built is a batch to be encoded as a broker would keep it.
type built struct {
	base       int64
	last       int64 // 0: the last record's
	attributes uint16
	producer   int64
	first, max int64 // times
	records    []record
	count      int // where not 0: what the header says
}

type record struct {
	offset     int64
	time       int64
	key, value []byte
	headers    []brokers.Header
}

func (x built) encode(t testing.TB) []byte {
	var body []byte
	for _, r := range x.records {
		rec := []byte{0}
		rec = binary.AppendVarint(rec, r.time-x.first)
		rec = binary.AppendVarint(rec, r.offset-x.base)
		rec = wire.AppendVarBytes(rec, r.key)
		rec = wire.AppendVarBytes(rec, r.value)
		rec = binary.AppendVarint(rec, int64(len(r.headers)))
		for _, h := range r.headers {
			rec = wire.AppendVarBytes(rec, []byte(h.Key))
			rec = wire.AppendVarBytes(rec, h.Value)
		}
		body = append(binary.AppendVarint(body, int64(len(rec))), rec...)
	}
	if x.last == 0 && len(x.records) > 0 {
		x.last = x.records[len(x.records)-1].offset
	}
	if x.count == 0 {
		x.count = len(x.records)
	}
	b := wire.AppendInt64(nil, x.base)
	b = wire.AppendInt32(b, 0)
	b = wire.AppendInt32(b, -1)
	b = append(b, 2, 0, 0, 0, 0)
	b = wire.AppendInt16(b, int16(x.attributes))
	b = wire.AppendInt32(b, int32(x.last-x.base))
	b = wire.AppendInt64(b, x.first)
	b = wire.AppendInt64(b, x.max)
	b = wire.AppendInt64(b, x.producer)
	b = wire.AppendInt16(b, 0)
	b = wire.AppendInt32(b, 0)
	b = wire.AppendInt32(b, int32(x.count))
	b = append(b, deflate(t, x.attributes&codecMask, body)...)
	return seal(b)
}

// seal writes length and checksum.
func seal(b []byte) []byte {
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], castagnoli))
	return b
}

func deflate(t testing.TB, codec uint16, body []byte) []byte {
	var out bytes.Buffer
	var w io.WriteCloser
	switch codec {
	case 0:
		return body
	case 1:
		w = gzip.NewWriter(&out)
	case 2:
		return snappy.Encode(nil, body)
	case 3:
		w = lz4.NewWriter(&out)
	case 4:
		z, err := zstd.NewWriter(&out)
		if err != nil {
			t.Fatal(err)
		}
		w = z
	}
	if _, err := w.Write(body); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// marker is a control batch that ends a producer's transaction.
func marker(offset, producer int64, commit bool) built {
	kind := []byte{0, 0, 0, 0}
	if commit {
		kind[3] = 1
	}
	return built{base: offset, producer: producer, attributes: control | transactional, records: []record{{offset: offset, key: kind, value: []byte{0, 0, 0, 0, 0, 0}}}}
}

func plain(offset int64, values ...string) built {
	x := built{base: offset, producer: -1}
	for i, v := range values {
		x.records = append(x.records, record{offset: offset + int64(i), value: []byte(v)})
	}
	return x
}

func join(t testing.TB, xs ...built) (b []byte) {
	for _, x := range xs {
		b = append(b, x.encode(t)...)
	}
	return b
}

func offsets(s Set) (all []int64) {
	for _, ds := range s.Slabs {
		for _, d := range ds {
			all = append(all, d.Offset)
		}
	}
	return all
}
