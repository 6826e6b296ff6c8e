// Package digest makes ids of several parts, for messages that outlive the
// release that made them: their form never changes.
package digest

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// Parts are what an id is made of. Each is written so that its end can be told,
// a text with its length: no two sequences of parts are the same bytes where
// the kind says which part is of which type.
type Parts []byte

// Of begins an id. The kind keeps ids of different kinds apart.
func Of(kind string) Parts { return make(Parts, 0, 256).Text(kind) }

// Text adds a text of any bytes.
func (p Parts) Text(s string) Parts { return append(p.Number(uint64(len(s))), s...) }

// Number adds a number.
func (p Parts) Number(n uint64) Parts { return binary.AppendUvarint(p, n) }

// Signed adds a number that may be negative.
func (p Parts) Signed(n int64) Parts { return binary.AppendVarint(p, n) }

// ID is the id: 32 hexadecimal digits.
func (p Parts) ID() string {
	sum := sha256.Sum256(p)
	return hex.EncodeToString(sum[:16])
}
