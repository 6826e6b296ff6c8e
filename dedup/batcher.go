package dedup

import (
	"context"
	"slices"
	"sync"
)

// MaxBatch is the default of [Batcher]: operations in one call of the store.
// With more, a commit's fixed cost is spread thin enough already, and the
// callers that came first wait for the last.
const MaxBatch = 1000

// Batcher is a Store that turns the calls of many goroutines into few calls of
// another. It adds no delay: while one batch commits the next one gathers, and
// a call that finds nothing under way is committed at once.
//
// Apply, CanEnlist and Close differ from the store's own; everything else goes
// straight to it. All methods may be called concurrently.
type Batcher struct {
	Store
	limit int
	wg    sync.WaitGroup // the goroutine that commits; there is one while calls wait

	mu      sync.Mutex
	closed  bool
	running bool
	waiting []*call
	ops     []Op // room of the batch under way, used again; run's own while running
}

// call is one Apply that waits.
type call struct {
	ops     []Op
	under   *commit // that took it; nil while it waits in line
	answers []Answer
	err     error
	done    chan struct{}
}

// commit is one call of the store.
type commit struct {
	calls  []*call
	live   int // callers that still wait
	cancel context.CancelFunc
}

// NewBatcher wraps s. Batches have at most limit operations, 0 for [MaxBatch];
// one call with more of them is handed on whole, by itself. It starts nothing.
func NewBatcher(s Store, limit int) *Batcher {
	if limit <= 0 {
		limit = MaxBatch
	}
	return &Batcher{Store: s, limit: limit}
}

// Apply is [Store.Apply], in one commit with the calls of others. The order of
// operations within a call is kept and so is that of calls that wait.
//
// It blocks for at most one commit under way and its own, or until ctx ends.
// Then it returns ctx.Err(); its operations were dropped if they still waited
// and may take effect otherwise. Nobody else in the batch is affected: the
// commit itself is given up only when every one of its callers has gone.
//
// Errors: those of the store, the same for all calls in a batch.
func (b *Batcher) Apply(ctx context.Context, ops []Op) ([]Answer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(ops) == 0 {
		return nil, nil
	}
	c := &call{ops: ops, done: make(chan struct{})}
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil, ErrClosed
	}
	b.waiting = append(b.waiting, c)
	if !b.running {
		b.running = true
		b.wg.Go(b.run)
	}
	b.mu.Unlock()
	select {
	case <-c.done:
		return c.answers, c.err
	case <-ctx.Done():
		b.leave(c)
		return nil, ctx.Err()
	}
}

// leave forgets a call whose caller has gone. After it nobody reads c.ops.
func (b *Batcher) leave(c *call) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.under == nil {
		b.waiting = slices.DeleteFunc(b.waiting, func(w *call) bool { return w == c })
		return
	}
	if c.under.live--; c.under.live == 0 {
		c.under.cancel()
	}
}

// run commits until nobody waits.
func (b *Batcher) run() {
	for {
		ctx, commit := b.take()
		if commit == nil {
			return
		}
		answers, err := Apply(ctx, b.Store, b.ops)
		commit.cancel()
		for _, c := range commit.calls {
			if err != nil {
				c.err = err
			} else {
				n := len(c.ops)
				c.answers, answers = answers[:n:n], answers[n:]
			}
			close(c.done)
		}
		clear(b.ops) // keeps no caller's bytes alive
	}
}

// take makes a commit of what waits: b.ops. The operations are copied because
// a caller may leave, and use its slice again, while the store reads them. The
// commit is nobody's own, so its context carries no caller's values or end.
func (b *Batcher) take() (context.Context, *commit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ops = b.ops[:0]
	if len(b.waiting) == 0 {
		b.running = false
		if cap(b.ops) > b.limit {
			b.ops = nil // one outsized call must not hold its room for ever
		}
		return nil, nil
	}
	n := 0
	for n < len(b.waiting) && (n == 0 || len(b.ops)+len(b.waiting[n].ops) <= b.limit) {
		b.ops = append(b.ops, b.waiting[n].ops...)
		n++
	}
	commit := &commit{calls: slices.Clone(b.waiting[:n]), live: n}
	for _, c := range commit.calls {
		c.under = commit
	}
	b.waiting = slices.Delete(b.waiting, 0, n)
	ctx, cancel := context.WithCancel(context.Background())
	commit.cancel = cancel
	return ctx, commit
}

// CanEnlist is the store's own answer; no where it takes no work at all.
func (b *Batcher) CanEnlist(work any) bool {
	e, ok := b.Store.(Enlister)
	return ok && e.CanEnlist(work)
}

// Confirm is the store's own; nothing where its age is never in doubt.
func (b *Batcher) Confirm(sequence uint64) error {
	if c, ok := b.Store.(Confirmer); ok {
		return c.Confirm(sequence)
	}
	return nil
}

// Close waits for the calls under way and closes the store. Later calls are
// answered [ErrClosed].
func (b *Batcher) Close() error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.wg.Wait()
	return b.Store.Close()
}
