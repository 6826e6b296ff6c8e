package storetest

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/dedup"
)

// The durations of the suite. None is a whole number of seconds and time moves
// by whole seconds, so that a clock that is some milliseconds off never decides.
const (
	lease  = 10500 * time.Millisecond
	pause  = 5500 * time.Millisecond // not before
	quiet  = 7500 * time.Millisecond
	window = 100500 * time.Millisecond

	leaseOver  = 11 * time.Second
	pauseOver  = 6 * time.Second
	quietOver  = 8 * time.Second
	windowOver = 101 * time.Second
)

// patience is more than any call of a healthy store takes.
const patience = 30 * time.Second

var policy = &dedup.Policy{Failures: 3, Lone: 2, Window: window}

func with(change func(p *dedup.Policy)) func(*dedup.Op) {
	p := *policy
	change(&p)
	return func(op *dedup.Op) { op.Policy = &p }
}

func digest(n byte) dedup.Fingerprint { return dedup.Fingerprint{Sum: [32]byte{n}, Rule: 1} }

// held is a claim as its owner knows it.
type held struct {
	dedup.Answer
	key   dedup.Key
	token dedup.Token
}

func (s *session) key(id string) dedup.Key {
	return dedup.Key{Consumer: s.consumer, Scope: "order.create", ID: id}
}

func (s *session) token() (t dedup.Token) {
	s.tokens++
	binary.BigEndian.PutUint64(t[:], s.tokens)
	return t
}

// apply is one call of the store.
func (s *session) apply(ops ...dedup.Op) []dedup.Answer {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	answers, err := s.store.Apply(ctx, ops)
	if err != nil {
		s.Fatalf("apply: %v", err)
	}
	if len(answers) != len(ops) {
		s.Fatalf("%d answers to %d operations", len(answers), len(ops))
	}
	return answers
}

func (s *session) do(op dedup.Op) dedup.Answer {
	s.Helper()
	return s.apply(op)[0]
}

func (s *session) claimOp(id string, change ...func(*dedup.Op)) dedup.Op {
	op := dedup.Op{
		Kind: dedup.Claim, Key: s.key(id), Token: s.token(), Fingerprint: digest(1), Policy: policy, Lease: lease,
	}
	for _, c := range change {
		c(&op)
	}
	return op
}

// claim claims and expects kind.
func (s *session) claim(id string, kind dedup.AnswerKind, change ...func(*dedup.Op)) held {
	s.Helper()
	op := s.claimOp(id, change...)
	a := s.do(op)
	s.want("claim", a, kind)
	return held{Answer: a, key: op.Key, token: op.Token}
}

func (s *session) want(what string, a dedup.Answer, kind dedup.AnswerKind) {
	s.Helper()
	if a.Kind != kind {
		s.Fatalf("%s: answered %s (%v), want %s", what, a.Kind, a.Err, kind)
	}
}

func endOp(c held, o dedup.Outcome, change ...func(*dedup.Op)) dedup.Op {
	op := dedup.Op{Kind: dedup.End, Key: c.key, Fence: c.Fence, Token: c.token, Policy: policy, Outcome: o}
	for _, ch := range change {
		ch(&op)
	}
	return op
}

// end ends the claim and expects that it leaves the state.
func (s *session) end(c held, o dedup.Outcome, state dedup.State, change ...func(*dedup.Op)) dedup.Answer {
	s.Helper()
	a := s.do(endOp(c, o, change...))
	s.want(o.String(), a, dedup.Done)
	if a.State != state {
		s.Fatalf("%s: the answer says %s, want %s", o, a.State, state)
	}
	s.is(c.key, state)
	return a
}

// by is an owner's operation without an outcome.
func (s *session) by(c held, k dedup.Kind, kind dedup.AnswerKind, effect ...dedup.EffectOp) dedup.Answer {
	s.Helper()
	op := dedup.Op{Kind: k, Key: c.key, Fence: c.Fence}
	if k == dedup.Renew {
		op.Lease = lease
	}
	if len(effect) > 0 {
		op.Effect = &effect[0]
	}
	a := s.do(op)
	s.want(k.String(), a, kind)
	return a
}

var (
	charge = dedup.EffectOp{Name: "charge", QuietFor: quiet}
	sms    = dedup.EffectOp{Name: "sms", Blind: true}
)

// record reads the key.
func (s *session) record(key dedup.Key) dedup.Record {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	records, err := s.store.Lookup(ctx, []dedup.Key{key})
	if err != nil || len(records) != 1 {
		s.Fatalf("lookup of %v: %d records, %v", key, len(records), err)
	}
	if records[0].Key != key {
		s.Fatalf("lookup of %q gives the record of %q", key, records[0].Key)
	}
	return records[0]
}

