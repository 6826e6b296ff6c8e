package boltstore

import (
	"encoding/binary"
	"hash/crc32"
	"time"

	"github.com/onceward/onceward/dedup"
)

// entry is what is appended to the log: a whole record as an operation left
// it, or that the record is gone. The newest entry of a key counts.
//
//	version (1 byte) · kind (1 byte) · sequence, as more than the segment's
//	first · place of the entry that it replaces (0, or 1 + segments back, and
//	number) · route · id · the record · CRC-32C over place and all of this
type entry struct {
	kind  entryKind
	seq   uint64
	prev  place
	route uint32 // in the dictionary; 0: consumer and scope follow in full
	// consumer and scope where route is 0. They and id point into the row.
	consumer, scope []byte
	id              []byte
	body            []byte
}

type entryKind byte

const (
	entryRecord entryKind = 1
	entryGone   entryKind = 2

	entryVersion = 1
)

// entrySum binds an entry to its place, so that one found anywhere else is not
// taken for good.
func entrySum(at place, row []byte) uint32 {
	// The place's eight bytes by hand: as a slice they would be on the heap.
	sum := ^uint32(0)
	for range 8 {
		sum = castagnoli[byte(sum)^byte(at)] ^ sum>>8
		at >>= 8
	}
	return crc32.Update(^sum, castagnoli, row)
}

// appendEntry writes an entry's head; the record and seal follow.
func appendEntry(b []byte, kind entryKind, g *segment, seq uint64, prev place, route uint32, key *dedup.Key) []byte {
	b = append(b, entryVersion, byte(kind))
	b = binary.AppendUvarint(b, seq-g.seq)
	if prev == 0 {
		b = append(b, 0)
	} else {
		b = binary.AppendUvarint(b, uint64(g.no-prev.segment())+1)
		b = binary.AppendUvarint(b, uint64(prev.n()))
	}
	b = binary.AppendUvarint(b, uint64(route))
	if route == 0 {
		b = appendString(b, key.Consumer)
		b = appendString(b, key.Scope)
	}
	return appendString(b, key.ID)
}

func sealEntry(b []byte, start int, at place) []byte {
	return binary.LittleEndian.AppendUint32(b, entrySum(at, b[start:]))
}

// parse checks the row found at a place and reads its head.
func parse(row []byte, g *segment, at place) (e entry, sum uint32, err error) {
	if len(row) < sumSize {
		return e, 0, errRow
	}
	body := row[:len(row)-sumSize]
	sum = binary.LittleEndian.Uint32(row[len(body):])
	if sum != entrySum(at, body) {
		return e, sum, errRow
	}
	r := reader{b: body}
	if r.byte() != entryVersion {
		return e, sum, errRow
	}
	e.kind = entryKind(r.byte())
	e.seq = g.seq + r.uvarint()
	if back := r.uvarint(); back > uint64(g.no) {
		return e, sum, errRow
	} else if back > 0 {
		e.prev = placeOf(g.no-uint32(back-1), r.uint32())
	}
	e.route = r.uint32()
	if e.route == 0 {
		e.consumer, e.scope = r.bytes(), r.bytes()
	}
	e.id = r.bytes()
	e.body = r.b
	if r.bad || e.kind != entryRecord && e.kind != entryGone || e.kind == entryGone && len(e.body) > 0 {
		return e, sum, errRow
	}
	return e, sum, nil
}

// What of a record is present, bit by bit; on disk: never renumber.
const (
	hasLive = 1 << iota
	hasAlone
	hasOwed
	hasDigest
	hasSent
	hasArchive
	hasToken
	hasPrint
	hasLease
	hasNotBefore
	hasCounts
	hasFailed
	hasReason
	hasResult
	hasIntents
	hasSource
	hasJob
	hasEvidence
	hasOutcome
	hasFinished
)

