package boltstore

import (
	"encoding/binary"

	"github.com/onceward/onceward/dedup"
)

// letterVersion 2 has the answer, 3 whether it was sent though expired; those
// before are read without.
const letterVersion = 3

func letterRow(l *dedup.Letter) []byte {
	b := append(make([]byte, 0, 256), letterVersion, byte(l.State))
	b = appendString(b, l.Key.Consumer)
	b = appendString(b, l.Key.Scope)
	b = appendString(b, l.Key.ID)
	b = appendString(b, l.Reason)
	b = binary.AppendUvarint(b, uint64(l.Run))
	b = binary.AppendUvarint(b, l.Opened)
	b = appendString(b, l.Source.Source)
	b = appendSigned(b, int64(l.Source.Partition))
	b = appendSigned(b, l.Source.Offset)
	b = appendDate(b, l.Time)
	b = appendDate(b, l.Noted)
	b = appendDate(b, l.Moved)
	b = appendString(b, l.Token)
	b = appendString(b, l.Job)
	b = appendString(b, l.Who)
	b = appendString(b, l.Why)
	b = appendBool(append(b, byte(l.Answer)), l.Expired)
	return seal(b, 0, tableLetters, []byte(l.ID))
}

func parseLetter(key, row []byte) (l dedup.Letter, sum uint32, err error) {
	body, sum, err := unseal(row, tableLetters, key)
	if err != nil {
		return l, 0, err
	}
	r := reader{b: body}
	version := r.byte()
	if version < 1 || version > letterVersion {
		return l, 0, errRow
	}
	l.ID, l.State = string(key), dedup.LetterState(r.byte())
	l.Key = dedup.Key{Consumer: r.string(), Scope: r.string(), ID: r.string()}
	l.Reason, l.Run, l.Opened = r.string(), r.uint32(), r.uvarint()
	l.Source.Source, l.Source.Partition, l.Source.Offset = r.string(), int32(r.varint()), r.varint()
	l.Time, l.Noted, l.Moved = r.date(), r.date(), r.date()
	l.Token, l.Job, l.Who, l.Why = r.string(), r.string(), r.string(), r.string()
	if version > 1 {
		l.Answer = dedup.State(r.byte())
	}
	if version > 2 {
		l.Expired = r.byte() != 0
	}
	if !r.ok() {
		return l, 0, errRow
	}
	return l, sum, nil
}

// letterKey is the key of a row of letterkeys.
func letterKey(h hash, id string) []byte {
	b := make([]byte, 0, 16+len(id))
	b = binary.BigEndian.AppendUint64(b, h[0])
	b = binary.BigEndian.AppendUint64(b, h[1])
	return append(b, id...)
}

// lane is one partition of one life of a source, as one consumer reads it.
type lane struct {
	consumer, source string
	partition        int32
}

func laneOf(consumer string, p dedup.Position) lane {
	return lane{consumer: consumer, source: p.Source, partition: p.Partition}
}

func (l lane) key() []byte {
	b := appendString(make([]byte, 0, 8+len(l.consumer)+len(l.source)), l.consumer)
	b = appendString(b, l.source)
	return binary.BigEndian.AppendUint32(b, uint32(l.partition))
}

func parseLane(key []byte) (lane, error) {
	r := reader{b: key}
	l := lane{consumer: r.string(), source: r.string()}
	p := r.take(4)
	if p == nil || !r.ok() {
		return lane{}, errRow
	}
	l.partition = int32(binary.BigEndian.Uint32(p))
	return l, nil
}

func prefixRow(key []byte, offset int64) []byte {
	return seal(binary.LittleEndian.AppendUint64(nil, uint64(offset)), 0, tablePrefixes, key)
}

func parsePrefix(key, row []byte) (offset int64, sum uint32, err error) {
	body, sum, err := unseal(row, tablePrefixes, key)
	if err != nil || len(body) != 8 {
		return 0, 0, errRow
	}
	return int64(binary.LittleEndian.Uint64(body)), sum, nil
}
