package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/onceward/onceward/dedup"
)

// fact is what must be known of a key. This file and oracle_operator.go say by
// themselves what every operation does to it, written from the state table
// and not from the code that stores share, so that a fault there is found.
//
// Fences are the store's: the oracle takes each new one over and demands only
// that it is above all before, because a store may leave some out.
type fact struct {
	state         dedup.State
	fence, opened uint64
	highest       uint64 // ever given, also before a deletion
	run           uint32
	failures      uint32
	crashes, lone uint32

	sum    dedup.Fingerprint
	token  dedup.Token
	until  time.Time // of the lease
	early  time.Time // not before
	alone  bool
	owed   bool
	result string
	reason string

	effects []effect

	source   dedup.Position
	finished time.Time
	window   time.Duration
	archive  bool
	outcome  dedup.State // that a tombstone keeps
	job      string
	sent     bool
}

type effect struct {
	name   string
	status dedup.IntentStatus
	blind  bool
	again  uint32
	since  time.Time
	quiet  time.Duration
}

// note is what must be known of a letter.
type note struct {
	key        dedup.Key
	state      dedup.LetterState
	token, job string
	expired    bool
	run        uint32
	reason     string
	source     dedup.Position
	answer     dedup.State
}

// world is all that a store must know.
type world struct {
	now     time.Time
	facts   map[dedup.Key]*fact
	notes   map[string]*note
	settled map[dedup.Position]int64 // by position without its offset
}

func newWorld() *world {
	return &world{facts: make(map[dedup.Key]*fact), notes: make(map[string]*note), settled: make(map[dedup.Position]int64)}
}

func (w *world) fact(key dedup.Key) *fact {
	if w.facts[key] == nil {
		w.facts[key] = &fact{}
	}
	return w.facts[key]
}

func lane(p dedup.Position) dedup.Position { p.Offset = 0; return p }

func (w *world) passed(p dedup.Position) bool {
	return p != (dedup.Position{}) && p.Offset < w.settled[lane(p)]
}

func (w *world) unfinished(key dedup.Key) (n int) {
	for _, l := range w.notes {
		if l.key == key && (l.state == dedup.LetterOpen || l.state == dedup.LetterSent || l.state == dedup.LetterHeld) {
			n++
		}
	}
	return n
}

// expect takes op over and says what is wrong with the store's answer.
func (w *world) expect(op *dedup.Op, got dedup.Answer) error {
	if err := op.Validate(); err != nil {
		return differs(dedup.Invalid, got)
	}
	switch {
	case op.Kind == dedup.Advance:
		w.settled[lane(op.Position)] = max(w.settled[lane(op.Position)], op.Position.Offset)
		return differs(dedup.Done, got)
	case op.Letter != nil:
		return w.letter(op, got)
	}
	f := w.fact(op.Key)
	var want dedup.AnswerKind
	switch {
	case op.Kind == dedup.Claim:
		want = w.claim(f, op, got)
	case op.Operator != nil:
		want = w.operate(f, op, got)
	default:
		want = w.own(f, op, got)
	}
	if err := differs(want, got); err != nil || want == dedup.Invalid {
		return err
	}
	return f.agrees(want, got, w.now)
}

func differs(want dedup.AnswerKind, got dedup.Answer) error {
	if got.Kind != want {
		return fmt.Errorf("answered %s (%s), want %s", got.Kind, fmt.Sprint(got.Err), want)
	}
	return nil
}

// agrees compares what every answer says of the record.
func (f *fact) agrees(kind dedup.AnswerKind, got dedup.Answer, now time.Time) error {
	if got.Fence < f.highest && got.Fence != f.fence || f.state != dedup.Absent && got.Fence != f.fence {
		return fmt.Errorf("fence %d, the record has %d", got.Fence, f.fence)
	}
	want := [...]uint64{uint64(f.state), uint64(f.run), uint64(f.failures), uint64(f.crashes), uint64(f.lone), f.opened}
	have := [...]uint64{uint64(got.State), uint64(got.Run), uint64(got.Failures), uint64(got.Crashes), uint64(got.Lone), got.Opened}
	if want != have {
		return fmt.Errorf("state, run, failures, crashes, lone, opened are %d, want %d", have, want)
	}
	var wait time.Duration
	switch kind {
	case dedup.Busy:
		wait = f.until.Sub(now)
	case dedup.NotBefore:
		wait = f.early.Sub(now)
	case dedup.DuplicateSucceeded, dedup.DuplicateFailed, dedup.HeldInDoubt, dedup.Conflict, dedup.AcquiredInDoubt, dedup.AcquiredToBury,
		dedup.Continued:
		if got.Record == nil {
			return fmt.Errorf("%s comes without its record", kind)
		}
	}
	if d := got.Wait - wait; d > time.Second/4 || d < -time.Second/4 {
		return fmt.Errorf("wait %v, want %v", got.Wait, wait)
	}
	return nil
}

