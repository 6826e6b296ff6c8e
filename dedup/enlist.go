package dedup

import (
	"context"
	"errors"
	"sync"
)

// ErrNotEnlisted says that the context is not one of a claim whose store can
// take the work into its commit.
var ErrNotEnlisted = errors.New("context belongs to no claim whose store takes this work into its commit")

// Enlistment collects work that a handler wants written in the commit that
// completes its record. It belongs to one run of one handler, which may enlist
// from several goroutines.
type Enlistment struct {
	store Store
	mu    sync.Mutex
	work  []any
}

// NewEnlistment is for those who run handlers: a consumer, a guard.
func NewEnlistment(s Store) *Enlistment { return &Enlistment{store: s} }

// Work is what was enlisted, for [Op.Enlisted].
func (e *Enlistment) Work() []any {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.work
}

type enlistmentKey struct{}

// WithEnlistment returns a context that carries e to the handler.
func WithEnlistment(ctx context.Context, e *Enlistment) context.Context {
	return context.WithValue(ctx, enlistmentKey{}, e)
}

// EnlistmentKey is the context key under which a context type of a runner's
// own answers with its *Enlistment.
func EnlistmentKey() any { return enlistmentKey{} }

// Enlist hands work to the claim that ctx belongs to. Stores wrap it in a
// typed function, such as boltstore.InTx. The work runs when the record is
// completed as succeeded, in the same commit, and is dropped otherwise. It may
// run more than once when a commit is repeated, so it must change nothing but
// through the transaction that it is given.
//
// Errors: [ErrNotEnlisted].
func Enlist(ctx context.Context, work any) error {
	e, ok := ctx.Value(enlistmentKey{}).(*Enlistment)
	if !ok || e == nil {
		return ErrNotEnlisted
	}
	if s, ok := e.store.(Enlister); !ok || !s.CanEnlist(work) {
		return ErrNotEnlisted
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.work = append(e.work, work)
	return nil
}
