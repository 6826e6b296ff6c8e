package dedup

import (
	"context"
	"fmt"
)

// Apply is s.Apply with one answer for each operation, or an error: a store
// that miscounts must not have its answers taken for those of other
// operations.
//
// Errors: those of [Store]'s Apply, and one that says how many there were.
func Apply(ctx context.Context, s Applier, ops []Op) ([]Answer, error) {
	answers, err := s.Apply(ctx, ops)
	return counted(answers, err, len(ops), "answers", "operations")
}

// Lookup is s.Lookup with one record for each key, or an error.
//
// Errors: those of [Store]'s Lookup, and one that says how many there were.
func Lookup(ctx context.Context, s interface {
	Lookup(ctx context.Context, keys []Key) ([]Record, error)
}, keys []Key,
) ([]Record, error) {
	records, err := s.Lookup(ctx, keys)
	return counted(records, err, len(keys), "records", "keys")
}

// Letters is s.Letters with one note for each id, or an error.
//
// Errors: those of [Store]'s Letters, and one that says how many there were.
func Letters(ctx context.Context, s interface {
	Letters(ctx context.Context, ids []string) ([]Letter, error)
}, ids []string,
) ([]Letter, error) {
	letters, err := s.Letters(ctx, ids)
	return counted(letters, err, len(ids), "letters", "ids")
}

func counted[T any](got []T, err error, want int, what, asked string) ([]T, error) {
	if err == nil && len(got) != want {
		err = fmt.Errorf("store gave %d %s for %d %s", len(got), what, want, asked)
	}
	if err != nil {
		return nil, err
	}
	return got, nil
}
