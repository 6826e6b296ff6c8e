package records

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/wire"
)

const (
	// blockSize is how much memory one kept message keeps besides itself.
	blockSize = 64 << 10
	// SlabSize is how many deliveries share one allocation.
	SlabSize = 256
	// leastRecord is the size of a record without key, value and headers.
	leastRecord = 7
	// maxNames bounds the memory of header names.
	maxNames = 256
)

// Aborted is a transaction that was aborted: the records of Producer from
// First to its next marker are not to be seen.
type Aborted struct{ Producer, First int64 }

// Decoder reads record sets. Its buffers are used again, so that one decoder
// serves one goroutine at a time.
type Decoder struct {
	// Only, where not nil, picks the offsets that are wanted; the others are
	// passed without being copied.
	Only func(offset int64) bool
	// MaxBytes ends the reading after the batch that reaches it; 0 is no bound.
	MaxBytes int

	inflater inflater
	names    map[string]string // header names seen, so that they are not allocated again
	set      set
}

// NewDecoder makes a decoder that refuses batches larger than maxInflated
// bytes when decompressed.
func NewDecoder(maxInflated int) *Decoder {
	return &Decoder{inflater: inflater{limit: maxInflated}, names: map[string]string{}}
}

// set is the work on one record set.
type set struct {
	from    int64
	slabs   [][]brokers.Delivery
	block   []byte           // the free part of the present block
	headers []brokers.Header // the free part of the present block of headers
	ahead   int              // records that may still come
	bytes   int
}

// Set is what was read.
type Set struct {
	// Slabs hold the deliveries in order, with neither Lane nor Handle.
	Slabs [][]brokers.Delivery
	// Next is the offset after the last batch, whatever was in it: where to
	// read on.
	Next int64
	// Bytes is the sum of [brokers.Delivery.Size].
	Bytes int
}

// Decode reads b, which a broker sent for a fetch from the given offset.
// aborted filters; nil with read_uncommitted.
//
// Errors: a [*CorruptError]; the Set holds what came before it.
func (d *Decoder) Decode(b []byte, from int64, aborted []Aborted) (Set, error) {
	d.set = set{from: from}
	next := from
	aborted = slices.Clone(aborted)
	slices.SortFunc(aborted, func(a, b Aborted) int { return cmp.Compare(a.First, b.First) })
	var dead map[int64]bool // producers inside an aborted transaction
	d.set.ahead = expected(b)
	var fault error
	for len(b) > 0 {
		t, ok, err := cut(b)
		if err != nil {
			fault = err
		}
		if !ok {
			break
		}
		b = b[t.size:]
		for len(aborted) > 0 && aborted[0].First <= t.last {
			if dead == nil {
				dead = map[int64]bool{}
			}
			dead[aborted[0].Producer] = true
			aborted = aborted[1:]
		}
		before, tail := d.set, 0
		if n := len(before.slabs); n > 0 {
			tail = len(before.slabs[n-1])
		}
		if fault = d.batch(t, dead, len(b)); fault != nil {
			// A batch is handed out as a whole or not at all.
			d.set.slabs, d.set.bytes = before.slabs, before.bytes
			if n := len(before.slabs); n > 0 {
				d.set.slabs[n-1] = d.set.slabs[n-1][:tail]
			}
			break
		}
		next = max(next, t.last+1)
		d.set.from = next
		if d.MaxBytes > 0 && d.set.bytes >= d.MaxBytes {
			break
		}
	}
	s := Set{Slabs: d.set.slabs, Next: next, Bytes: d.set.bytes}
	d.set = set{}
	return s, fault
}

// expected adds up the record counts that the batches announce, as far as
// their size can hold them.
func expected(b []byte) (n int) {
	for len(b) >= headerSize {
		size := int64(int32(binary.BigEndian.Uint32(b[8:]))) + 12
		if size < headerSize || size > int64(len(b)) {
			break
		}
		if b[22]&control == 0 {
			n += int(max(0, int32(binary.BigEndian.Uint32(b[57:]))))
		}
		b = b[size:]
	}
	return n
}

