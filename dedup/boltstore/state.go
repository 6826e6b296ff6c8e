package boltstore

import (
	"encoding/binary"
	"encoding/hex"
)

// The tables of the file, each a bucket inside the bucket "onceward". All else
// at the top of the file is the user's.
//
//	dictionary  number → word
//	letterkeys  hash of a key, dl-id → whether the letter is open, sent or held
//	letters     dl-id → letter
//	log         segment → bucket of number → entry
//	prefixes    consumer, source, partition → offset
//	segments    segment → what is known of it
//	state       "state" → state
//	tokens      replay token → dl-id
var (
	bucketTop        = []byte("onceward")
	bucketDictionary = []byte("dictionary")
	bucketLetterKeys = []byte("letterkeys")
	bucketLetters    = []byte("letters")
	bucketLog        = []byte("log")
	bucketPrefixes   = []byte("prefixes")
	bucketSegments   = []byte("segments")
	bucketState      = []byte("state")
	bucketTokens     = []byte("tokens")

	allBuckets = [][]byte{
		bucketDictionary, bucketLetterKeys, bucketLetters, bucketLog, bucketPrefixes, bucketSegments, bucketState, bucketTokens,
	}
	keyState = []byte("state")
)

// Numbers that bind rows to their table; on disk: never renumber.
const (
	tableSegments byte = iota + 1
	tableDictionary
	tableState
	tableLetters
	tableLetterKeys
	tablePrefixes
	tableTokens
)

// state is one row that every commit writes. It proves the rest of the file:
// how many rows each table has and the sum of their checksums.
type state struct {
	format  uint32
	id      [16]byte // names the file's data
	secret  secret
	commits uint64 // rises with every commit
	seq     uint64 // of the next entry, from 1
	clock   int64  // largest time seen, in ns
	records uint64 // keys that have one
	segment uint32 // number of the next segment
	tables  [7]tally
}

type tally struct{ rows, sum uint64 }

const (
	formatVersion = 1
	stateRowSize  = len(stateMagic) + 4 + 16 + 16 + 8 + 8 + 8 + 8 + 4 + 7*16

	// stateMagic is how a file is known for ours when its root is damaged.
	stateMagic = "onceward.boltstore/state"
)

func (s *state) tally(table byte) *tally { return &s.tables[table-1] }

func (t *tally) put(sum uint32) { t.rows++; t.sum += spread(sum) }
func (t *tally) cut(sum uint32) { t.rows--; t.sum -= spread(sum) }

func (s *state) row() []byte {
	b := append(make([]byte, 0, stateRowSize+sumSize), stateMagic...)
	b = binary.LittleEndian.AppendUint32(b, s.format)
	b = append(b, s.id[:]...)
	b = append(b, s.secret[:]...)
	b = binary.LittleEndian.AppendUint64(b, s.commits)
	b = binary.LittleEndian.AppendUint64(b, s.seq)
	b = binary.LittleEndian.AppendUint64(b, uint64(s.clock))
	b = binary.LittleEndian.AppendUint64(b, s.records)
	b = binary.LittleEndian.AppendUint32(b, s.segment)
	for _, t := range s.tables {
		b = binary.LittleEndian.AppendUint64(b, t.rows)
		b = binary.LittleEndian.AppendUint64(b, t.sum)
	}
	return seal(b, 0, tableState, keyState)
}

func parseState(row []byte) (s state, err error) {
	body, _, err := unseal(row, tableState, keyState)
	if err != nil {
		return s, err
	}
	r := reader{b: body}
	if string(r.take(uint64(len(stateMagic)))) != stateMagic {
		return s, errRow
	}
	s.format = r.uint32fixed()
	copy(s.id[:], r.take(16))
	copy(s.secret[:], r.take(16))
	s.commits, s.seq, s.clock = r.uint64fixed(), r.uint64fixed(), int64(r.uint64fixed())
	s.records, s.segment = r.uint64fixed(), r.uint32fixed()
	for i := range s.tables {
		s.tables[i] = tally{r.uint64fixed(), r.uint64fixed()}
	}
	if !r.ok() {
		return s, errRow
	}
	return s, nil
}

func (s *state) name() string { return hex.EncodeToString(s.id[:]) }
