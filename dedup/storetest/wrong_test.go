package storetest

import (
	"context"
	"iter"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward/dedup"
)

// wrong is a small store of its own with room for one planted fault. Without
// any it passes the suite.
type wrong struct {
	fault fault

	mu       sync.Mutex
	closed   bool
	id       string
	sequence uint64
	records  map[dedup.Key]dedup.Record
	letters  map[string]dedup.Letter
	prefixes map[dedup.Key]map[dedup.Position]int64
}

// fault is what is planted. Every function may be nil.
type fault struct {
	name string
	// before may change what Step is given, after what came of it.
	before func(r *dedup.Record, op *dedup.Op, env *dedup.Env)
	after  func(old dedup.Record, op *dedup.Op, r *dedup.Record, a *dedup.Answer)
	// key maps keys that the store confuses.
	key func(dedup.Key) dedup.Key
	// apply stands in for Apply.
	apply func(w *wrong, ctx context.Context, ops []dedup.Op) ([]dedup.Answer, error)
	// letter may change what StepLetter said.
	letter func(old dedup.Letter, op *dedup.Op, l *dedup.Letter, kind *dedup.AnswerKind)
	// reopened may change what is left after a crash or an orderly end.
	reopened func(w *wrong)
	// wrap stands in for the store.
	wrap func(w *wrong) dedup.Store
	racy bool
}

func newWrong(f fault) *wrong {
	return &wrong{
		fault: f, id: time.Now().String() + string(rune('a'+len(f.name))) + randomID(), records: make(map[dedup.Key]dedup.Record),
		letters: make(map[string]dedup.Letter), prefixes: make(map[dedup.Key]map[dedup.Position]int64),
	}
}

var lastID struct {
	sync.Mutex
	n int
}

func randomID() string {
	lastID.Lock()
	defer lastID.Unlock()
	lastID.n++
	return string(rune(lastID.n))
}

func (w *wrong) store() dedup.Store {
	if w.fault.wrap != nil {
		return w.fault.wrap(w)
	}
	return w
}

func (w *wrong) harness() Harness {
	again := func(_ testing.TB, s dedup.Store) dedup.Store {
		old := unwrap(s)
		next := newWrong(old.fault)
		next.id, next.sequence, next.records, next.letters, next.prefixes = old.id, old.sequence, old.records, old.letters, old.prefixes
		for key, r := range next.records {
			if r.State == dedup.InProgress {
				r.LeaseUntil = time.Time{}
				next.records[key] = r
			}
		}
		if next.fault.reopened != nil {
			next.fault.reopened(next)
		}
		return next.store()
	}
	return Harness{
		Open:   func(testing.TB) dedup.Store { return newWrong(w.fault).store() },
		Reopen: again, Crash: again,
		Work: func(do func() error) any { return do },
	}
}

// unwrap finds the store below a wrapper that embeds it.
func unwrap(s dedup.Store) *wrong {
	if w, ok := s.(*wrong); ok {
		return w
	}
	return s.(interface{ inner() *wrong }).inner()
}

func (w *wrong) inner() *wrong { return w }

func (w *wrong) key(k dedup.Key) dedup.Key {
	if w.fault.key != nil {
		return w.fault.key(k)
	}
	return k
}

func (w *wrong) lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return dedup.ErrClosed
	}
	return nil
}

func (w *wrong) Apply(ctx context.Context, ops []dedup.Op) ([]dedup.Answer, error) {
	if w.fault.apply != nil {
		return w.fault.apply(w, ctx, ops)
	}
	return w.right(ctx, ops)
}

func (w *wrong) right(ctx context.Context, ops []dedup.Op) ([]dedup.Answer, error) {
	if err := w.lock(ctx); err != nil {
		return nil, err
	}
	defer w.mu.Unlock()
	answers := make([]dedup.Answer, len(ops))
	for i := range ops {
		op := ops[i]
		if err := op.Validate(); err != nil {
			answers[i].Err = err
			continue
		}
		answers[i] = w.one(&op)
	}
	return answers, nil
}

