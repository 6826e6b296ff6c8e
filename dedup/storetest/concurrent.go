package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/onceward/onceward/dedup"
)

// concurrentChecks are about many callers at once.
var concurrentChecks = []check{
	{"concurrent: of a hundred claimants of one key exactly one owns it", func(s *session) {
		for round := range 5 {
			id := fmt.Sprint("round ", round)
			for takeover := range 2 {
				kinds := s.together(100, func(int) []dedup.Op { return []dedup.Op{s.claimOp(id)} })
				if kinds[dedup.Acquired] != 1 || kinds[dedup.Busy] != 99 {
					s.Errorf("claims in round %d.%d: %v", round, takeover, kinds)
				}
				s.pass(leaseOver)
			}
			s.end(s.claim(id, dedup.Acquired), dedup.Success, dedup.Succeeded)
			if kinds := s.together(100, func(int) []dedup.Op { return []dedup.Op{s.claimOp(id)} }); kinds[dedup.DuplicateSucceeded] != 100 {
				s.Errorf("claims after it: %v", kinds)
			}
		}
	}},
	{"concurrent: overlapping batches in any order own each key once", func(s *session) {
		const keys = 50
		var order sync.Mutex // of the random numbers
		r := rand.New(rand.NewPCG(1, 2))
		kinds := s.together(20, func(int) []dedup.Op {
			order.Lock()
			defer order.Unlock()
			ops := make([]dedup.Op, keys)
			for i, n := range r.Perm(keys) {
				ops[i] = s.claimOp(fmt.Sprint("order ", n))
			}
			return ops
		})
		if kinds[dedup.Acquired] != keys || kinds[dedup.Busy] != 19*keys {
			s.Errorf("claims: %v", kinds)
		}
	}},
	{"concurrent: of two jobs that reopen a record one does", func(s *session) {
		for round := range 10 {
			c := s.claim(fmt.Sprint(round), dedup.Acquired)
			s.end(c, dedup.Success, dedup.Succeeded)
			r := s.record(c.key)
			kinds := s.together(10, func(n int) []dedup.Op {
				return []dedup.Op{{Kind: dedup.Reopen, Key: c.key, Operator: &dedup.OperatorOp{
					Seen: r.Seen(), LetterRun: 1, Fingerprint: digest(1), Job: fmt.Sprint("job ", n), Letter: "letter-1", Who: "ann", Why: "fixed",
				}}}
			})
			if kinds[dedup.Done] != 1 || kinds[dedup.Refused] != 9 {
				s.Errorf("round %d: %v", round, kinds)
			}
		}
	}},
	{"concurrent: sweeping beside traffic takes nothing of today", func(s *session) {
		for i := range 200 {
			s.end(s.claim(fmt.Sprint("old ", i), dedup.Acquired), dedup.Success, dedup.Succeeded)
		}
		s.pass(windowOver)
		var wg sync.WaitGroup
		var stop atomic.Bool
		wg.Go(func() {
			for !stop.Load() {
				if _, err := s.store.Sweep(context.Background(), 7); err != nil {
					s.Errorf("sweep: %v", err)
					return
				}
			}
		})
		for i := range 200 {
			c := s.claim(fmt.Sprint("new ", i), dedup.Acquired)
			s.end(c, dedup.Success, dedup.Succeeded)
			s.claim(fmt.Sprint("new ", i), dedup.DuplicateSucceeded)
		}
		stop.Store(true)
		wg.Wait()
		for i := range 200 {
			s.is(s.key(fmt.Sprint("new ", i)), dedup.Succeeded)
		}
	}},
	{"concurrent: every key is linearizable", func(s *session) {
		for round := range 4 {
			s.consumer = fmt.Sprint("round ", round)
			s.linear(uint64(round))
		}
	}},
}

