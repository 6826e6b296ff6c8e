package storetest

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/dedup"
)

// randomChecks compare the store with the oracle.
var randomChecks = []check{
	{"random: any sequence of operations is answered as the table says", func(s *session) {
		if f := flag.Lookup("rapid.checks"); f != nil && f.Value.String() == f.DefValue {
			defer func(was string) { _ = f.Value.Set(was) }(f.Value.String())
			_ = f.Value.Set(fmt.Sprint(s.h.Sequences))
		}
		n := 0
		rapid.Check(s, func(t *rapid.T) {
			// All sequences share a store, so each has a consumer of its own.
			n++
			s.consumer = fmt.Sprint("consumer ", n)
			(&sequence{session: s, t: t, world: newWorld()}).run()
		})
	}},
}

// sequence is one random sequence.
type sequence struct {
	*session
	t     *rapid.T
	world *world
	// given are claims that were acquired, oldest first.
	given []held
	trace []string
}

var ids = []string{"a", "b"}

func (q *sequence) run() {
	for range rapid.IntRange(1, 30).Draw(q.t, "steps") {
		switch rapid.IntRange(0, 9).Draw(q.t, "step") {
		case 0, 1:
			d := rapid.SampledFrom([]time.Duration{time.Second, 6 * time.Second, 11 * time.Second, 45 * time.Second, windowOver}).Draw(q.t, "time passes")
			q.trace = append(q.trace, fmt.Sprint("time passes: ", d))
			q.pass(d)
		case 2:
			q.sweep()
		default:
			q.batch()
		}
		q.compare()
	}
}

func (q *sequence) fatalf(format string, args ...any) {
	q.t.Fatalf("%s\nafter\n%s", fmt.Sprintf(format, args...), strings.Join(q.trace, "\n"))
}

func (q *sequence) batch() {
	ops := make([]dedup.Op, rapid.SampledFrom([]int{1, 1, 1, 2, 4}).Draw(q.t, "batch"))
	for i := range ops {
		ops[i] = q.draw()
	}
	q.world.now = q.now()
	answers, err := q.store.Apply(context.Background(), ops)
	if err != nil || len(answers) != len(ops) {
		q.fatalf("apply: %d answers, %v", len(answers), err)
	}
	for i, a := range answers {
		q.trace = append(q.trace, fmt.Sprintf("%s: %s fence %d", describe(&ops[i]), a.Kind, a.Fence))
		if err := q.world.expect(&ops[i], a); err != nil {
			q.fatalf("%s: %v", describe(&ops[i]), err)
		}
		if a.Kind.Acquired() {
			q.given = append(q.given, held{Answer: a, key: ops[i].Key, token: ops[i].Token})
		}
	}
}

func describe(op *dedup.Op) string {
	s := fmt.Sprintf("%s %s", op.Kind, op.Key.ID)
	switch {
	case op.Kind == dedup.Claim:
		return fmt.Sprintf("%s token %d print %d", s, op.Token[7], op.Fingerprint.Sum[0])
	case op.Effect != nil:
		return fmt.Sprintf("%s by %d: %+v", s, op.Fence, *op.Effect)
	case op.Letter != nil:
		l := op.Letter
		return fmt.Sprintf("%s letter %s %s to %s by %q", s, l.Letter.ID, l.From, l.To, l.Letter.Job)
	case op.Operator != nil:
		return fmt.Sprintf("%s as %+v", s, *op.Operator)
	case op.Kind == dedup.End:
		return fmt.Sprintf("%s by %d: %s wait %v", s, op.Fence, op.Outcome, op.Wait)
	case op.Kind == dedup.Advance:
		return fmt.Sprintf("%s to %d", s, op.Position.Offset)
	}
	return fmt.Sprintf("%s by %d", s, op.Fence)
}

// often draws true n times in ten.
func (q *sequence) often(n int, what string) bool {
	return rapid.IntRange(0, 9).Draw(q.t, what) < n
}

