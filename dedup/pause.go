package dedup

import (
	"context"
	"fmt"
	"time"
)

// Pause says that a consumer, or one scope of it, starts nothing new until
// somebody lifts it. It is a record under a scope of its own, so that it
// survives restarts and is seen by every process that shares the store.
type Pause struct {
	Consumer string
	Scope    string // empty: the whole consumer
	Since    time.Time
	Who, Why string
}

const (
	pauseScope = reserved + "pause"
	// everyScope is the id of the whole consumer's pause. A scope of that name
	// has an id of its own, see pauseKey.
	everyScope = "*"
)

func pauseKey(consumer, scope string) Key {
	id := everyScope
	if scope != "" {
		id = "scope " + scope
	}
	return Key{Consumer: consumer, Scope: pauseScope, ID: id}
}

// Applier is the part of a [Store] that writes.
type Applier interface {
	// Apply is [Store.Apply].
	Apply(ctx context.Context, ops []Op) ([]Answer, error)
}

// SetPause pauses a consumer, or one scope of it. It is false, and nothing is
// changed, where that is paused already. The consumers that share the store
// heed it within about a second. It blocks for one or two commits.
//
// Errors: a faulty name; those of [Store.Apply]; [ErrFull].
func SetPause(ctx context.Context, store Applier, p Pause) (changed bool, err error) {
	return applyPause(ctx, store, Import, p, Succeeded)
}

// LiftPause takes back what [SetPause] of the same consumer and scope did, and
// is false where nothing is paused. Lifting the pause of the whole consumer
// leaves those of single scopes. It blocks for one or two commits.
//
// Errors: a faulty name; those of [Store.Apply].
func LiftPause(ctx context.Context, store Applier, p Pause) (changed bool, err error) {
	return applyPause(ctx, store, Delete, p, Absent)
}

func pauseName(p Pause) string {
	if p.Scope == "" {
		return p.Consumer
	}
	return p.Consumer + "/" + p.Scope
}

// applyPause writes once to learn what the store has, unless that was nothing,
// and then against it. It is false where the record of the pause was already as
// it is to be.
func applyPause(ctx context.Context, store Applier, kind Kind, p Pause, already State) (changed bool, err error) {
	if err := validName("consumer", p.Consumer); err != nil {
		return false, err
	}
	if p.Scope != "" {
		if err := ValidateScope(p.Scope); err != nil {
			return false, err
		}
	}
	var seen Seen
	for {
		op := Op{Kind: kind, Key: pauseKey(p.Consumer, p.Scope), Operator: &OperatorOp{Seen: seen, Who: p.Who, Why: p.Why}}
		answers, err := Apply(ctx, store, []Op{op})
		if err != nil {
			return false, fmt.Errorf("pause of %s: %w", pauseName(p), err)
		}
		a := answers[0]
		had := Seen{State: a.State, Run: a.Run, Fence: a.Fence}
		switch {
		case a.Err != nil:
			return false, fmt.Errorf("pause of %s: %w", pauseName(p), a.Err)
		case a.Kind == Done:
			return true, nil
		case a.Kind == Refused && had != seen && (kind == Import) == (a.State == Absent):
			seen = had // what there was must be named
		case a.State == already:
			return false, nil
		default:
			return false, fmt.Errorf("pause of %s: the store answers %v and has it as %v", pauseName(p), a.Kind, a.State)
		}
	}
}

// Pauses reads what of a consumer is paused: the whole of it, and those of the
// scopes given. It is one Lookup.
//
// Errors: those of [Store.Lookup].
func Pauses(ctx context.Context, store interface {
	Lookup(ctx context.Context, keys []Key) ([]Record, error)
}, consumer string, scopes []string,
) ([]Pause, error) {
	keys := make([]Key, 0, len(scopes)+1)
	keys = append(keys, pauseKey(consumer, ""))
	for _, scope := range scopes {
		keys = append(keys, pauseKey(consumer, scope))
	}
	records, err := Lookup(ctx, store, keys)
	if err != nil {
		return nil, fmt.Errorf("pauses of %s: %w", consumer, err)
	}
	var pauses []Pause
	for i := range records {
		r := &records[i]
		if r.State != Succeeded {
			continue
		}
		p := Pause{Consumer: consumer, Since: r.Finished, Who: r.Approver, Why: r.Why}
		if i > 0 {
			p.Scope = scopes[i-1]
		}
		pauses = append(pauses, p)
	}
	return pauses, nil
}
