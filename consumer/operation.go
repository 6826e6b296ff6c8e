package consumer

import (
	"context"

	"github.com/onceward/onceward/dedup"
)

// Operation is what a handler can know of its own attempt.
type Operation struct {
	Key dedup.Key
	// Run counts from 1 and rises when an operator or a replay reopens the
	// operation.
	Run uint32
	// Failures counted so far in this run; 0 at the first attempt.
	Failures uint32
	// Fence is larger than any given before for this key: hand it to a system
	// that can refuse writes by an older one.
	Fence uint64
	// Topic, Partition and Offset of the message.
	Topic     string
	Partition int32
	Offset    int64

	// opened names the run: what OutputID digests.
	opened uint64
}

// Info returns what is known of the operation whose handler ctx belongs to; the
// zero Operation outside of a handler.
func Info(ctx context.Context) Operation {
	if o, ok := ctx.Value(operationKey{}).(*Operation); ok {
		return *o
	}
	return Operation{}
}

// OutputID is an id for the n-th message that the handler publishes, the same
// in every attempt of this run, so that whoever reads it can drop repeats.
//
// A run that a replay or an operator opens has others, as has one after the
// record is forgotten: what it publishes is new on purpose. As an idempotency key
// it does not keep such a run from an effect that has happened already: where
// nobody may ever do it twice, such as a charge that was in doubt, use Key.ID.
func (o Operation) OutputID(n int) string { return outputID(o.Key, o.opened, n) }

type operationKey struct{}