func (w *wrong) one(op *dedup.Op) dedup.Answer {
	now := time.Now()
	if op.Kind == dedup.Advance {
		w.sequence++
		if w.prefixes[op.Key] == nil {
			w.prefixes[op.Key] = make(map[dedup.Position]int64)
		}
		p := w.prefixes[op.Key]
		p[lane(op.Position)] = max(p[lane(op.Position)], op.Position.Offset)
		return dedup.Answer{Kind: dedup.Done}
	}
	key := w.key(op.Key)
	r := w.records[key] // an absent one with a fence is what is left of a deleted one
	r = r.Clone()
	r.Key = op.Key
	r.Live = r.State == dedup.InProgress && now.Before(r.LeaseUntil)
	if w.fault.racy {
		w.mu.Unlock()
		runtime.Gosched()
		w.mu.Lock()
	}
	if op.Letter != nil && op.Letter.Letter.ID != "" {
		old := w.letters[op.Letter.Letter.ID]
		l, kind := dedup.StepLetter(old, &r, op, now)
		if w.fault.letter != nil {
			w.fault.letter(old, op, &l, &kind)
		}
		if kind != dedup.Done {
			return dedup.Answer{Kind: kind}
		}
		w.letters[l.ID] = l
		w.sequence++
	}
	p := w.prefixes[dedup.Key{Consumer: op.Key.Consumer}]
	env := dedup.Env{Now: now}
	for _, l := range w.letters {
		if l.Admits(op.ReplayToken, op.Key) {
			env.Admitted = true
		}
		if op.About() == l.ID {
			env.Letter = &l
		}
		if l.Key == op.Key && l.State.Unfinished() {
			env.Letters++
		}
	}
	switch {
	case op.Kind == dedup.Claim:
		env.Passed = op.Position != dedup.Position{} && op.Position.Offset < p[lane(op.Position)]
	case r.Source == dedup.Position{}:
		env.Passed = true
	default:
		env.Passed = r.Source.Offset < p[lane(r.Source)]
	}
	old := r.Clone()
	if w.fault.before != nil {
		w.fault.before(&r, op, &env)
	}
	a, changed := dedup.Step(&r, op, env)
	if r.State == dedup.Succeeded && changed && a.Kind == dedup.Done {
		for _, work := range op.Enlisted {
			if err := work.(func() error)(); err != nil {
				return dedup.Answer{Err: err}
			}
		}
	}
	if w.fault.after != nil {
		w.fault.after(old, op, &r, &a)
	}
	if changed || w.fault.after != nil {
		w.sequence++
		w.records[key] = r.Clone()
	}
	return a
}

func (w *wrong) Lookup(ctx context.Context, keys []dedup.Key) ([]dedup.Record, error) {
	if err := w.lock(ctx); err != nil {
		return nil, err
	}
	defer w.mu.Unlock()
	records := make([]dedup.Record, len(keys))
	for i, k := range keys {
		r := w.records[w.key(k)]
		records[i] = r.Clone()
		records[i].Key = k
		records[i].Live = r.State == dedup.InProgress && time.Now().Before(r.LeaseUntil)
	}
	return records, nil
}

func (w *wrong) Letters(ctx context.Context, ids []string) ([]dedup.Letter, error) {
	if err := w.lock(ctx); err != nil {
		return nil, err
	}
	defer w.mu.Unlock()
	letters := make([]dedup.Letter, len(ids))
	for i, id := range ids {
		letters[i] = w.letters[id]
		letters[i].ID = id
	}
	return letters, nil
}

func (w *wrong) Scan(ctx context.Context, consumer string) iter.Seq2[dedup.Record, error] {
	return func(yield func(dedup.Record, error) bool) {
		if err := w.lock(ctx); err != nil {
			yield(dedup.Record{}, err)
			return
		}
		all := maps.Clone(w.records)
		w.mu.Unlock()
		for _, r := range all {
			r.Live = r.State == dedup.InProgress && time.Now().Before(r.LeaseUntil)
			if r.State != dedup.Absent && (consumer == "" || r.Key.Consumer == consumer) && !yield(r, nil) {
				return
			}
		}
	}
}

func (w *wrong) ScanLetters(ctx context.Context, consumer string) iter.Seq2[dedup.Letter, error] {
	return func(yield func(dedup.Letter, error) bool) {
		if err := w.lock(ctx); err != nil {
			yield(dedup.Letter{}, err)
			return
		}
		all := maps.Clone(w.letters)
		w.mu.Unlock()
		for _, l := range all {
			if (consumer == "" || l.Key.Consumer == consumer) && !yield(l, nil) {
				return
			}
		}
	}
}

func (w *wrong) Prefixes(ctx context.Context, consumer string) ([]dedup.Position, error) {
	if err := w.lock(ctx); err != nil {
		return nil, err
	}
	defer w.mu.Unlock()
	var all []dedup.Position
	for p, offset := range w.prefixes[dedup.Key{Consumer: consumer}] {
		p.Offset = offset
		all = append(all, p)
	}
	return all, nil
}

func (w *wrong) Sweep(ctx context.Context, limit int) (dedup.Swept, error) {
	if err := w.lock(ctx); err != nil {
		return dedup.Swept{}, err
	}
	defer w.mu.Unlock()
	var swept dedup.Swept
	for _, key := range slices.Collect(maps.Keys(w.records)) {
		r := w.records[key]
		op := dedup.Op{Kind: dedup.Sweep, Key: r.Key, Operator: &dedup.OperatorOp{Seen: r.Seen()}}
		if swept.Records >= limit {
			swept.More = true
			return swept, nil
		}
		if a := w.one(&op); a.Kind == dedup.Done {
			swept.Records++
			maps.DeleteFunc(w.letters, func(_ string, l dedup.Letter) bool { return l.Key == r.Key && a.State == dedup.Absent })
		}
	}
	return swept, nil
}

func (w *wrong) Info() dedup.Info {
	w.mu.Lock()
	defer w.mu.Unlock()
	return dedup.Info{Kind: "wrong", Local: true, ID: w.id, Sequence: w.sequence, Records: 1}
}

func (w *wrong) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	return nil
}