// rise takes the next fence over from the answer.
func (f *fact) rise(got dedup.Answer) {
	f.fence = got.Fence
	if got.Fence <= f.highest {
		f.fence = f.highest + 1 // and so the answer disagrees
	}
	f.highest = f.fence
}

// again begins a run.
func (f *fact) again(got dedup.Answer) {
	keep := fact{run: f.run + 1, highest: f.highest, sum: f.sum, effects: f.effects, source: f.source, token: f.token, window: f.window, archive: f.archive}
	*f = keep
	f.state = dedup.Retryable
	f.rise(got)
	f.opened = f.fence
}

func (f *fact) forget() { *f = fact{highest: f.highest} }

func (f *fact) live(now time.Time) bool { return f.state == dedup.InProgress && now.Before(f.until) }

func (f *fact) count(is func(effect) bool) (n int) {
	for _, e := range f.effects {
		if is(e) {
			n++
		}
	}
	return n
}
func (f *fact) doubt() bool {
	return f.count(func(e effect) bool { return e.status == dedup.Dispatched }) > 0
}
func (f *fact) blind() bool {
	return f.count(func(e effect) bool { return e.status == dedup.Dispatched && e.blind }) > 0
}
func (f *fact) touched() bool {
	return f.count(func(e effect) bool { return e.status != dedup.NoIntent }) > 0
}

func (f *fact) take(op *dedup.Op, now time.Time) {
	f.state, f.alone, f.token, f.until, f.early = dedup.InProgress, false, op.Token, now.Add(op.Lease), time.Time{}
	f.window, f.archive = op.Policy.Window, op.Policy.Archive
	if op.Position != (dedup.Position{}) {
		f.source = op.Position
	}
}

func (f *fact) hold(p *dedup.Policy) dedup.AnswerKind {
	f.state, f.owed, f.alone, f.reason = dedup.InDoubt, !p.NoLetters, false, "in-doubt"
	return dedup.HeldInDoubt
}

func (w *world) claim(f *fact, op *dedup.Op, got dedup.Answer) dedup.AnswerKind {
	p := op.Policy
	used := func() bool { return f.lone >= p.Lone || f.failures >= p.Failures }
	if f.state == dedup.Absent {
		old := !op.Stored.IsZero() && p.Window > 0 && w.now.Sub(op.Stored) > p.Window
		if old && (op.Copy || w.passed(op.Position)) && !w.admits(op) {
			return dedup.TooOld
		}
		f.forget()
		f.again(got)
		f.sum = op.Fingerprint
		f.take(op, w.now)
		return dedup.Acquired
	}
	if f.sum.Rule == op.Fingerprint.Rule && f.sum.Sum != op.Fingerprint.Sum {
		return dedup.Conflict
	}
	switch ended := f.state; {
	case ended == dedup.Succeeded, ended == dedup.Tombstone && f.outcome == dedup.Succeeded:
		return dedup.DuplicateSucceeded
	case ended == dedup.Failed, ended == dedup.Tombstone:
		return dedup.DuplicateFailed
	case ended == dedup.InDoubt:
		return dedup.HeldInDoubt
	}
	mine := f.live(w.now) && f.token == op.Token
	switch {
	case mine:
	case f.live(w.now):
		return dedup.Busy
	case f.state == dedup.Retryable && w.now.Before(f.early):
		return dedup.NotBefore
	case f.blind(), f.state == dedup.InProgress && f.doubt() && used():
		return f.hold(p)
	default:
		if f.state == dedup.InProgress {
			f.crashes++
			if f.alone {
				f.lone++
			}
		}
		f.rise(got)
		f.take(op, w.now)
	}
	switch {
	case used():
		return dedup.AcquiredToBury
	case f.doubt():
		return dedup.AcquiredInDoubt
	}
	return dedup.Acquired
}

