package storetest

import (
	"slices"

	"github.com/onceward/onceward/dedup"
)

func (w *world) operate(f *fact, op *dedup.Op, got dedup.Answer) dedup.AnswerKind {
	o := op.Operator
	sends := op.Kind == dedup.Reopen || op.Kind == dedup.Reconcile && o.To == dedup.Release
	if sends && o.Job != "" && f.job == o.Job && f.run == o.Seen.Run+1 {
		return dedup.Continued
	}
	fence := f.fence
	if f.state == dedup.Absent {
		// What a store remembers of an absent key is its own affair. One that
		// remembers the fence may refuse what was read before the key came and went.
		fence = o.Seen.Fence
		if got.Kind == dedup.Refused {
			fence = got.Fence
		}
	}
	if o.Seen != (dedup.Seen{State: f.state, Run: f.run, Fence: fence}) || !o.Expires.IsZero() && o.Expires.Before(w.now) {
		return dedup.Refused
	}
	finished := f.state == dedup.Succeeded || f.state == dedup.Failed
	decided := w.decide(f, op)
	doubt := slices.ContainsFunc(decided, func(e effect) bool { return e.status == dedup.Dispatched })
	letters := w.unfinished(op.Key)
	switch {
	case op.Kind == dedup.Unlock && f.state == dedup.InProgress:
		f.until, f.alone = w.now, false
	case op.Kind == dedup.Delete && (finished || f.state == dedup.Retryable) && letters == 0 && !f.owed && !f.touched():
		f.forget()
	case op.Kind == dedup.Import && f.state == dedup.Absent:
		f.forget()
		f.again(got)
		f.state, f.sum, f.finished, f.result, f.window, f.archive = dedup.Succeeded, o.Fingerprint, w.now, string(o.Result), o.Window, o.Archive
	case op.Kind == dedup.Reconcile && f.state == dedup.InDoubt && !doubt:
		f.effects = decided
		switch o.To {
		case dedup.Success:
			f.state, f.owed, f.finished, f.result, f.reason = dedup.Succeeded, false, w.now, string(o.Result), ""
		case dedup.Terminal:
			f.state, f.finished, f.reason = dedup.Failed, w.now, "terminal"
		default:
			f.reopen(o, got)
		}
	case op.Kind == dedup.Reopen && !w.holds(op):
		return dedup.Refused
	case op.Kind == dedup.Reopen && o.LetterRun == f.run && !f.owed && (finished || f.state == dedup.Retryable || f.state == dedup.InDoubt && !doubt):
		f.effects = decided
		f.reopen(o, got)
		f.sum = o.Fingerprint
	case op.Kind == dedup.Sweep && w.due(op.Key, f):
		f.sweep()
	default:
		return dedup.Refused
	}
	return dedup.Done
}

// holds says that the letter for whose copy a record is opened is the job's, or
// that there is no note of it.
func (w *world) holds(op *dedup.Op) bool {
	id := op.Operator.Letter
	if op.Key.Scope == dedup.LetterScope {
		id = op.Key.ID
	}
	n := w.notes[id]
	return n == nil || n.state == dedup.LetterOpen && n.job == op.Operator.Job
}

func (f *fact) reopen(o *dedup.OperatorOp, got dedup.Answer) {
	f.again(got)
	f.job = o.Job
	if o.Letter == "" && o.Send != (dedup.Position{}) {
		f.source = o.Send
	}
}

func (w *world) decide(f *fact, op *dedup.Op) []effect {
	effects := slices.Clone(f.effects)
	read := op.Operator.BooksReadAt
	if read.IsZero() || read.After(w.now) {
		read = w.now
	}
	for i := range effects {
		e := &effects[i]
		switch op.Operator.Decide[e.name] {
		case dedup.Happened:
			if e.status == dedup.Dispatched {
				e.status = dedup.Confirmed
			}
		case dedup.DidNot:
			if e.status == dedup.Dispatched && read.Sub(e.since) >= e.quiet {
				e.status = dedup.NoIntent
			}
		case dedup.RunAgain:
			*e = effect{name: e.name, again: e.again + 1}
		}
	}
	return effects
}

// due says that a sweep may end the record.
func (w *world) due(key dedup.Key, f *fact) bool {
	return (f.state == dedup.Succeeded || f.state == dedup.Failed) && f.window > 0 && w.now.Sub(f.finished) >= f.window &&
		(f.source == dedup.Position{} || w.passed(f.source)) && w.unfinished(key) == 0 && !f.owed
}

func (f *fact) sweep() {
	if !f.archive {
		f.forget()
		return
	}
	*f = fact{
		state: dedup.Tombstone, outcome: f.state, sum: f.sum, run: f.run, fence: f.fence, opened: f.opened, highest: f.highest,
		source: f.source,
	}
}

