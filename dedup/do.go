package dedup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Do runs fn once per key and gives every caller the first outcome: the one
// whose call ran fn gets what fn returned, all others the recorded result, with
// [Execution.Replayed] set. An empty key.Consumer is the guard's.
//
//   - While another call runs fn, in this process or another, Do waits for its
//     outcome until ctx ends, or answers [*BusyError] with [Guard.NoWait].
//   - When fn fails, its caller gets the error. One that is final, by [Final] or
//     [Guard.Classify], or the last that the guard allows, ends the key: every
//     later call gets a [*FailedError]. After any other the next call, or one
//     that waits, runs fn again.
//   - When fn panics, the caller gets a [*PanicError], and it has failed. Where
//     its error panics when it is asked what it is, as a nil pointer does, it
//     has failed, too.
//   - The context of fn ends when ctx ends, after [Guard.Timeout], and when the
//     lease is lost (context.Cause tells which). Do waits for fn to return even
//     then. What [Enlist] took is written together with a success.
//   - The result is kept as JSON of at most 64 KiB. Repeats get it decoded, so
//     what JSON leaves out is missing there.
//
// fn can run again when a process died between its effect and the record; what
// it does outside must be harmless to repeat.
//
// Do blocks for fn and two commits of the store. Where the store fails, it is
// asked again for as long as a lease. When Do gives up on a claim whose answer
// was lost, the key may stay busy for a lease.
//
// Errors: those of fn; [ErrBusy]; [*FailedError]; [ErrConflict]; [ErrInDoubt];
// [ErrUnkept]; [ErrSuperseded] and [ErrUnrecorded], with the value that fn
// returned; those of [Key.Validate] and of the store; ctx.Err().
func Do[T any](ctx context.Context, g *Guard, key Key, fn func(context.Context) (T, error), options ...Option) (T, Execution, error) {
	var value T
	a := &attempt{g: g, key: key, policy: g.policy()}
	if a.key.Consumer == "" {
		a.key.Consumer = g.Consumer
	}
	for _, o := range options {
		o(a)
	}
	kept, execution, err := a.do(ctx, func(ctx context.Context) (result []byte, unkept, err error) {
		if value, err = fn(ctx); err != nil {
			return nil, nil, err
		}
		result, unkept = encode(value)
		return result, unkept, nil
	})
	if err == nil && execution.Replayed {
		if err = decode(kept, &value); err != nil {
			err = fmt.Errorf("%v: recorded result: %w", a.key, err)
		}
	}
	return value, execution, err
}

// encode is the JSON that is kept. The function has succeeded: whatever its
// value does here, a panic too, must not have it run again.
func encode(value any) (result []byte, unkept error) {
	defer func() {
		if v := recover(); v != nil {
			result, unkept = nil, fmt.Errorf("result makes no JSON: panic: %v", v)
		}
	}()
	result, unkept = json.Marshal(value)
	if len(result) > MaxResult {
		return nil, fmt.Errorf("result is %d bytes of JSON, at most %d", len(result), MaxResult)
	}
	return result, unkept
}

func decode(kept []byte, into any) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return json.Unmarshal(kept, into)
}

// attempt is one call of Do: its plain part.
type attempt struct {
	g      *Guard
	key    Key
	print  Fingerprint
	policy *Policy

	// Of the claim that it holds.
	token    Token
	fence    uint64
	failures uint32
	deadline time.Time // of the lease by the local clock, from before it was asked for
}

// function is fn with its result encoded. unkept says why it could not be.
type function func(context.Context) (result []byte, unkept, err error)

// do claims until it is told what to do: run fn, or answer with what is there.
func (a *attempt) do(ctx context.Context, fn function) (kept []byte, e Execution, err error) {
	e.Key = a.key
	if err := a.key.Validate(); err != nil {
		return nil, e, err
	}
	for tries := 0; ; tries++ {
		run := a.g.runningNow(a.key)
		answer, err := a.claim(ctx)
		if err != nil {
			return nil, e, fmt.Errorf("%v: claim: %w", a.key, err)
		}
		e.Run, e.Failures = answer.Run, answer.Failures
		switch answer.Kind {
		case Acquired:
			e.Fence = answer.Fence
			e.Unkept, err = a.run(ctx, fn)
			return nil, e, err
		case AcquiredToBury:
			return nil, e, a.bury(ctx, answer.Record)
		case AcquiredInDoubt:
			// Nobody here can ask whether it happened.
			return nil, e, a.settle(ctx, Op{Outcome: Doubt, Reason: ReasonInDoubt}, ErrInDoubt)
		case DuplicateSucceeded:
			e.Replayed, e.Finished = true, answer.Record.Finished
			if answer.Record.Digest || answer.Record.State == Tombstone {
				return nil, e, fmt.Errorf("%v: %w", a.key, ErrUnkept)
			}
			return answer.Record.Result, e, nil
		case DuplicateFailed:
			e.Replayed, e.Finished = true, answer.Record.Finished
			return nil, e, a.failed(answer.Record)
		case HeldInDoubt:
			return nil, e, fmt.Errorf("%v: %w", a.key, ErrInDoubt)
		case Conflict:
			return nil, e, fmt.Errorf("%v: %w", a.key, ErrConflict)
		case Busy, NotBefore:
			if a.g.NoWait {
				return nil, e, &BusyError{Key: a.key, Wait: answer.Wait}
			}
			if run == nil {
				run = a.g.runningNow(a.key) // begun since
			}
			if err := a.wait(ctx, run, answer.Wait, tries); err != nil {
				return nil, e, err
			}
		default:
			return nil, e, fmt.Errorf("%v: claim answered %s", a.key, answer.Kind)
		}
	}
}