func (q *sequence) draw() dedup.Op {
	key := q.key(rapid.SampledFrom(ids).Draw(q.t, "id"))
	kinds := []dedup.Kind{
		dedup.Claim, dedup.Claim, dedup.Claim, dedup.Claim, dedup.Renew, dedup.Alone, dedup.Dispatch, dedup.Dispatch, dedup.Confirm,
		dedup.Refuse, dedup.VerifyNot, dedup.End, dedup.End, dedup.End, dedup.NoteLetter, dedup.NoteLetter, dedup.MoveLetter,
		dedup.SendNoted, dedup.Advance, dedup.Unlock, dedup.Delete, dedup.Import, dedup.Reconcile, dedup.Reopen, dedup.Reopen,
	}
	op := dedup.Op{Kind: rapid.SampledFrom(kinds).Draw(q.t, "kind"), Key: key}
	if (op.Kind == dedup.Reopen || op.Kind == dedup.Delete) && q.often(3, "of a letter without a key") {
		op.Key = q.letterKey(rapid.IntRange(1, 2).Draw(q.t, "letter without a key"))
	}
	switch op.Kind {
	case dedup.Claim:
		q.drawClaim(&op)
	case dedup.Renew, dedup.Alone, dedup.Dispatch, dedup.Confirm, dedup.Refuse, dedup.VerifyNot, dedup.End:
		q.drawOwner(&op)
	case dedup.NoteLetter, dedup.MoveLetter, dedup.SendNoted:
		q.drawLetter(&op)
	case dedup.Advance:
		op.Key = dedup.Key{Consumer: q.consumer}
		op.Position = at(rapid.Int64Range(0, 6).Draw(q.t, "offset"))
	default:
		q.drawOperator(&op)
	}
	return op
}

func (q *sequence) drawPolicy() *dedup.Policy {
	p := *policy
	p.Archive, p.NoLetters = q.often(2, "archive"), q.often(2, "no letters")
	return &p
}

func (q *sequence) drawClaim(op *dedup.Op) {
	op.Token, op.Fingerprint, op.Policy, op.Lease = q.token(), digest(1), q.drawPolicy(), lease
	if len(q.given) > 0 && q.often(2, "same token") {
		op.Token = q.given[len(q.given)-1].token
	}
	if q.often(1, "other content") {
		op.Fingerprint = digest(2)
	}
	if q.often(1, "other rule") {
		op.Fingerprint = dedup.Fingerprint{Sum: [32]byte{3}, Rule: 2}
	}
	if q.often(4, "source") {
		op.Position = at(rapid.Int64Range(0, 6).Draw(q.t, "offset"))
		op.Stored = q.now().Add(-rapid.SampledFrom([]time.Duration{time.Second, windowOver, 2 * windowOver}).Draw(q.t, "age"))
		op.ReplayToken, op.Copy = q.drawToken(), q.often(2, "copy")
	}
}

func (q *sequence) drawToken() string {
	return rapid.SampledFrom([]string{"", "token 1 of " + q.consumer, "token 2 of " + q.consumer}).Draw(q.t, "replay token")
}

func (q *sequence) drawOwner(op *dedup.Op) {
	op.Fence, op.Token = 1, dedup.Token{1}
	if n := len(q.given); n > 0 {
		c := q.given[n-1]
		if q.often(3, "earlier claim") {
			c = rapid.SampledFrom(q.given).Draw(q.t, "claim")
		}
		op.Key, op.Fence, op.Token = c.key, c.Fence, c.token
	}
	switch op.Kind {
	case dedup.Renew:
		op.Lease = lease
	case dedup.Alone:
	case dedup.End:
		op.Policy = q.drawPolicy()
		op.Outcome = rapid.SampledFrom([]dedup.Outcome{
			dedup.Success, dedup.Success, dedup.Terminal, dedup.Exhausted, dedup.Failure, dedup.Failure, dedup.Release, dedup.Doubt, dedup.Skip,
		}).Draw(q.t, "outcome")
		op.Wait = rapid.SampledFrom([]time.Duration{0, pause}).Draw(q.t, "wait")
		op.Result = []byte(rapid.SampledFrom([]string{"", "receipt", "\x00\xff"}).Draw(q.t, "result"))
		op.Reason = op.Outcome.String()
	default:
		e := rapid.SampledFrom([]dedup.EffectOp{charge, sms}).Draw(q.t, "effect")
		if op.Kind == dedup.VerifyNot && q.often(3, "asked before") {
			e.AskedAt = q.now().Add(-6 * time.Second)
		}
		op.Effect = &e
	}
}