func (d *Decoder) batch(t batch, dead map[int64]bool, following int) error {
	if t.attributes&control != 0 {
		return d.marker(t, dead)
	}
	s := &d.set
	defer func(ahead int) { s.ahead = max(0, ahead-t.count) }(s.ahead)
	if t.attributes&transactional != 0 && dead[t.producer] || t.last < s.from || t.count == 0 {
		return nil
	}
	body, err := d.inflater.inflate(t.attributes&codecMask, t.body)
	if err != nil {
		return &CorruptError{t.base, err.Error()}
	}
	if t.count > len(body)/leastRecord {
		return &CorruptError{t.base, fmt.Sprintf("%d records in %d bytes", t.count, len(body))}
	}
	before := t.base - 1
	for i := range t.count {
		length, n := binary.Varint(body)
		if n <= 0 || length < leastRecord-1 || length > int64(len(body)-n) {
			return &CorruptError{t.base, fmt.Sprintf("record %d of %d: length %d", i+1, t.count, length)}
		}
		rec := body[n : n+int(length)]
		body = body[n+int(length):]
		offset, err := d.record(&t, rec, len(body)+following)
		if err != nil {
			return &CorruptError{t.base, fmt.Sprintf("record %d of %d: %v", i+1, t.count, err)}
		}
		if offset <= before || offset > t.last {
			return &CorruptError{t.base, fmt.Sprintf("record %d of %d: offset %d after %d, the last is %d", i+1, t.count, offset, before, t.last)}
		}
		before = offset
		s.ahead--
	}
	return nil
}

// marker ends a transaction.
func (d *Decoder) marker(t batch, dead map[int64]bool) error {
	r := wire.NewReader(t.body)
	r.Varint() // length
	r.Int8()   // attributes
	r.Varint() // time
	r.Varint() // offset
	key := r.VarBytes()
	if t.count > 0 && (r.Bad() || len(key) < 4) {
		return &CorruptError{t.base, "marker without a type"}
	}
	// Types: 0 abort, 1 commit; others concern brokers only.
	if t.count > 0 && key[2] == 0 && key[3] == 0 {
		delete(dead, t.producer)
	}
	return nil
}

// record reads one record into the next delivery. following is how many bytes
// come after it, which sizes the next block.
func (d *Decoder) record(t *batch, rec []byte, following int) (offset int64, err error) {
	r := wire.NewReader(rec[1:]) // attributes are unused
	delta := r.Varint()
	offset = t.base + r.Varint()
	s := &d.set
	if offset < s.from || d.Only != nil && !d.Only(offset) {
		return offset, r.Err()
	}
	kept := s.keep(rec, following)
	r = wire.NewReader(kept[len(rec)-r.Len():])
	key, value := r.VarBytes(), r.VarBytes()
	var headers []brokers.Header
	if n := r.VarCount(2); n > 0 {
		if headers, err = d.headers(&r, n); err != nil {
			return offset, err
		}
	}
	if r.Bad() {
		return offset, r.Err()
	}
	at := t.firstTime + delta
	if t.attributes&logAppendTime != 0 {
		// The broker wrote its clock into the batch, not into the records.
		at = t.maxTime
	}
	to := s.next()
	to.Offset, to.Key, to.Value, to.Headers, to.Time = offset, key, value, headers, time.UnixMilli(at)
	s.bytes += to.Size()
	return offset, nil
}

func (d *Decoder) headers(r *wire.Reader, n int) ([]brokers.Header, error) {
	s := &d.set
	if len(s.headers) < n {
		s.headers = make([]brokers.Header, max(n, min(64, s.ahead*n)))
	}
	hs := s.headers[:n:n]
	s.headers = s.headers[n:]
	for i := range hs {
		name := r.VarBytes()
		hs[i].Key, hs[i].Value = d.name(name), r.VarBytes()
	}
	return hs, r.Err()
}

// name is a header's name as a string, the same one each time.
func (d *Decoder) name(b []byte) string {
	if s, ok := d.names[string(b)]; ok {
		return s
	}
	if len(d.names) >= maxNames || len(b) > blockSize/64 {
		return string(b)
	}
	s := string(b)
	d.names[s] = s
	return s
}

// keep copies a record into a block.
func (s *set) keep(rec []byte, following int) []byte {
	if len(rec) > len(s.block) {
		s.block = make([]byte, max(len(rec), min(blockSize, len(rec)+following)))
	}
	kept := s.block[:len(rec):len(rec)]
	copy(kept, rec)
	s.block = s.block[len(rec):]
	return kept
}

// next is the place for the next delivery.
func (s *set) next() *brokers.Delivery {
	last := len(s.slabs) - 1
	if last < 0 || len(s.slabs[last]) == cap(s.slabs[last]) {
		s.slabs = append(s.slabs, make([]brokers.Delivery, 0, min(SlabSize, max(1, s.ahead))))
		last++
	}
	slab := s.slabs[last]
	s.slabs[last] = slab[:len(slab)+1]
	return &s.slabs[last][len(slab)]
}