// admits says that a letter of the key, or one that stands for its own message,
// was sent with the claim's token although it had expired.
func (w *world) admits(op *dedup.Op) bool {
	for _, l := range w.notes {
		if op.ReplayToken != "" && l.token == op.ReplayToken && l.job != "" && (l.state == dedup.LetterOpen || l.state == dedup.LetterSent) &&
			l.expired && (l.key == op.Key || l.key.Scope == "onceward.letter" && l.key.Consumer == op.Key.Consumer) {
			return true
		}
	}
	return false
}

// own is every operation of an owner.
func (w *world) own(f *fact, op *dedup.Op, got dedup.Answer) dedup.AnswerKind {
	if f.state != dedup.Absent && op.Fence > f.fence {
		return dedup.Invalid
	}
	late := f.state == dedup.InDoubt
	if op.Fence != f.fence || f.state != dedup.InProgress && !late {
		return dedup.Fenced
	}
	if op.Kind == dedup.End {
		if late && op.Outcome == dedup.Doubt && op.Token == f.token {
			return dedup.Fenced // the same write again
		}
		f.end(op, got, w.now, late)
		return dedup.Done
	}
	var e *effect
	if op.Effect != nil {
		if i := slices.IndexFunc(f.effects, func(e effect) bool { return e.name == op.Effect.Name }); i >= 0 {
			e = &f.effects[i]
		} else {
			e = &effect{name: op.Effect.Name}
		}
	}
	done := false
	switch op.Kind {
	case dedup.Confirm:
		if done = e.status != dedup.NoIntent; done {
			e.status = dedup.Confirmed
		}
	case dedup.Refuse:
		if done = e.status == dedup.Dispatched; done {
			e.status = dedup.NoIntent
		}
	case dedup.Renew:
		if done = f.live(w.now); done {
			f.until = w.now.Add(op.Lease)
		}
	case dedup.Alone:
		if done = f.live(w.now); done {
			f.alone = true
		}
	case dedup.Dispatch:
		if done = !late && e.status == dedup.NoIntent; done {
			e.status, e.blind, e.since, e.quiet = dedup.Dispatched, op.Effect.Blind, w.now, op.Effect.QuietFor
			if !slices.ContainsFunc(f.effects, func(k effect) bool { return k.name == e.name }) {
				f.effects = append(f.effects, *e)
			}
		}
	case dedup.VerifyNot:
		asked := op.Effect.AskedAt
		if asked.IsZero() || asked.After(w.now) {
			asked = w.now
		}
		if done = !late && e.status == dedup.Dispatched && !e.blind && asked.Sub(e.since) >= e.quiet; done {
			e.status = dedup.NoIntent
		}
	}
	if !done {
		return dedup.Fenced
	}
	return dedup.Done
}

func (f *fact) end(op *dedup.Op, got dedup.Answer, now time.Time, late bool) {
	f.alone, f.until = false, time.Time{}
	used := f.lone >= op.Policy.Lone || f.failures >= op.Policy.Failures
	switch op.Outcome {
	case dedup.Failure, dedup.Skip:
		f.failures++
	case dedup.Exhausted:
		if !used {
			f.failures++
		}
	}
	f.window, f.archive = op.Policy.Window, op.Policy.Archive
	owes := f.owed || !late && !op.Policy.NoLetters
	final := op.Outcome == dedup.Success || op.Outcome == dedup.Terminal || op.Outcome == dedup.Exhausted
	switch {
	case op.Outcome == dedup.Skip && !f.touched() && f.run == 1 && !late:
		f.forget()
	case op.Outcome == dedup.Doubt, f.blind(), f.doubt() && (final || late):
		f.state, f.owed, f.reason = dedup.InDoubt, owes, "in-doubt"
	case op.Outcome == dedup.Success:
		f.state, f.owed, f.finished, f.result, f.reason = dedup.Succeeded, false, now, string(op.Result), ""
	case final:
		f.state, f.owed, f.finished, f.reason = dedup.Failed, owes, now, op.Reason
	case late:
		f.again(got)
	default:
		f.state, f.early = dedup.Retryable, now.Add(op.Wait)
		if op.Outcome != dedup.Release {
			f.reason = op.Reason
		}
	}
}
