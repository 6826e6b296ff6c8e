package memstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/dedup"
)

// Store is a [dedup.Store] in memory. Its zero value is not usable, see [New].
type Store struct {
	id string

	// mu guards everything below. One lock for all keys: an operation holds it
	// for about half a microsecond and nothing waits under it, so that a batch
	// is one step for every reader.
	mu       sync.Mutex
	closed   bool
	bound    int // most records; 0: no bound
	sequence uint64
	// floor is above every fence of a record that was forgotten.
	floor    uint64
	records  map[dedup.Key]*dedup.Record
	letters  map[string]dedup.Letter
	tokens   map[string]string // replay token to the id of its letter
	noted    map[dedup.Key]noted
	prefixes map[lane]int64
	expiry   expiry
}

// noted is what is known of a key's letters.
type noted struct {
	ids        []string
	unfinished int
}

// lane is one partition of one life of a source, as one consumer reads it.
type lane struct {
	consumer, source string
	partition        int32
}

func laneOf(consumer string, p dedup.Position) lane {
	return lane{consumer: consumer, source: p.Source, partition: p.Partition}
}

// New makes an empty store. It holds as much as memory takes unless
// [Store.Bound] says otherwise; [dedup.Store.Sweep] is the caller's to call.
func New() *Store {
	return &Store{
		id:       rand.Text(),
		records:  make(map[dedup.Key]*dedup.Record),
		letters:  make(map[string]dedup.Letter),
		tokens:   make(map[string]string),
		noted:    make(map[dedup.Key]noted),
		prefixes: make(map[lane]int64),
		expiry:   newExpiry(),
	}
}

// Bound sets the most records that the store takes, 0 for no bound. With so
// many, an operation that would make one more is answered [dedup.ErrFull] and
// everything else goes on; nothing is forgotten to make room.
func (s *Store) Bound(records int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bound = records
}

// Apply is [dedup.Store.Apply]. The whole slice is one step: nobody sees a part
// of it. It is as durable as the process. Errors: [dedup.ErrClosed]; ctx.Err()
// when ctx had ended before, in which case nothing was done.
func (s *Store) Apply(ctx context.Context, ops []dedup.Op) ([]dedup.Answer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	answers := make([]dedup.Answer, len(ops))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, dedup.ErrClosed
	}
	now := time.Now()
	for i := range ops {
		if err := ops[i].Validate(); err != nil {
			answers[i] = dedup.Answer{Err: err}
			continue
		}
		answers[i] = s.apply(&ops[i], now)
	}
	return answers, nil
}

// apply does one valid operation. Callers hold s.mu.
func (s *Store) apply(op *dedup.Op, now time.Time) dedup.Answer {
	if op.Kind == dedup.Advance {
		s.advance(op)
		return dedup.Answer{Kind: dedup.Done}
	}
	r := s.records[op.Key]
	fresh := r == nil
	if fresh {
		r = &dedup.Record{Key: op.Key}
	}
	r.Live = r.State == dedup.InProgress && now.Before(r.LeaseUntil)
	if op.Letter != nil && op.Letter.Letter.ID != "" {
		if kind := s.letter(op, r, now); kind != dedup.Done {
			return dedup.Answer{Kind: kind}
		}
	}
	if fresh && s.bound > 0 && len(s.records) >= s.bound && (op.Kind == dedup.Claim || op.Kind == dedup.Import) {
		return dedup.Answer{Err: dedup.ErrFull}
	}
	env := s.env(op, r, now)
	if len(op.Enlisted) > 0 {
		if a, failed := rehearse(*r, op, env); failed {
			return a
		}
	}
	a, changed := dedup.Step(r, op, env)
	if changed {
		s.keep(r, op, fresh)
	}
	return a
}

// env looks up only what Step asks of this kind of operation.
func (s *Store) env(op *dedup.Op, r *dedup.Record, now time.Time) dedup.Env {
	env := dedup.Env{Now: now, FenceFloor: s.floor}
	switch {
	case op.Kind == dedup.Claim && r.State == dedup.Absent:
		env.Passed = op.Position != (dedup.Position{}) && s.passed(op.Key.Consumer, op.Position)
		if op.ReplayToken != "" {
			l := s.letters[s.tokens[op.ReplayToken]]
			env.Admitted = l.Admits(op.ReplayToken, op.Key)
		}
	case op.About() != "":
		l := s.letters[op.About()]
		env.Letter = &l
	case op.Kind == dedup.Delete, op.Kind == dedup.Sweep:
		env.Letters = s.noted[op.Key].unfinished
		env.Passed = r.Source == (dedup.Position{}) || s.passed(op.Key.Consumer, r.Source)
	}
	return env
}