func present(r *dedup.Record) (has uint64) {
	set := func(is bool, bit uint64) {
		if is {
			has |= bit
		}
	}
	set(r.Live, hasLive)
	set(r.Alone, hasAlone)
	set(r.Owed, hasOwed)
	set(r.Digest, hasDigest)
	set(r.Sent, hasSent)
	set(r.Archive, hasArchive)
	set(r.Token != dedup.Token{}, hasToken)
	set(r.Fingerprint != dedup.Fingerprint{}, hasPrint)
	set(!r.LeaseUntil.IsZero(), hasLease)
	set(!r.NotBefore.IsZero(), hasNotBefore)
	set(r.Failures|r.Crashes|r.Lone != 0, hasCounts)
	set(!r.FirstFailed.IsZero() || !r.LastFailed.IsZero(), hasFailed)
	set(r.Reason != "" || r.Error != "" || r.ErrorType != "" || r.Stack != "", hasReason)
	set(len(r.Result) > 0, hasResult)
	set(len(r.Intents) > 0, hasIntents)
	set(r.Source != dedup.Position{}, hasSource)
	set(r.Job != "" || r.Letter != "" || r.Approver != "" || r.Why != "", hasJob)
	set(len(r.Evidence) > 0, hasEvidence)
	set(r.Outcome != 0, hasOutcome)
	set(!r.Finished.IsZero(), hasFinished)
	return has
}

// appendRecord writes all of r but its key. source and window are its places
// in the dictionary, 0 where they follow in full.
func appendRecord(b []byte, r *dedup.Record, base int64, source, window uint32) []byte {
	has := present(r)
	b = append(b, byte(r.State))
	b = binary.AppendUvarint(b, has)
	b = binary.AppendUvarint(b, r.Fence)
	b = binary.AppendUvarint(b, r.Fence-r.Opened)
	b = binary.AppendUvarint(b, uint64(r.Run))
	b = binary.AppendUvarint(b, uint64(window))
	if window == 0 {
		b = appendSigned(b, int64(r.Window))
	}
	b = appendTime(b, r.Created, base)
	if !r.Created.IsZero() {
		base = r.Created.UnixNano()
	}
	b = appendTime(b, r.Claimed, base)
	if !r.Claimed.IsZero() {
		base = r.Claimed.UnixNano()
	}
	if has&hasToken != 0 {
		b = append(b, r.Token[:]...)
	}
	if has&hasPrint != 0 {
		b = binary.AppendUvarint(b, uint64(r.Fingerprint.Rule))
		b = append(b, r.Fingerprint.Sum[:]...)
	}
	if has&hasLease != 0 {
		b = appendTime(b, r.LeaseUntil, base)
	}
	if has&hasFinished != 0 {
		b = appendTime(b, r.Finished, base)
	}
	if has&hasNotBefore != 0 {
		b = appendDate(b, r.NotBefore)
	}
	if has&hasSource != 0 {
		b = binary.AppendUvarint(b, uint64(source))
		if source == 0 {
			b = appendString(b, r.Source.Source)
		}
		b = appendSigned(b, int64(r.Source.Partition))
		b = appendSigned(b, r.Source.Offset)
	}
	return appendRare(b, r, has, base)
}

func appendRare(b []byte, r *dedup.Record, has uint64, base int64) []byte {
	if has&hasCounts != 0 {
		b = binary.AppendUvarint(b, uint64(r.Failures))
		b = binary.AppendUvarint(b, uint64(r.Crashes))
		b = binary.AppendUvarint(b, uint64(r.Lone))
	}
	if has&hasFailed != 0 {
		b = appendTime(b, r.FirstFailed, base)
		b = appendTime(b, r.LastFailed, base)
	}
	if has&hasReason != 0 {
		b = appendString(b, r.Reason)
		b = appendString(b, r.Error)
		b = appendString(b, r.ErrorType)
		b = appendString(b, r.Stack)
	}
	if has&hasResult != 0 {
		b = appendString(b, r.Result)
	}
	if has&hasIntents != 0 {
		b = binary.AppendUvarint(b, uint64(len(r.Intents)))
		for i := range r.Intents {
			b = appendIntent(b, &r.Intents[i], base)
		}
	}
	if has&hasJob != 0 {
		b = appendString(b, r.Job)
		b = appendString(b, r.Letter)
		b = appendString(b, r.Approver)
		b = appendString(b, r.Why)
	}
	if has&hasEvidence != 0 {
		b = binary.AppendUvarint(b, uint64(len(r.Evidence)))
		for _, e := range r.Evidence {
			b = appendTime(b, e.At, base)
			b = append(b, byte(e.Kind), byte(e.Outcome))
			b = binary.AppendUvarint(b, e.Fence)
			b = appendString(b, e.Note)
		}
	}
	if has&hasOutcome != 0 {
		b = append(b, byte(r.Outcome))
	}
	return b
}

