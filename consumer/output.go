package consumer

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/onceward/onceward/dedup"
)

// outputID is an id for the n-th message that a handler publishes: 32
// hexadecimal digits, the same in every attempt of one run and after a crash,
// and another in the next run, whose work a person or a replay asked for.
// opened is the fence that opened the run.
//
// Each part is written with its length, so that no two keys share an id.
func outputID(key dedup.Key, opened uint64, n int) string {
	text := make([]byte, 0, 256)
	for _, part := range [...]string{"onceward output 1", key.Consumer, key.Scope, key.ID} {
		text = binary.AppendUvarint(text, uint64(len(part)))
		text = append(text, part...)
	}
	text = binary.AppendUvarint(text, opened)
	text = binary.AppendVarint(text, int64(n))
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}
