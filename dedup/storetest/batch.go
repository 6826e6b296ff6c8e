package storetest

import (
	"errors"
	"fmt"

	"github.com/onceward/onceward/dedup"
)

// batchChecks are about many operations in one call.
var batchChecks = []check{
	{"batch: a key five times, another content among them, an invalid item, neighbours", func(s *session) {
		twin := func() dedup.Op { return s.claimOp("twin") }
		other := twin()
		other.Fingerprint = digest(2)
		invalid := twin()
		invalid.Lease = 0
		answers := s.apply(s.claimOp("before"), twin(), twin(), other, invalid, twin(), twin(), s.claimOp("after"))
		want := []dedup.AnswerKind{
			dedup.Acquired, dedup.Acquired, dedup.Busy, dedup.Conflict, dedup.Invalid, dedup.Busy, dedup.Busy, dedup.Acquired,
		}
		for i, a := range answers {
			if a.Kind != want[i] {
				s.Errorf("item %d: answered %s (%v), want %s", i, a.Kind, a.Err, want[i])
			}
		}
		if !errors.Is(answers[4].Err, dedup.ErrInvalidOp) {
			s.Errorf("the invalid item: %v", answers[4].Err)
		}
		for _, id := range []string{"before", "twin", "after"} {
			s.is(s.key(id), dedup.InProgress)
		}
	}},
	{"batch: what an operation sees includes those before it", func(s *session) {
		c := s.claim("k", dedup.Acquired)
		answers := s.apply(
			endOp(c, dedup.Failure), s.claimOp("k"), // claims what the first released
			s.claimOp("k"),
			dedup.Op{Kind: dedup.Advance, Key: dedup.Key{Consumer: s.consumer}, Position: at(50)},
			s.claimOp("old", func(op *dedup.Op) { op.Position, op.Stored = at(3), s.now().Add(-2*windowOver) }),
			dedup.Op{Kind: dedup.NoteLetter, Key: s.key("noted"), Letter: &dedup.LetterOp{Letter: dedup.Letter{ID: "letter-1", Reason: "too-old"}}},
			dedup.Op{Kind: dedup.MoveLetter, Key: s.key("noted"), Letter: &dedup.LetterOp{
				Letter: dedup.Letter{ID: "letter-1", Token: "t", Job: "job-1", Expired: true}, From: dedup.LetterOpen, To: dedup.LetterSent,
			}},
			s.claimOp("noted", func(op *dedup.Op) {
				op.Position, op.Stored, op.ReplayToken = at(4), s.now().Add(-2*windowOver), "t"
			}),
		)
		want := []dedup.AnswerKind{
			dedup.Done, dedup.Acquired, dedup.Busy, dedup.Done, dedup.TooOld, dedup.Done, dedup.Done, dedup.Acquired,
		}
		for i, a := range answers {
			if a.Kind != want[i] {
				s.Errorf("item %d: answered %s (%v), want %s", i, a.Kind, a.Err, want[i])
			}
		}
		if answers[1].Fence <= c.Fence {
			s.Errorf("fence %d after %d in one batch", answers[1].Fence, c.Fence)
		}
	}},
	{"batch: a whole life of a key in one", func(s *session) {
		first := s.claim("k", dedup.Acquired)
		again := s.claimOp("k")
		a := s.apply(endOp(first, dedup.Skip), again, s.claimOp("k"))
		if a[0].Kind != dedup.Done || a[0].State != dedup.Absent || a[1].Kind != dedup.Acquired || a[1].Fence <= first.Fence || a[2].Kind != dedup.Busy {
			s.Errorf("answers %+v", a)
		}
		s.end(held{Answer: a[1], key: again.Key, token: again.Token}, dedup.Success, dedup.Succeeded)
	}},
	{"batch: empty, and of a thousand", func(s *session) {
		s.apply()
		ops := make([]dedup.Op, 1000)
		for i := range ops {
			ops[i] = s.claimOp(fmt.Sprint("order ", i))
		}
		for i, a := range s.apply(ops...) {
			if a.Kind != dedup.Acquired {
				s.Fatalf("item %d: answered %s (%v)", i, a.Kind, a.Err)
			}
			ops[i] = endOp(held{Answer: a, key: ops[i].Key, token: ops[i].Token}, dedup.Success)
		}
		for i, a := range s.apply(ops...) {
			if a.Kind != dedup.Done || a.State != dedup.Succeeded {
				s.Fatalf("item %d: answered %s (%v)", i, a.Kind, a.Err)
			}
		}
	}},
	{"batch: the caller's memory is the caller's again", func(s *session) {
		c := s.claim("k", dedup.Acquired)
		s.by(c, dedup.Dispatch, dedup.Done, charge)
		outcome := []byte("paid")
		s.by(c, dedup.Confirm, dedup.Done, dedup.EffectOp{Name: "charge", Outcome: outcome})
		result := []byte("receipt")
		ops := []dedup.Op{endOp(c, dedup.Success, func(op *dedup.Op) { op.Result = result })}
		s.apply(ops...)
		ops[0] = dedup.Op{}
		copy(outcome, "XXXX")
		copy(result, "XXXXXXX")
		for range 2 { // what was read is the reader's
			r := s.record(c.key)
			if string(r.Result) != "receipt" || string(r.Intents[0].Outcome) != "paid" {
				s.Fatalf("result %q, outcome %q", r.Result, r.Intents[0].Outcome)
			}
			copy(r.Result, "XXXXXXX")
			copy(r.Intents[0].Outcome, "XXXX")
			r.Intents[0].Effect = "XXXX"
			d := s.claim("k", dedup.DuplicateSucceeded)
			copy(d.Record.Result, "XXXXXXX")
		}
	}},
	{"batch: invalid items say which field", func(s *session) {
		for name, change := range map[string]func(*dedup.Op){
			"no kind":      func(op *dedup.Op) { op.Kind = 0 },
			"unknown kind": func(op *dedup.Op) { op.Kind = 200 },
			"no consumer":  func(op *dedup.Op) { op.Key.Consumer = "" },
			"no id":        func(op *dedup.Op) { op.Key.ID = "" },
			"long id":      func(op *dedup.Op) { op.Key.ID = string(make([]byte, dedup.MaxID+1)) },
			"no token":     func(op *dedup.Op) { op.Token = dedup.Token{} },
			"no policy":    func(op *dedup.Op) { op.Policy = nil },
			"short lease":  func(op *dedup.Op) { op.Lease = 1 },
			"long result": func(op *dedup.Op) {
				*op = endOp(held{key: op.Key, Answer: dedup.Answer{Fence: 1}}, dedup.Success)
				op.Result = make([]byte, dedup.MaxResult+1)
			},
			"no fence":  func(op *dedup.Op) { *op = endOp(held{key: op.Key}, dedup.Success) },
			"no effect": func(op *dedup.Op) { op.Kind, op.Fence = dedup.Dispatch, 1 },
			"no letter": func(op *dedup.Op) { op.Kind = dedup.NoteLetter },
			"nobody":    func(op *dedup.Op) { op.Kind = dedup.Delete },
		} {
			a := s.do(s.claimOp("k", change))
			if a.Kind != dedup.Invalid || !errors.Is(a.Err, dedup.ErrInvalidOp) {
				s.Errorf("%s: answered %s, %v", name, a.Kind, a.Err)
			}
		}
		s.is(s.key("k"), dedup.Absent)
	}},
}