// letter is every operation on a letter. Where it is refused, the record is
// left alone.
func (w *world) letter(op *dedup.Op, got dedup.Answer) error {
	l, f := &op.Letter.Letter, w.fact(op.Key)
	if l.ID != "" {
		if want := w.moveLetter(op, f); want != dedup.Done {
			return differs(want, got)
		}
	}
	if op.Key.Scope == "onceward.letter" {
		w.standIn(f, w.notes[l.ID], op, got)
	}
	switch {
	case op.Kind == dedup.NoteLetter && f.owed && l.Opened == f.opened && op.Letter.Settles:
		f.owed = false
	case op.Kind == dedup.SendNoted && f.job != "" && f.job == l.Job:
		f.sent = true
	}
	if err := differs(dedup.Done, got); err != nil {
		return err
	}
	return f.agrees(dedup.Done, got, w.now)
}

// standIn is what a letter makes of the record that stands in for its message's.
func (w *world) standIn(f *fact, n *note, op *dedup.Op, got dedup.Answer) {
	if f.state == dedup.Absent {
		f.forget()
		f.again(got)
		f.window, f.source = op.Letter.Window, n.source
	}
	want := dedup.Failed
	switch {
	case n.state == dedup.LetterSent && n.job != "", n.state == dedup.LetterOpen && n.job != "":
		return
	case n.state == dedup.LetterResolved && n.answer == dedup.Succeeded:
		want = dedup.Succeeded
	}
	if f.state != want {
		f.state, f.finished, f.reason = want, w.now, n.reason
	}
}

func (w *world) moveLetter(op *dedup.Op, f *fact) dedup.AnswerKind {
	l := &op.Letter.Letter
	n := w.notes[l.ID]
	if n == nil {
		if op.Kind == dedup.NoteLetter {
			w.notes[l.ID] = &note{key: op.Key, run: l.Run, reason: l.Reason, source: l.Source}
			w.notes[l.ID].died()
			return dedup.Done
		}
		return dedup.Refused
	}
	from, to := op.Letter.From, op.Letter.To
	switch {
	case n.key != op.Key:
		return dedup.Refused
	case op.Kind == dedup.NoteLetter && n.waitsFor(l.Token):
		n.run = max(n.run, 1) + 1
		n.died()
		return dedup.Done
	case op.Kind == dedup.NoteLetter:
		return dedup.Done
	case op.Kind == dedup.SendNoted && n.state == dedup.LetterSent && n.job == l.Job:
		return dedup.Done
	case op.Kind == dedup.SendNoted && n.job != l.Job:
		return dedup.Refused
	case op.Kind == dedup.SendNoted:
		from, to = n.state, dedup.LetterSent
	}
	ways := map[dedup.LetterState]string{
		dedup.LetterOpen: "open sent resolved discarded held gone",
		dedup.LetterSent: "open resolved held gone",
		dedup.LetterHeld: "open sent resolved discarded gone",
		dedup.LetterGone: "resolved",
	}
	mine := l.Job != "" && l.Job == n.job || n.waitsFor(l.Token)
	answers := from == dedup.LetterSent && to == dedup.LetterResolved && mine
	if answers && n.state == dedup.LetterOpen {
		from = dedup.LetterOpen
	}
	others := (from == dedup.LetterOpen || from == dedup.LetterSent) && n.job != "" && n.job != l.Job
	again := from == dedup.LetterOpen && to == from && l.Job != "" && l.Job == n.job
	finished := f.state == dedup.Absent || f.state == dedup.Succeeded || f.state == dedup.Failed || f.state == dedup.Tombstone
	switch {
	case n.state != from || !contains(ways[from], to.String()):
		return dedup.Refused
	case op.Kind == dedup.MoveLetter && l.Run != 0 && l.Run != max(n.run, 1):
		return dedup.Refused // it has died once more since
	case to == dedup.LetterDiscarded && !finished:
		return dedup.Refused
	case others && !answers && (to == dedup.LetterResolved || to == dedup.LetterDiscarded || to == dedup.LetterSent || from == to && l.Job != ""):
		return dedup.Refused
	case again && l.Token != "" && l.Token != n.token:
		return dedup.Refused // its copy bears the token that the job took it with
	}
	if to == dedup.LetterSent || to == dedup.LetterOpen {
		if l.Token != "" || l.Job != "" && n.job != l.Job {
			n.token = l.Token
		}
		n.job = l.Job
		if op.Kind == dedup.MoveLetter {
			n.expired = l.Expired
		}
	}
	n.state, n.answer = to, l.Answer
	return dedup.Done
}

// died makes a letter open, or held from the third time on.
func (n *note) died() {
	n.state, n.job, n.expired, n.answer = dedup.LetterOpen, "", false, dedup.Absent
	if n.run > 2 {
		n.state = dedup.LetterHeld
	}
}

func (n *note) waitsFor(token string) bool {
	return token != "" && n.token == token && n.job != "" && (n.state == dedup.LetterOpen || n.state == dedup.LetterSent)
}
