package dedup

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// Store keeps records, letters' notes and acknowledged prefixes. It is
// batch-first: durability is paid per call, so callers hand over slices; see
// [Batcher] for turning many callers into slices.
//
// All methods may be called concurrently.
type Store interface {
	// Apply does each operation, in order, and returns one answer for each in
	// the same order. What an operation sees includes those before it in the
	// slice: of two claims for one key the second is busy. All answers are
	// durable when Apply returns nil, to the degree that the store documents.
	// One bad item ([Answer.Err]) never affects the others.
	//
	// Apply blocks for about one commit. It keeps nothing of ops afterwards and
	// may not be handed the slice again before it returned.
	//
	// Errors: [ErrClosed]; [*DamagedError]; ctx.Err() or an error of the
	// medium, after which any operation may or may not have taken effect: do
	// all of them again, claims with the same tokens. A repeated End that took
	// effect before is answered Fenced with a Record that bears the caller's
	// own token and fence.
	Apply(ctx context.Context, ops []Op) ([]Answer, error)

	// Lookup returns one record for each key, in the same order; State is Absent
	// where there is none. It may show what a commit under way has not yet made
	// durable.
	//
	// Errors, of all that reads: [ErrClosed]; [*DamagedError]; ctx.Err() or an
	// error of the medium. Who asks tries again. Those of a scan are yielded
	// once, last.
	Lookup(ctx context.Context, keys []Key) ([]Record, error)
	// Letters returns one note for each dl-id, in the same order; State is
	// LetterNone where there is none.
	Letters(ctx context.Context, ids []string) ([]Letter, error)
	// Scan goes through all records of a consumer ("" for all), in no
	// particular order, as of some moment during the call. It does not hold up
	// writers. The caller may stop early.
	Scan(ctx context.Context, consumer string) iter.Seq2[Record, error]
	// ScanLetters goes through all notes of a consumer likewise.
	ScanLetters(ctx context.Context, consumer string) iter.Seq2[Letter, error]
	// Prefixes reads what Advance wrote, for a consumer.
	Prefixes(ctx context.Context, consumer string) ([]Position, error)

	// Sweep removes or archives finished records whose window is over, in one
	// short step of at most about limit records, and says how many it ended and
	// whether more are due. The notes of a record's letters, all finished then,
	// go with it, unless a tombstone stays. The cost follows what expires, not
	// what is kept. It blocks for about one commit.
	//
	// Errors: as Apply. What a step has ended stays ended; the next goes on.
	Sweep(ctx context.Context, limit int) (Swept, error)

	// Info says what kind of store it is and how full.
	Info() Info

	// Close waits for calls under way and releases the medium. It is
	// idempotent; calls that begin later answer [ErrClosed].
	//
	// Errors: one of the medium; what was answered before is durable all the
	// same.
	Close() error
}

// Swept is what one step of the sweeper did.
type Swept struct {
	Records int
	More    bool
}

// Info describes a store.
type Info struct {
	// Kind for logs, such as "boltstore billing.db".
	Kind string
	// Local says that the store covers one process only.
	Local bool
	// ID names this store's data: made with it, never changed.
	ID string
	// Sequence rises with every write; a copy restored from yesterday has
	// yesterday's.
	Sequence uint64
	// Records held, as far as known without counting.
	Records int64
	// Full is the used share of the store's bound (memory or disk), 0 where
	// unbounded; at 1 it takes no new keys.
	Full float64
	// Adopt says that whoever opened the store takes its consumers over from
	// another store, or from a newer copy of this one, on purpose.
	Adopt bool
	// Unconfirmed says that the store may be older than what its owner wrote
	// last, and refuses every Apply until [Confirmer] has compared sequences.
	Unconfirmed bool
}

// Confirmer is a local store whose age can be in doubt. The runner calls
// Confirm before the first Apply with the sequence kept at the broker, 0 when
// there is none.
//
// Errors: a [*DamagedError] when the store is behind: it says what may be lost
// and how to go on.
type Confirmer interface {
	// Confirm compares the sequence kept elsewhere with the store's own and,
	// where the store is not behind, lets it take writes.
	Confirm(sequence uint64) error
}

// Enlister is a store that can write rows of the user's own in the commit that
// completes a record. CanEnlist says whether it understands work of this type.
type Enlister interface {
	// CanEnlist says whether the store understands work of this type.
	CanEnlist(work any) bool
}

// Errors of a [Store].
var (
	ErrClosed = errors.New("store is closed")
	// ErrFull, in [Answer.Err]: no new keys are taken, everything else goes on.
	ErrFull = errors.New("store is full")
	// ErrInvalidOp, in [Answer.Err]: a fault of one item, which names it.
	ErrInvalidOp = errors.New("invalid operation")
)

// DamagedError says that the store's data cannot be trusted.
type DamagedError struct {
	Where string // file and place
	What  string // what is wrong
	Lost  string // what may be lost
	Mend  string // how to go on
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("%s: %s; may be lost: %s; to go on: %s", e.Where, e.What, e.Lost, e.Mend)
}

// IsUnusable says that the store which gave err does nothing more until it is
// opened again: it is closed, or damaged. After any other error it may be asked
// again.
func IsUnusable(err error) bool {
	return errors.Is(err, ErrClosed) || errors.As(err, new(*DamagedError))
}