// together makes n calls at once and counts the kinds of answers. The
// operations are made before.
func (s *session) together(n int, ops func(n int) []dedup.Op) map[dedup.AnswerKind]int {
	s.Helper()
	calls := make([][]dedup.Op, n)
	for i := range calls {
		calls[i] = ops(i)
	}
	kinds := make(map[dedup.AnswerKind]int)
	var mu sync.Mutex
	var wg sync.WaitGroup
	start := make(chan struct{})
	for _, call := range calls {
		wg.Go(func() {
			<-start
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			answers, err := s.store.Apply(ctx, call)
			if err != nil {
				s.Errorf("apply: %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, a := range answers {
				kinds[a.Kind]++
			}
		})
	}
	close(start)
	wg.Wait()
	return kinds
}

// linear lets several clients loose on three keys and checks that what they
// were answered can have happened one after the other.
func (s *session) linear(seed uint64) {
	const clients, calls = 8, 60
	var clock atomic.Int64 // order is all that matters, so it need not be time
	var mu sync.Mutex
	var history []porcupine.Operation
	var wg sync.WaitGroup
	for client := range clients {
		r := rand.New(rand.NewPCG(seed, uint64(client)))
		given := make(map[dedup.Key]held)
		token := func() (t dedup.Token) {
			for i := range t {
				t[i] = byte(r.Uint32())
			}
			return t
		}
		wg.Go(func() {
			for range calls {
				op := randomOp(s.key(fmt.Sprint(r.IntN(3))), r, given, token)
				called := clock.Add(1)
				answers, err := s.store.Apply(context.Background(), []dedup.Op{op})
				returned := clock.Add(1)
				if err != nil {
					s.Errorf("apply: %v", err)
					return
				}
				a := answers[0]
				if a.Kind.Acquired() {
					given[op.Key] = held{Answer: a, key: op.Key, token: op.Token}
				}
				mu.Lock()
				history = append(history, porcupine.Operation{ClientId: client, Input: op, Call: called, Output: a, Return: returned})
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	switch porcupine.CheckOperationsTimeout(s.model(), history, 10*time.Second) {
	case porcupine.Illegal:
		s.Errorf("the answers to %d calls fit no order of them", len(history))
	case porcupine.Unknown:
		s.Logf("could not be decided in time")
	}
}

// randomOp keeps away from what depends on the moment: leases are long and
// nothing waits.
func randomOp(key dedup.Key, r *rand.Rand, given map[dedup.Key]held, token func() dedup.Token) dedup.Op {
	c, ok := given[key]
	if !ok || r.IntN(3) == 0 {
		return dedup.Op{
			Kind: dedup.Claim, Key: key, Token: token(), Fingerprint: digest(byte(1 + r.IntN(8)/7)), Policy: policy, Lease: time.Hour,
		}
	}
	op := dedup.Op{Key: key, Fence: c.Fence, Token: c.token, Policy: policy}
	switch r.IntN(6) {
	case 0:
		op.Kind, op.Lease = dedup.Renew, time.Hour
	case 1:
		op.Kind, op.Effect = dedup.Dispatch, &charge
	case 2:
		op.Kind, op.Effect = dedup.Confirm, &charge
	default:
		op.Kind = dedup.End
		op.Outcome = []dedup.Outcome{dedup.Success, dedup.Failure, dedup.Release, dedup.Skip, dedup.Skip, dedup.Doubt}[r.IntN(6)]
	}
	if op.Kind != dedup.End {
		op.Policy = nil
	}
	return op
}

// model is the oracle as porcupine wants it: one key, and all its states.
func (s *session) model() porcupine.Model {
	now := s.now()
	return porcupine.Model{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			byKey := make(map[dedup.Key][]porcupine.Operation)
			for _, o := range history {
				key := o.Input.(dedup.Op).Key
				byKey[key] = append(byKey[key], o)
			}
			var parts [][]porcupine.Operation
			for _, part := range byKey {
				parts = append(parts, part)
			}
			return parts
		},
		Init: func() any { return fact{} },
		Step: func(state, input, output any) (bool, any) {
			op, f := input.(dedup.Op), state.(fact)
			f.effects = slices.Clone(f.effects)
			w := newWorld()
			w.now = now
			w.facts[op.Key] = &f
			answer := output.(dedup.Answer)
			if answer.Kind == dedup.Busy {
				answer.Wait = f.until.Sub(now)
			}
			err := w.expect(&op, answer)
			return err == nil, f
		},
		Equal: func(a, b any) bool { return fmt.Sprintf("%+v", a) == fmt.Sprintf("%+v", b) },
	}
}