// is reads the key and expects the state.
func (s *session) is(key dedup.Key, state dedup.State) dedup.Record {
	s.Helper()
	r := s.record(key)
	if r.State != state {
		s.Fatalf("%v is %s, want %s", key, r.State, state)
	}
	return r
}

// same expects that nothing about the key has changed since before.
func (s *session) same(before dedup.Record) {
	s.Helper()
	if now, was := show(s.record(before.Key)), show(before); now != was {
		s.Errorf("%v has changed:\n%s\nnow\n%s", before.Key, was, now)
	}
}

// show is everything of a record that a store must keep, without monotonic
// clock readings.
func show(r dedup.Record) string {
	for _, t := range []*time.Time{
		&r.LeaseUntil, &r.NotBefore, &r.FirstFailed, &r.LastFailed, &r.Created, &r.Claimed, &r.Finished,
	} {
		*t = plain(*t)
	}
	r = r.Clone()
	for i := range r.Intents {
		r.Intents[i].Dispatched = plain(r.Intents[i].Dispatched)
	}
	for i := range r.Evidence {
		r.Evidence[i].At = plain(r.Evidence[i].At)
	}
	return fmt.Sprintf("%+v", r)
}

// plain is to the microsecond, which every store keeps.
func plain(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}

// operate is an operator's decision on the key as it is now.
func (s *session) operate(k dedup.Kind, key dedup.Key, kind dedup.AnswerKind, change ...func(*dedup.OperatorOp)) dedup.Answer {
	s.Helper()
	r := s.record(key)
	o := dedup.OperatorOp{Seen: r.Seen(), Who: "ann", Why: "asked the bank"}
	if k == dedup.Reopen {
		o.Job, o.Letter, o.LetterRun, o.Fingerprint = "job-1", "letter-1", r.Run, r.Fingerprint
	}
	for _, c := range change {
		c(&o)
	}
	a := s.do(dedup.Op{Kind: k, Key: key, Operator: &o})
	s.want(k.String(), a, kind)
	return a
}

// note says that the letter of the run that c belongs to is confirmed.
func (s *session) note(id string, c held, change ...func(*dedup.Letter)) {
	s.Helper()
	s.noteOf(id, c, true, change...)
}

// noteOf is note of a letter that may be none that the record owes.
func (s *session) noteOf(id string, c held, settles bool, change ...func(*dedup.Letter)) {
	s.Helper()
	l := dedup.Letter{ID: id, Reason: "terminal", Run: c.Run, Opened: c.Opened}
	for _, ch := range change {
		ch(&l)
	}
	s.want("note letter", s.do(dedup.Op{
		Kind: dedup.NoteLetter, Key: c.key, Letter: &dedup.LetterOp{Letter: l, Settles: settles, Window: window},
	}), dedup.Done)
}

// move moves a letter on and expects kind.
func (s *session) move(id string, key dedup.Key, from, to dedup.LetterState, kind dedup.AnswerKind, change ...func(*dedup.Letter)) {
	s.Helper()
	l := dedup.Letter{ID: id, Who: "ann", Why: "fixed"}
	for _, ch := range change {
		ch(&l)
	}
	a := s.do(dedup.Op{Kind: dedup.MoveLetter, Key: key, Letter: &dedup.LetterOp{Letter: l, From: from, To: to}})
	s.want(fmt.Sprintf("move letter from %s to %s", from, to), a, kind)
}

func (s *session) letter(id string) dedup.Letter {
	s.Helper()
	letters, err := s.store.Letters(context.Background(), []string{id})
	if err != nil || len(letters) != 1 || letters[0].ID != id {
		s.Fatalf("letter %q: %+v, %v", id, letters, err)
	}
	return letters[0]
}

// sweep until nothing more is due, and says how many records it ended.
func (s *session) sweep() (n int) {
	s.Helper()
	for range 1000 {
		swept, err := s.store.Sweep(context.Background(), 100)
		if err != nil {
			s.Fatalf("sweep: %v", err)
		}
		n += swept.Records
		if !swept.More {
			return n
		}
	}
	s.Fatalf("sweep never comes to an end")
	return n
}

// swept sweeps and expects that n records end, as late as the store may be.
func (s *session) swept(when string, n int) {
	s.Helper()
	got := s.sweep()
	if got < n && s.h.SweepLate > 0 {
		s.pass(s.h.SweepLate)
		got += s.sweep()
	}
	if got != n {
		s.Errorf("swept %d records %s, want %d", got, when, n)
	}
}

// advance settles every offset of partition 0 below the given one.
func (s *session) advance(offset int64) {
	s.Helper()
	s.want("advance", s.do(dedup.Op{Kind: dedup.Advance, Key: dedup.Key{Consumer: s.consumer}, Position: at(offset)}), dedup.Done)
}

func at(offset int64) dedup.Position { return dedup.Position{Source: "orders@1", Offset: offset} }

// contains says that word is one of words.
func contains(words, word string) bool { return slices.Contains(strings.Fields(words), word) }
