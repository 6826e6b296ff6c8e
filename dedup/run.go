package dedup

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/onceward/onceward/internal/cut"
)

func newToken() (t Token) {
	_, _ = rand.Read(t[:]) // never fails
	return t
}

// runningNow is closed when the run of key in this process has ended; nil when
// there is none.
func (g *Guard) runningNow(key Key) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.running[key]
}

// begin tells the waiting calls of this process that key runs here, until the
// function that it returns is called.
func (g *Guard) begin(key Key) (ended func()) {
	c := make(chan struct{})
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running == nil {
		g.running = make(map[Key]chan struct{})
	}
	g.running[key] = c
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.running[key] == c { // else its successor's
			delete(g.running, key)
		}
		close(c)
	}
}

// run runs fn under the claim that a holds and ends the claim, whatever fn
// does: return, panic, or end its goroutine.
func (a *attempt) run(ctx context.Context, fn function) (unkept, err error) {
	defer a.g.begin(a.key)()
	inner, lose := context.WithCancelCause(ctx)
	inner, stop := context.WithTimeoutCause(inner, a.g.timeout(), ErrTimeout)
	enlisted := NewEnlistment(a.g.Store)
	inner = WithEnlistment(inner, enlisted)
	// The lease must hold until fn has returned, also when ctx has ended.
	renewing, over := context.WithCancel(context.WithoutCancel(ctx))
	var renewal sync.WaitGroup
	renewal.Go(func() { a.renew(renewing, lose) })
	var cause error // why the context of fn has ended, if it has
	rest := func() {
		cause = context.Cause(inner)
		over()
		renewal.Wait()
		stop()
		lose(context.Canceled)
	}

	returned := false
	defer func() {
		if !returned { // runtime.Goexit, as by testing's FailNow
			rest()
			_ = a.fail(ctx, Failure, errors.New("function ended its goroutine"))
		}
	}()
	result, unkept, err := protected(inner, fn)
	returned = true
	rest()
	if err != nil {
		return nil, a.fail(ctx, a.g.outcome(ctx, cause, err), err)
	}
	end := Op{Outcome: Success, Result: result, Enlisted: enlisted.Work()}
	if unkept != nil {
		end.Result, end.Digest = nil, true
	}
	err = a.settle(ctx, end, nil)
	if err != nil && len(end.Enlisted) > 0 && errors.Is(err, ErrUnrecorded) {
		// The work may be what is wrong, so this run has failed.
		return nil, a.fail(ctx, Failure, err)
	}
	return unkept, err
}

// protected calls fn and makes an error of its panic.
func protected(ctx context.Context, fn function) (result []byte, unkept, err error) {
	normal := false
	defer func() {
		if v := recover(); v != nil && !normal {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	result, unkept, err = fn(ctx)
	normal = true
	return result, unkept, err
}

// fail ends the claim with what err means and returns err.
func (a *attempt) fail(ctx context.Context, o Outcome, err error) error {
	end := Op{Outcome: o, Error: a.g.text(err), ErrorType: cut.Text(fmt.Sprintf("%T", err), MaxError)}
	if p := panicOf(err); p != nil {
		end.ErrorType, end.Stack = "panic", cut.Text(string(p.Stack), MaxStack)
	}
	switch {
	case o == Failure && a.failures+1 >= a.policy.Failures:
		end.Outcome, end.Reason = Exhausted, ReasonExhausted
	case o == Terminal:
		end.Reason = ReasonTerminal
	case o == Doubt:
		end.Reason = ReasonInDoubt
	}
	return a.settle(ctx, end, err)
}

// renew keeps the lease until ctx ends, and ends the context of the function
// with [ErrLeaseLost] before somebody else can hold the key.
func (a *attempt) renew(ctx context.Context, lose context.CancelCauseFunc) {
	lease := a.g.lease()
	ends := time.Now().Add(2 * a.g.timeout())
	next := lease / 3
	for sleep(ctx, nil, next) {
		now := time.Now()
		left := a.deadline.Add(-lease / 10).Sub(now)
		if left <= 0 || now.After(ends) {
			lose(ErrLeaseLost)
			return
		}
		asking, done := context.WithTimeout(ctx, left)
		answers, err := Apply(asking, a.g.Store, []Op{{Kind: Renew, Key: a.key, Fence: a.fence, Lease: lease}})
		done()
		switch {
		case err != nil:
			next = min(lease/10, max(time.Until(a.deadline.Add(-lease/10)), 0))
		case answers[0].Kind != Done:
			lose(ErrLeaseLost)
			return
		default:
			a.deadline, next = now.Add(lease), lease/3
		}
	}
}
