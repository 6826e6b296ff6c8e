package consumer

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/onceward/onceward/dedup"
)

// Causes with which a handler's context ends, from context.Cause. None of
// them counts as a failure of the message.
var (
	ErrShutdown  = errors.New("consumer is stopping")
	ErrLaneLost  = errors.New("partition moved to another member")
	ErrLeaseLost = errors.New("lease could not be renewed")
)

// attempt is the context of one run of one handler. Most handlers ask it for
// nothing, so the cancelable context behind it, with its timer and its channel,
// is made when Done, Err or a foreign value is first asked for.
type attempt struct {
	parent   context.Context
	deadline time.Time
	startBy  time.Time // the handler must not begin later; zero: any time
	op       Operation
	enlisted dedup.Enlistment

	mu     sync.Mutex
	std    context.Context
	cancel context.CancelCauseFunc
	stop   context.CancelFunc // of the deadline
	cause  error              // set before std was made
	over   bool               // the handler has returned
}

func (a *attempt) Deadline() (time.Time, bool) { return a.deadline, true }
func (a *attempt) Done() <-chan struct{}       { return a.real().Done() }
func (a *attempt) Err() error                  { return a.real().Err() }

func (a *attempt) Value(key any) any {
	switch key {
	case any(operationKey{}):
		return &a.op
	case dedup.EnlistmentKey():
		return &a.enlisted
	}
	// context.Cause and derived contexts look for the standard type by a
	// private key, so everything else is answered by a standard one.
	return a.real().Value(key)
}

func (a *attempt) real() context.Context {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.std == nil {
		var ctx context.Context
		ctx, a.stop = context.WithDeadline(a.parent, a.deadline)
		a.std, a.cancel = context.WithCancelCause(ctx)
		switch {
		case a.cause != nil:
			a.cancel(a.cause)
		case a.over:
			a.cancel(context.Canceled)
		}
		if a.over {
			a.stop()
		}
	}
	return a.std
}

// end cancels the context with a cause; the first cause stays.
func (a *attempt) end(cause error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cause == nil {
		a.cause = cause
	}
	if a.cancel != nil {
		a.cancel(cause)
	}
}

// ended is the cause given to end, nil when the handler was left alone.
func (a *attempt) ended() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cause
}

// release frees what the context holds after the handler has returned.
func (a *attempt) release() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	if a.cancel != nil {
		a.cancel(context.Canceled)
		a.stop()
	}
}
