package boltstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/onceward/onceward/dedup"
)

// Apply is [dedup.Store.Apply]. The whole slice is one commit, durable against
// power loss when Apply returns nil; a slice that changes nothing costs none.
// Where work enlisted by [InTx] fails, the slice may become several commits.
//
// After an error of the medium the store looks at the file before it goes on:
// what was written is then answered as written. It recovers by itself when the
// medium does.
func (s *Store) Apply(ctx context.Context, ops []dedup.Op) ([]dedup.Answer, error) {
	if err := s.take(ctx); err != nil {
		return nil, err
	}
	defer s.give()
	if err := s.writable(); err != nil {
		return nil, err
	}
	answers := make([]dedup.Answer, len(ops))
	refused := make(map[int]error) // by their enlisted work
	for from, redone := 0, 0; from < len(ops); {
		// Where much work fails, what lies before the last failure is
		// committed first, so that it is not done over and over.
		to := len(ops)
		if redone == maxRedone {
			to, redone = last(refused)+1, 0
		}
		err := s.applyPart(ops, answers, refused, from, to)
		var w *workError
		switch {
		case errors.As(err, &w):
			refused[w.op] = w.err
			redone++
		case err != nil:
			return nil, err
		default:
			from = to
		}
	}
	s.warnFull()
	return answers, nil
}

// maxRedone is how often a commit is begun again for failed work.
const maxRedone = 4

func last(refused map[int]error) int {
	most := 0
	for i := range refused {
		most = max(most, i)
	}
	return most
}

// workError stops a commit because of the work enlisted with one operation.
type workError struct {
	op  int
	err error
}

func (e *workError) Error() string { return e.err.Error() }

// applyPart does a part of the operations in one commit.
func (s *Store) applyPart(ops []dedup.Op, answers []dedup.Answer, refused map[int]error, from, to int) error {
	works := false
	for i := from; i < to; i++ {
		works = works || len(ops[i].Enlisted) > 0
	}
	return s.update(func(b *batch) error {
		for i := from; i < to; i++ {
			n := (i - from) % ahead
			if n == 0 {
				b.lookAhead(ops[i:min(i+ahead, to)])
			}
			if err := refused[i]; err != nil {
				answers[i] = dedup.Answer{Err: err}
				continue
			}
			k := &b.s.scratch.ahead[n]
			if k.err != nil {
				answers[i] = dedup.Answer{Err: k.err}
				continue
			}
			a, x, err := b.apply(&ops[i], k)
			if err != nil {
				return err
			}
			if x != nil && len(ops[i].Enlisted) > 0 && a.Kind == dedup.Done && x.rec.State == dedup.Succeeded {
				b.dirty = true
				for _, work := range ops[i].Enlisted {
					if err := run(b.tx, work); err != nil {
						return &workError{i, fmt.Errorf("enlisted work of %v: %w", ops[i].Key, err)}
					}
				}
			}
			answers[i] = a
		}
		return nil
	}, works)
}

// apply does one valid operation. An error is one of the whole commit. x is
// set where the record has changed.
func (b *batch) apply(op *dedup.Op, k *hashed) (a dedup.Answer, x *held, err error) {
	if op.Kind == dedup.Advance {
		return dedup.Answer{Kind: dedup.Done}, nil, b.advance(op)
	}
	if x, err = b.locate(&op.Key, k); err != nil {
		return a, nil, err
	}
	if op.Letter != nil && op.Letter.Letter.ID != "" {
		kind, err := b.letter(op, x)
		if err != nil || kind != dedup.Done {
			return dedup.Answer{Kind: kind}, nil, err
		}
	}
	env, err := b.env(op, x)
	if err != nil {
		return a, nil, err
	}
	absent := x.rec.State == dedup.Absent
	a, changed := dedup.Step(&x.rec, op, env)
	if !changed {
		return a, nil, nil
	}
	if absent && op.Letter == nil && x.rec.State != dedup.Absent && b.full() {
		x.rec = dedup.Record{Key: x.rec.Key}
		return dedup.Answer{Err: dedup.ErrFull}, nil, nil
	}
	return a, x, b.write(x)
}

// env looks up only what Step asks of this kind of operation.
func (b *batch) env(op *dedup.Op, x *held) (env dedup.Env, err error) {
	// The sequence of entries only rises, also over what is forgotten.
	env = dedup.Env{Now: b.now, FenceFloor: b.state.seq}
	switch {
	case op.Kind == dedup.Claim && x.rec.State == dedup.Absent:
		env.Passed = op.Position != (dedup.Position{}) && b.passed(op.Key.Consumer, op.Position)
		if op.ReplayToken != "" {
			env.Admitted, err = b.admits(op.ReplayToken, op.Key)
		}
	case op.About() != "":
		var l dedup.Letter
		l, err = b.note(op.About())
		env.Letter = &l
	case op.Kind == dedup.Delete, op.Kind == dedup.Sweep:
		if env.Letters, err = b.unfinished(x.h); err != nil {
			return env, err
		}
		env.Passed = x.rec.Source == (dedup.Position{}) || b.passed(op.Key.Consumer, x.rec.Source)
	}
	return env, err
}

func (b *batch) passed(consumer string, p dedup.Position) bool {
	l := laneOf(consumer, p)
	offset, ok := b.prefixes[l]
	if !ok {
		offset = b.s.prefixes[l]
	}
	return p.Offset < offset
}

func (b *batch) advance(op *dedup.Op) error {
	if b.passed(op.Key.Consumer, dedup.Position{
		Source: op.Position.Source, Partition: op.Position.Partition, Offset: op.Position.Offset - 1,
	}) || op.Position.Offset <= 0 {
		return nil
	}
	l := laneOf(op.Key.Consumer, op.Position)
	if b.prefixes == nil {
		b.prefixes = make(map[lane]int64)
	}
	b.prefixes[l] = op.Position.Offset
	key := l.key()
	return b.putSealed(bucketPrefixes, tablePrefixes, key, prefixRow(key, op.Position.Offset))
}
