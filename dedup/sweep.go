package dedup

import (
	"context"
	"time"
)

const (
	// sweepStep is how many records one step of a sweep ends at most: a few
	// milliseconds of a store's time.
	sweepStep = 1000
	// sweepEvery is KeepSwept's own interval: the cost follows what expires, so
	// that a shorter one costs next to nothing, and a longer one gains nothing.
	sweepEvery = time.Minute
)

// SweepOp is the operation with which a store asks [Step] whether r, which it has
// found to be over, goes.
func SweepOp(r *Record) Op { return Op{Kind: Sweep, Key: r.Key, Operator: &OperatorOp{Seen: r.Seen()}} }

// KeepSwept ends what is over, every so often, until ctx ends: for programs
// that use a [Guard] without a consumer, which sweeps by itself. Without it
// results are kept for ever. A minute or an hour are good intervals; 0 or less
// is a minute.
//
// It goes in steps as [SweepDue] does. It blocks; run it in a goroutine.
//
// Errors: ctx.Err(); [ErrClosed]; [*DamagedError]. After any other it tries
// again when the next turn comes.
func KeepSwept(ctx context.Context, s Store, every time.Duration) error {
	if every <= 0 {
		every = sweepEvery
	}
	for sleep(ctx, nil, every) {
		if err := SweepDue(ctx, s); IsUnusable(err) {
			return err
		}
	}
	return ctx.Err()
}

// SweepDue ends all that is over now, in steps of some thousand records. It
// rests between two steps for as long as one took, so that the traffic has the
// store at least half of the time. It blocks until nothing is due.
//
// Errors: ctx.Err(); those of [Store.Sweep].
func SweepDue(ctx context.Context, s Store) error {
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