func (s *Store) passed(consumer string, p dedup.Position) bool {
	return p.Offset < s.prefixes[laneOf(consumer, p)]
}

// rehearse runs the enlisted work of an End that is about to succeed. Work that
// fails takes the completion with it.
func rehearse(r dedup.Record, op *dedup.Op, env dedup.Env) (dedup.Answer, bool) {
	a, changed := dedup.Step(&r, op, env)
	if !changed || a.Kind != dedup.Done || r.State != dedup.Succeeded {
		return dedup.Answer{}, false
	}
	for _, work := range op.Enlisted {
		do, ok := work.(func() error)
		if !ok {
			return dedup.Answer{Err: fmt.Errorf("%w: end: work of type %T, want func() error", dedup.ErrInvalidOp, work)}, true
		}
		if err := do(); err != nil {
			return dedup.Answer{Err: fmt.Errorf("enlisted work: %w", err)}, true
		}
	}
	return dedup.Answer{}, false
}

// keep takes over r as Step left it.
func (s *Store) keep(r *dedup.Record, op *dedup.Op, fresh bool) {
	s.sequence++
	switch {
	case r.State == dedup.Absent:
		s.floor = max(s.floor, r.Fence+1)
		if !fresh {
			delete(s.records, op.Key)
		}
		return
	case fresh:
		s.records[op.Key] = r
	}
	switch op.Kind { // what is kept must not be the caller's
	case dedup.End:
		r.Result = slices.Clone(r.Result)
	case dedup.Import, dedup.Reconcile:
		r.Result = slices.Clone(r.Result)
	case dedup.Confirm:
		for i := range r.Intents {
			if r.Intents[i].Effect == op.Effect.Name {
				r.Intents[i].Outcome = slices.Clone(r.Intents[i].Outcome)
			}
		}
	}
	if due(r) {
		s.expiry.add(r)
	}
}

func (s *Store) advance(op *dedup.Op) {
	l := laneOf(op.Key.Consumer, op.Position)
	if op.Position.Offset <= s.prefixes[l] {
		return
	}
	s.prefixes[l] = op.Position.Offset
	s.sequence++
	s.expiry.passed(l, op.Position.Offset)
}

// letter advances the letter that op speaks of.
func (s *Store) letter(op *dedup.Op, r *dedup.Record, now time.Time) dedup.AnswerKind {
	id := op.Letter.Letter.ID
	old := s.letters[id]
	l, kind := dedup.StepLetter(old, r, op, now)
	if kind != dedup.Done || l == old {
		return kind
	}
	s.sequence++
	s.letters[id] = l
	if old.Token != l.Token {
		delete(s.tokens, old.Token)
		if l.Token != "" {
			s.tokens[l.Token] = id
		}
	}
	n := s.noted[l.Key]
	if old.State == dedup.LetterNone {
		n.ids = append(n.ids, id)
	}
	switch was, is := old.State.Unfinished(), l.State.Unfinished(); {
	case is && !was:
		n.unfinished++
	case was && !is:
		if n.unfinished--; n.unfinished == 0 && due(r) {
			s.expiry.add(r)
		}
	}
	s.noted[l.Key] = n
	return kind
}

// forget drops the notes of a key whose record was swept. All have ended.
func (s *Store) forget(key dedup.Key) {
	for _, id := range s.noted[key].ids {
		if token := s.letters[id].Token; token != "" {
			delete(s.tokens, token)
		}
		delete(s.letters, id)
	}
	delete(s.noted, key)
}

// CanEnlist says that work is a func() error. It runs under the store's lock,
// so it must be short and must not call the store. Where it fails, the record
// stays as it was and the End is answered with the error.
func (s *Store) CanEnlist(work any) bool {
	_, ok := work.(func() error)
	return ok
}

// Close forgets everything. Later calls answer [dedup.ErrClosed].
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.records, s.letters, s.tokens, s.noted, s.prefixes, s.expiry = nil, nil, nil, nil, nil, expiry{}
	return nil
}

var (
	_ dedup.Store    = (*Store)(nil)
	_ dedup.Enlister = (*Store)(nil)
)
