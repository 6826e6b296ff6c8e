package dedup

import (
	"context"
	"errors"
	"time"
)

// sweepStep is how many records one step of KeepSwept ends at most: a few
// milliseconds of a store's time.
const sweepStep = 1000

// KeepSwept ends what is over, every so often, until ctx ends: for programs
// that use a [Guard] without a consumer, which sweeps by itself. Without it
// results are kept for ever. A minute or an hour are good intervals.
//
// It goes in steps of some thousand records and rests between two steps for as
// long as one took, so that the traffic has the store at least half of the
// time. It blocks; run it in a goroutine.
//
// Errors: ctx.Err(); [ErrClosed]; [*DamagedError]. After any other it tries
// again when the next turn comes.
func KeepSwept(ctx context.Context, s Store, every time.Duration) error {
	for sleep(ctx, nil, every) {
		if err := sweepAll(ctx, s); err != nil {
			var damaged *DamagedError
			if errors.Is(err, ErrClosed) || errors.As(err, &damaged) {
				return err
			}
		}
	}
	return ctx.Err()
}

func sweepAll(ctx context.Context, s Store) error {
	for {
		began := time.Now()
		swept, err := s.Sweep(ctx, sweepStep)
		if err != nil || !swept.More {
			return err
		}
		if !sleep(ctx, nil, time.Since(began)) {
			return ctx.Err()
		}
	}
}