func (a *attempt) failed(r *Record) error {
	return &FailedError{Key: a.key, Reason: r.Reason, Text: r.Error, Type: r.ErrorType}
}

func (a *attempt) claim(ctx context.Context) (Answer, error) {
	a.token = newToken()
	sent := time.Now()
	answer, err := a.apply(ctx, Op{
		Kind: Claim, Token: a.token, Fingerprint: a.print, Policy: a.policy, Lease: a.g.lease(),
	})
	a.fence, a.failures, a.deadline = answer.Fence, answer.Failures, sent.Add(a.g.lease())
	return answer, err
}

// bury ends a key whose failures were used up before this call.
func (a *attempt) bury(ctx context.Context, r *Record) error {
	return a.settle(ctx, Op{
		Outcome: Exhausted, Reason: ReasonExhausted, Error: r.Error, ErrorType: r.ErrorType, Stack: r.Stack,
	}, &FailedError{Key: a.key, Reason: ReasonExhausted, Text: r.Error, Type: r.ErrorType})
}

// settle ends the claim and returns err, which says what became of it, unless
// the store had another answer. What must be written must be even if the
// caller has gone; the time is bounded by apply.
func (a *attempt) settle(ctx context.Context, op Op, err error) error {
	op.Kind, op.Fence, op.Token, op.Policy = End, a.fence, a.token, a.policy
	answer, failed := a.apply(context.WithoutCancel(ctx), op)
	r := answer.Record
	switch {
	case failed != nil:
		return errors.Join(fmt.Errorf("%v: %w: %w", a.key, ErrUnrecorded, failed), err)
	case answer.Kind == Done && answer.State == InDoubt && op.Outcome != Doubt:
		return errors.Join(fmt.Errorf("%v: %w", a.key, ErrInDoubt), err)
	case answer.Kind == Done:
		return err
	case r != nil && r.Fence == a.fence && r.Token == a.token && r.State != InProgress:
		return err // written before, and the answer was lost
	}
	return errors.Join(fmt.Errorf("%v: %w", a.key, ErrSuperseded), err)
}

// apply asks the store, again and again where it fails, for up to a lease.
// Claims are safe to repeat by their token, ends by their fence.
func (a *attempt) apply(ctx context.Context, op Op) (Answer, error) {
	op.Key = a.key
	ctx, cancel := context.WithTimeout(ctx, a.g.lease())
	defer cancel()
	for delay := 10 * time.Millisecond; ; delay = min(2*delay, time.Second) {
		answers, err := Apply(ctx, a.g.Store, []Op{op})
		if err == nil {
			return answers[0], answers[0].Err
		}
		if IsUnusable(err) || !sleep(ctx, nil, jittered(delay)) {
			return Answer{}, err
		}
	}
}

// wait until the key may be free: when the run in this process has ended, or a
// little while. It returns ctx.Err() when ctx ended first.
func (a *attempt) wait(ctx context.Context, run <-chan struct{}, left time.Duration, tries int) error {
	// Short functions are answered soon; of long ones nobody asks more than
	// three times a lease.
	poll := min(a.g.lease()/3, 5*time.Second, 20*time.Millisecond<<min(tries, 10))
	if !sleep(ctx, run, max(min(jittered(poll), left), time.Millisecond)) {
		return ctx.Err()
	}
	return nil
}

// sleep until d is over or early is closed, and says whether ctx still runs.
func sleep(ctx context.Context, early <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-early:
	case <-t.C:
	}
	return true
}

// jittered spreads those who began to wait together by a fifth.
func jittered(d time.Duration) time.Duration {
	return d - time.Duration(rand.Int64N(int64(d)/5+1)) //nolint:gosec // it only spreads waiting
}
