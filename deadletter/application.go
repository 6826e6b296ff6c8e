package deadletter

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/onceward/onceward/dedup"
)

// application is one call of Apply.
type application struct {
	q       *Queue
	f       *PlanFile
	c       ApplyConfig
	report  Report
	letters letterReader
	due     time.Time // of the next copy, by the rate
	trusted bool      // the canary has succeeded
	waiting []*item   // sent by this call, and not known to be answered
}

// batchSize keeps batches small where they are paced, so that a stop stops.
func (a *application) batchSize() int {
	n := chunk
	if a.c.Rate > 0 {
		n = min(n, max(int(a.c.Rate/20), 1))
	}
	if a.c.Canary > 0 && !a.trusted {
		n = min(n, max(a.c.Canary-a.report.Counts[DidSend], 1))
	}
	if a.c.MaxFailureRatio > 0 {
		n = min(n, max(a.mayWait()-len(a.waiting), 1))
	}
	return n
}

func (a *application) did(it *item, what Did, why string) {
	a.report.Letters++
	a.report.Counts[what]++
	if what == DidSend && (a.c.Canary > 0 || a.c.MaxFailureRatio > 0) {
		a.waiting = append(a.waiting, it)
	}
	if a.c.Each != nil {
		r := Result{ID: it.ID, Key: it.key(a.q.Consumer), Did: what, Why: why}
		if what == DidRefuse {
			r.Approvable, r.Expired = it.Decision.Approvable, it.Decision.Expired
		}
		a.c.Each(r)
	}
}

// work is one item on its way.
type work struct {
	it     *item
	e      Entry
	r      dedup.Record
	token  string
	taken  bool // by this call
	reopen bool
	// expired: it may have been done and forgotten, and is sent all the same.
	expired bool

	partitions int32 // of the source topic, where that is asked for
}

// noteKey is the key under which the item's sending is noted.
func (w *work) noteKey() dedup.Key {
	if w.it.ID == "" {
		return w.r.Key
	}
	return w.e.Note.Key
}

// batch does what some items say.
func (a *application) batch(ctx context.Context, items []*item) error {
	if len(items) == 0 {
		return nil
	}
	works, err := a.look(ctx, items)
	if err != nil {
		return err
	}
	var take []*work
	bytes, from := 0, 0 // of those that are in hand
	for i, w := range works {
		if err := a.consider(ctx, w, &take); err != nil {
			return err
		}
		if bytes += len(w.e.Letter.Value); bytes < chunkBytes && i < len(works)-1 {
			continue
		}
		if err := a.send(ctx, take); err != nil {
			return err
		}
		for _, done := range works[from : i+1] {
			done.e.Letter = Letter{}
		}
		take, bytes, from = take[:0], 0, i+1
	}
	if a.c.Progress != nil {
		a.c.Progress(a.report)
	}
	return a.watch(ctx)
}

// look reads what the store knows now of what the items are about.
func (a *application) look(ctx context.Context, items []*item) ([]*work, error) {
	works := make([]*work, 0, len(items))
	var ids []string
	var keys []dedup.Key
	for _, it := range items {
		if a.accepts(it) {
			it.Decision.Action = Send
		}
		switch {
		case it.Decision.Action == Refuse && !(it.Decision.Expired && it.ID != ""):
			a.did(it, DidRefuse, it.Decision.Why)
		case it.Decision.Action == Skip:
			a.did(it, DidSkip, it.Decision.Why)
		default:
			works = append(works, &work{it: it})
			if it.ID != "" {
				ids = append(ids, it.ID)
			}
			keys = append(keys, it.recordKey(a.q.Consumer))
		}
	}
	notes, records, err := a.q.know(ctx, ids, keys)
	if err != nil {
		return nil, err
	}
	for i, w := range works {
		if w.r = records[i]; w.it.ID != "" {
			w.e.Note, notes = notes[0], notes[1:]
		}
	}
	return works, nil
}