func (q *sequence) drawLetter(op *dedup.Op) {
	if q.often(2, "no key") {
		op.Key = q.letterKey(rapid.IntRange(1, 2).Draw(q.t, "letter without a key"))
	}
	f := q.world.fact(op.Key)
	letter := dedup.Letter{
		ID:    fmt.Sprintf("%s/%s/%d", q.consumer, op.Key.ID, rapid.IntRange(1, 2).Draw(q.t, "letter")),
		Job:   rapid.SampledFrom([]string{"", "job-1", "job-2"}).Draw(q.t, "job"),
		Token: q.drawToken(), Expired: q.often(5, "though expired"),
		Reason: rapid.SampledFrom([]string{"terminal", "terminal", "in-doubt", "conflict"}).Draw(q.t, "reason"),
		Opened: f.opened, Run: f.run,
		Answer: rapid.SampledFrom([]dedup.State{dedup.Absent, dedup.Succeeded, dedup.Failed}).Draw(q.t, "answer"),
	}
	if q.often(2, "of another run") {
		letter.Opened += 7
	}
	op.Letter = &dedup.LetterOp{Letter: letter}
	if op.Key.Scope == dedup.LetterScope {
		op.Letter.Letter.ID = op.Key.ID
	}
	if op.Kind == dedup.NoteLetter {
		op.Letter.Settles, op.Letter.Window = q.often(7, "settles"), window
		if op.Key.Scope == dedup.LetterScope && q.often(5, "source") {
			op.Letter.Letter.Source = at(rapid.Int64Range(0, 6).Draw(q.t, "offset"))
		}
	}
	if op.Kind == dedup.MoveLetter {
		op.Letter.Letter.Run = uint32(rapid.IntRange(0, 2).Draw(q.t, "run as seen"))
		if n := q.world.notes[letter.ID]; n != nil && q.often(8, "run as it is") {
			op.Letter.Letter.Run = max(n.run, 1)
		}
		states := []dedup.LetterState{dedup.LetterOpen, dedup.LetterSent, dedup.LetterResolved, dedup.LetterDiscarded, dedup.LetterHeld, dedup.LetterGone}
		op.Letter.To = rapid.SampledFrom(states).Draw(q.t, "to")
		op.Letter.From = rapid.SampledFrom(states).Draw(q.t, "from")
		if n := q.world.notes[letter.ID]; n != nil && q.often(8, "as it is") {
			op.Letter.From = n.state
		}
	}
}

func (q *sequence) drawOperator(op *dedup.Op) {
	r := q.record(op.Key)
	o := &dedup.OperatorOp{Seen: r.Seen(), Who: "ann", Why: "asked", LetterRun: r.Run, Fingerprint: digest(1)}
	op.Operator = o
	if r.State != dedup.Absent && q.often(1, "stale") {
		o.Seen.Fence++
	}
	if q.often(1, "expired") {
		o.Expires = q.now().Add(-time.Minute)
	}
	verdicts := []dedup.Verdict{dedup.Keep, dedup.Happened, dedup.DidNot, dedup.RunAgain}
	o.Decide = map[string]dedup.Verdict{
		"charge": rapid.SampledFrom(verdicts).Draw(q.t, "charge"), "sms": rapid.SampledFrom(verdicts).Draw(q.t, "sms"),
	}
	switch op.Kind {
	case dedup.Import:
		o.Result, o.Window, o.Archive = []byte("imported"), window, q.often(3, "archive")
	case dedup.Reconcile:
		o.To = rapid.SampledFrom([]dedup.Outcome{dedup.Success, dedup.Terminal, dedup.Release}).Draw(q.t, "to")
		if q.often(3, "with a job") {
			o.Job = "job-1"
		}
	case dedup.Reopen:
		o.Job = rapid.SampledFrom([]string{"job-1", "job-2"}).Draw(q.t, "job")
		if q.often(2, "earlier letter") {
			o.LetterRun++
		}
		if q.often(2, "other content") {
			o.Fingerprint = digest(2)
		}
		if q.often(3, "of a letter") {
			o.Letter = fmt.Sprintf("%s/%s/%d", q.consumer, op.Key.ID, rapid.IntRange(1, 2).Draw(q.t, "letter"))
		}
		if q.often(2, "by position") {
			o.Send = at(rapid.Int64Range(0, 6).Draw(q.t, "offset"))
		}
	}
}