func appendIntent(b []byte, i *dedup.Intent, base int64) []byte {
	b = appendString(b, i.Effect)
	b = appendBool(append(b, byte(i.Status)), i.Blind)
	b = binary.AppendUvarint(b, uint64(i.EffectRun))
	b = appendTime(b, i.Dispatched, base)
	b = appendSigned(b, int64(i.QuietFor))
	b = appendString(b, i.External)
	return appendString(b, i.Outcome)
}

// record reads an entry's record into rec, all but Key and Live as of now.
func (e *entry) record(rec *dedup.Record, base int64, d *dictionary) error {
	r := reader{b: e.body}
	rec.State = dedup.State(r.byte())
	has := r.uvarint()
	rec.Live, rec.Alone, rec.Owed = has&hasLive != 0, has&hasAlone != 0, has&hasOwed != 0
	rec.Digest, rec.Sent, rec.Archive = has&hasDigest != 0, has&hasSent != 0, has&hasArchive != 0
	rec.Fence = r.uvarint()
	rec.Opened = rec.Fence - r.uvarint()
	rec.Run = r.uint32()
	if window := r.uint32(); window != 0 {
		rec.Window = d.window(window, &r)
	} else {
		rec.Window = time.Duration(r.varint())
	}
	if rec.Created = r.time(base); !rec.Created.IsZero() {
		base = rec.Created.UnixNano()
	}
	if rec.Claimed = r.time(base); !rec.Claimed.IsZero() {
		base = rec.Claimed.UnixNano()
	}
	if has&hasToken != 0 {
		copy(rec.Token[:], r.take(uint64(len(rec.Token))))
	}
	if has&hasPrint != 0 {
		rec.Fingerprint.Rule = r.uint32()
		copy(rec.Fingerprint.Sum[:], r.take(uint64(len(rec.Fingerprint.Sum))))
	}
	if has&hasLease != 0 {
		rec.LeaseUntil = r.time(base)
	}
	if has&hasFinished != 0 {
		rec.Finished = r.time(base)
	}
	if has&hasNotBefore != 0 {
		rec.NotBefore = r.date()
	}
	if has&hasSource != 0 {
		if source := r.uint32(); source != 0 {
			rec.Source.Source = d.source(source, &r)
		} else {
			rec.Source.Source = r.string()
		}
		rec.Source.Partition = int32(r.varint())
		rec.Source.Offset = r.varint()
	}
	rare(rec, &r, has, base)
	if !r.ok() {
		return errRow
	}
	return nil
}

func rare(rec *dedup.Record, r *reader, has uint64, base int64) {
	if has&hasCounts != 0 {
		rec.Failures, rec.Crashes, rec.Lone = r.uint32(), r.uint32(), r.uint32()
	}
	if has&hasFailed != 0 {
		rec.FirstFailed, rec.LastFailed = r.time(base), r.time(base)
	}
	if has&hasReason != 0 {
		rec.Reason, rec.Error, rec.ErrorType, rec.Stack = r.string(), r.string(), r.string(), r.string()
	}
	if has&hasResult != 0 {
		rec.Result = r.copied()
	}
	if has&hasIntents != 0 {
		for n := r.count(); n > 0 && !r.bad; n-- {
			rec.Intents = append(rec.Intents, intent(r, base))
		}
	}
	if has&hasJob != 0 {
		rec.Job, rec.Letter, rec.Approver, rec.Why = r.string(), r.string(), r.string(), r.string()
	}
	if has&hasEvidence != 0 {
		for n := r.count(); n > 0 && !r.bad; n-- {
			e := dedup.Evidence{At: r.time(base), Kind: dedup.Kind(r.byte()), Outcome: dedup.Outcome(r.byte())}
			e.Fence, e.Note = r.uvarint(), r.string()
			rec.Evidence = append(rec.Evidence, e)
		}
	}
	if has&hasOutcome != 0 {
		rec.Outcome = dedup.State(r.byte())
	}
}

func intent(r *reader, base int64) dedup.Intent {
	i := dedup.Intent{Effect: r.string(), Status: dedup.IntentStatus(r.byte()), Blind: r.byte() != 0}
	i.EffectRun, i.Dispatched = r.uint32(), r.time(base)
	i.QuietFor, i.External, i.Outcome = time.Duration(r.varint()), r.string(), r.copied()
	return i
}