// consider decides what is left to be done about one item, and does it unless a
// copy is to be sent.
func (a *application) consider(ctx context.Context, w *work, take *[]*work) error {
	next, why := a.next(w)
	switch next {
	case doNothing:
		a.did(w.it, DidBefore, why)
	case doLeave:
		a.did(w.it, DidChange, why)
	case doExpire:
		a.did(w.it, DidSkip, why)
	case doRefuse:
		a.did(w.it, DidRefuse, why)
	case doResolve:
		return a.resolve(ctx, w, why)
	case doMiss:
		return a.gone(ctx, w)
	case doSend:
		why, err := a.letters.load(ctx, w)
		switch {
		case errors.Is(err, errGone):
			return a.gone(ctx, w)
		case err != nil:
			return err
		case why != "":
			a.did(w.it, DidRefuse, why)
		case a.expired(w) != "" && !a.acceptsExpired():
			w.it.Decision.Expired = true // by now
			a.did(w.it, DidRefuse, a.expired(w))
		case a.c.DryRun:
			a.did(w.it, DidSend, "would be sent")
		default:
			w.expired = a.expired(w) != ""
			*take = append(*take, w)
		}
	}
	return nil
}

// accepts says that a letter is sent only since expired ones are accepted.
func (a *application) accepts(it *item) bool { return it.Decision.Expired && a.c.AcceptExpired != "" }

// why is what is kept with a letter that is taken.
func (a *application) why(it *item) string {
	if a.accepts(it) {
		return a.c.AcceptExpired
	}
	return a.f.Why
}

// expired says why a letter may have been done and forgotten by now: a plan may
// be applied long after it was made.
func (a *application) expired(w *work) string {
	if w.it.ID == "" || w.it.Key != "" && w.r.State != dedup.Absent {
		return ""
	}
	return w.e.expiry(time.Now(), cmp.Or(time.Duration(a.f.WindowSeconds)*time.Second, a.q.window()))
}

func (a *application) acceptsExpired() bool {
	return a.f.AcceptExpired != "" || a.c.AcceptExpired != ""
}

// resolve notes that nothing is left to be done about a letter. One that this
// job has taken counts as sent before: its copy, or a repeat of the original, has
// ended the run that the job opened.
func (a *application) resolve(ctx context.Context, w *work, why string) error {
	n, ended := &w.e.Note, DidResolve
	if w.it.Decision.Action.sends() {
		ended = DidBefore
	}
	if n.State == dedup.LetterResolved || a.c.DryRun {
		a.did(w.it, ended, why)
		return nil
	}
	var ops []dedup.Op
	if n.State == dedup.LetterNone {
		// Without a note it would be in lists, and resolved by each plan, as before. Its
		// third run makes it held.
		op := a.noting(w)
		noted, _ := dedup.StepLetter(dedup.Letter{}, nil, &op, time.Now())
		n, ops = &noted, append(ops, op)
	}
	l := dedup.Letter{ID: w.it.ID, Job: n.Job, Who: a.f.Who, Why: why}
	if n.Job != "" {
		l.Answer = w.r.Ended()
	}
	ops = append(ops, moving(n, dedup.LetterResolved, l))
	answers, err := dedup.Apply(ctx, a.q.Store, ops)
	if err != nil {
		return err
	}
	last := &answers[len(answers)-1]
	switch {
	case last.Err != nil:
		return last.Err
	case last.Kind == dedup.Done || ended == DidBefore: // else its consumer was faster
		a.did(w.it, ended, why)
	default:
		a.did(w.it, DidChange, "letter has moved on meanwhile")
	}
	return nil
}

// gone notes that retention has removed a letter.
func (a *application) gone(ctx context.Context, w *work) error {
	n := &w.e.Note
	if !a.c.DryRun && n.State != dedup.LetterNone && n.State != dedup.LetterGone {
		l := dedup.Letter{ID: n.ID, Who: a.f.Who, Why: "its message is not in " + a.q.Topic + " any more"}
		if _, err := a.q.move(ctx, n, dedup.LetterGone, l); err != nil {
			return err
		}
	}
	a.did(w.it, DidMiss, "its message is not there any more")
	return nil
}