// keys are all that a sequence speaks of.
func (q *sequence) keys() []dedup.Key {
	keys := []dedup.Key{q.letterKey(1), q.letterKey(2)}
	for _, id := range ids {
		keys = append(keys, q.key(id))
	}
	return keys
}

// letterKey is the key of a letter whose message has none; its dl-id is this
// run's own.
func (q *sequence) letterKey(n int) dedup.Key {
	return dedup.LetterKey(q.consumer, fmt.Sprintf("%s/%d", q.consumer, n))
}

// sweep compares what a sweep ends with what was due.
func (q *sequence) sweep() {
	q.trace = append(q.trace, "sweep")
	q.world.now = q.now()
	q.session.sweep()
	for _, key := range q.keys() {
		f := q.world.fact(key)
		if !q.world.due(key, f) {
			continue // compare sees it when it was swept nevertheless
		}
		if r := q.record(key); q.h.SweepLate == 0 || r.State != f.state {
			f.sweep()
			maps.DeleteFunc(q.world.notes, func(_ string, n *note) bool { return n.key == key && f.state == dedup.Absent })
		}
	}
}

// compare reads everything and compares it with what must be known.
func (q *sequence) compare() {
	q.world.now = q.now()
	for _, key := range q.keys() {
		if diff := q.world.fact(key).diff(q.record(key), q.world.now); diff != "" {
			q.fatalf("record of %v: %s", key, diff)
		}
	}
	for id, n := range q.world.notes {
		l := q.letter(id)
		if l.State != n.state || l.Job != n.job || l.Token != n.token || l.Key != n.key || l.Run != n.run || l.Answer != n.answer || l.Expired != n.expired {
			q.fatalf("letter %+v, want %+v", l, *n)
		}
	}
	prefixes, err := q.store.Prefixes(context.Background(), q.consumer)
	if err != nil {
		q.fatalf("prefixes: %v", err)
	}
	if want := q.world.settled[lane(at(0))]; len(prefixes) > 1 || len(prefixes) == 1 && prefixes[0] != at(want) || len(prefixes) == 0 && want > 0 {
		q.fatalf("prefixes %+v, want %d", prefixes, want)
	}
}

// diff says in which fields the record differs.
func (f *fact) diff(r dedup.Record, now time.Time) string {
	var b strings.Builder
	field := func(name string, got, want any) {
		if got != want {
			fmt.Fprintf(&b, "%s is %v, want %v; ", name, got, want)
		}
	}
	field("state", r.State, f.state)
	if f.state == dedup.Absent || r.State != f.state {
		return b.String()
	}
	field("fence", r.Fence, f.fence)
	field("opened", r.Opened, f.opened)
	field("run", r.Run, f.run)
	field("failures", r.Failures, f.failures)
	field("crashes", r.Crashes, f.crashes)
	field("lone", r.Lone, f.lone)
	field("fingerprint", r.Fingerprint, f.sum)
	field("live", r.Live, f.live(now))
	field("alone", r.Alone, f.alone)
	field("owed", r.Owed, f.owed)
	field("result", string(r.Result), f.result)
	field("source", r.Source, f.source)
	field("archive", r.Archive, f.archive || f.state == dedup.Tombstone)
	field("job", r.Job, f.job)
	field("sent", r.Sent, f.sent)
	field("outcome", r.Outcome, f.outcome)
	if f.state == dedup.Failed || f.state == dedup.InDoubt {
		field("reason", r.Reason, f.reason)
	}
	if f.state == dedup.Retryable {
		field("early", now.Before(r.NotBefore), now.Before(f.early))
	}
	if f.state != dedup.Tombstone {
		field("window", r.Window, f.window)
	}
	var got, want []effect
	for _, i := range r.Intents {
		e := effect{name: i.Effect, status: i.Status, again: i.EffectRun}
		if i.Status == dedup.Dispatched {
			e.blind, e.quiet = i.Blind, i.QuietFor
		}
		got = append(got, e)
	}
	for _, e := range f.effects {
		e.since = time.Time{}
		if e.status != dedup.Dispatched {
			e.blind, e.quiet = false, 0
		}
		want = append(want, e)
	}
	field("intents", fmt.Sprint(got), fmt.Sprint(want))
	return b.String()
}
