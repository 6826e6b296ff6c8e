package consumer

import (
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/internal/digest"
)

// outputID is an id for the n-th message that a handler publishes: 32
// hexadecimal digits, the same in every attempt of one run and after a crash,
// and another in the next run, whose work a person or a replay asked for.
// opened is the fence that opened the run.
func outputID(key dedup.Key, opened uint64, n int) string {
	return digest.Of("onceward output 1").Text(key.Consumer).Text(key.Scope).Text(key.ID).Number(opened).Signed(int64(n)).ID()
}
