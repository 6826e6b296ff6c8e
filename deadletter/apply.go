package deadletter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward/dedup"
)

// ApplyConfig says how fast and how carefully a plan is applied. The zero value
// sends everything as fast as the broker takes it.
type ApplyConfig struct {
	// Rate of copies a second; default 0, no bound. The handlers have live
	// traffic to do as well.
	Rate float64
	// Canary, where above 0, sends so many letters first and goes on only when
	// each has an outcome, and none has failed again. It needs a consumer that
	// runs.
	Canary int
	// CanaryWait is how long they may take; default 5 minutes.
	CanaryWait time.Duration
	// MaxFailureRatio, where above 0, stops when more than this share of the
	// answered copies has failed again, from the twentieth answer on; at most a
	// thousand copies are on their way at once then. It needs a consumer that
	// runs.
	MaxFailureRatio float64
	// DryRun changes nothing and sends nothing, and reports what would be.
	DryRun bool
	// Each, where set, is told what was done about each letter.
	Each func(Result)
	// Progress, where set, is told after every batch.
	Progress func(Report)
}

// Did is what an application did about one letter.
type Did string

// What can be done about a letter.
const (
	DidSend    Did = "sent"     // a copy is confirmed, now or before; or the run that was opened for it has ended
	DidResolve Did = "resolved" // nothing was left to be done
	DidRefuse  Did = "refused"  // a person must look first
	DidSkip    Did = "skipped"  // as the plan says, or since it has expired
	DidChange  Did = "changed"  // something has changed since the plan was made: left alone
	DidMiss    Did = "gone"     // its message is not in the topic any more
	DidFail    Did = "failed"   // could not be sent; applying the plan again tries again
)

// Result is what was done about one letter.
type Result struct {
	ID  string    // dl-id, empty for a message that is no letter
	Key dedup.Key // zero without one
	Did Did
	Why string
}

// Report counts what was done, by letter.
type Report struct {
	Letters int         `json:"letters"`
	Counts  map[Did]int `json:"counts"`
	// Answered copies so far, and those among them that failed again, where an
	// apply looks at them.
	Answered    int `json:"answered,omitempty"`
	FailedAgain int `json:"failed_again,omitempty"`
}

// StoppedError says that an application stopped by itself, since what it sent
// does not succeed. Applied again, the plan goes on where it stopped.
type StoppedError struct{ Why string }

func (e *StoppedError) Error() string { return "replay stopped: " + e.Why }

// Apply does what a plan says, letter after letter, in its order: it opens the
// record for a further run, sends a copy that bears a token which the store
// holds, and notes that it was sent. What has changed since the plan was made
// is left alone and told.
//
// All of its progress is in the store. Ended at any point, also by a kill, it is
// called again with the same plan and goes on: what was sent is not sent again,
// what may have been sent is, and the record answers the second copy. Applied
// twice a plan takes effect once. Another job is refused a letter that this one
// has taken, until a person frees it. Once a plan has expired only what it had
// begun is ended.
//
// It blocks until all is sent, or, with Canary or MaxFailureRatio, until it is
// seen to succeed.
//
// Errors: a [*StoppedError]; [ErrRefused] for a plan of another consumer, topic
// (also of the same name) or store; those of the broker and the store, after which it is called again.
func (q *Queue) Apply(ctx context.Context, f *PlanFile, c ApplyConfig) (Report, error) {
	a := &application{
		q: q, f: f, c: c, report: Report{Counts: map[Did]int{}}, started: time.Now(),
		letters: letterReader{q: q, to: f.To, cursors: map[int32]*cursor{}},
	}
	defer a.letters.close()
	if err := q.fits(&f.Plan); err != nil {
		return a.report, err
	}
	if err := q.lies(ctx, &f.Plan); err != nil {
		return a.report, err
	}
	batch := make([]*item, 0, chunk)
	for it, err := range f.items() {
		if err != nil {
			return a.report, err
		}
		if batch = append(batch, it); len(batch) < a.batchSize() {
			continue
		}
		if err := a.batch(ctx, batch); err != nil {
			return a.report, err
		}
		batch = batch[:0]
	}
	if err := a.batch(ctx, batch); err != nil {
		return a.report, err
	}
	return a.report, a.settle(ctx)
}

// fits says whether a plan is one for this queue.
func (q *Queue) fits(p *Plan) error {
	switch id := q.Store.Info().ID; {
	case p.Consumer != q.Consumer:
		return fmt.Errorf("%w: the plan is for consumer %q, not %q", ErrRefused, p.Consumer, q.Consumer)
	case p.Topic != q.Topic:
		return fmt.Errorf("%w: the plan is for letters in %s, not %s", ErrRefused, p.Topic, q.Topic)
	case p.Store != id:
		return fmt.Errorf("%w: the plan was decided by store %q, this is %q", ErrRefused, p.Store, id)
	}
	return nil
}

// lies says whether the letters of a plan lie in this queue's topic: in another
// of its name, none of them would be found, and all would be taken for gone.
func (q *Queue) lies(ctx context.Context, p *Plan) error {
	if p.Identity == "" {
		return nil
	}
	is, err := q.identity(ctx)
	if err == nil && is != "" && is != p.Identity {
		err = fmt.Errorf("%w: the plan is for letters in the topic %s that is %q, this is %q: another broker, or the topic was made again", ErrRefused, q.Topic, p.Identity, is)
	}
	return err
}

// application is one call of Apply.
type application struct {
	q       *Queue
	f       *PlanFile
	c       ApplyConfig
	report  Report
	letters letterReader
	started time.Time
	copies  int     // published by this call
	sent    int     // items that are sent, now or before
	trusted bool    // the canary has succeeded
	waiting []*item // sent, and not known to be answered
}

// batchSize keeps batches small where they are paced, so that a stop stops.
func (a *application) batchSize() int {
	n := chunk
	if a.c.Rate > 0 {
		n = min(n, max(int(a.c.Rate/20), 1))
	}
	if a.c.Canary > 0 && !a.trusted {
		n = min(n, max(a.c.Canary-a.sent, 1))
	}
	return n
}

func (a *application) did(it *item, what Did, why string) {
	a.report.Letters++
	a.report.Counts[what]++
	if what == DidSend {
		a.sent++
		if a.c.Canary > 0 || a.c.MaxFailureRatio > 0 {
			a.waiting = append(a.waiting, it)
		}
	}
	if a.c.Each != nil {
		a.c.Each(Result{ID: it.ID, Key: it.key(a.q.Consumer), Did: what, Why: why})
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

	partitions int32 // of the source topic, where that is asked for
}

// noteKey is the key under which the item's sending is noted.
func (w *work) noteKey() dedup.Key {
	if w.it.ID == "" {
		return w.r.Key
	}
	return w.e.Note.Key
}

// recordChanged says how the record is not what the plan saw.
func (w *work) recordChanged() string {
	return "record was " + w.it.Record.State + ", is " + w.r.State.String() + ", or another run of it"
}

// letterChanged says how the letter is not what the plan saw.
func (w *work) letterChanged() string {
	return "letter was " + w.it.Letter.State + ", is " + w.e.Note.State.String()
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
		switch it.Decision.Action {
		case Refuse:
			a.did(it, DidRefuse, it.Decision.Why)
		case Skip:
			a.did(it, DidSkip, it.Decision.Why)
		default:
			works = append(works, &work{it: it})
			if it.ID != "" {
				ids = append(ids, it.ID)
			}
			if it.Key != "" {
				keys = append(keys, it.key(a.q.Consumer))
			}
		}
	}
	notes, records, err := a.q.know(ctx, ids, keys)
	if err != nil {
		return nil, err
	}
	for _, w := range works {
		if w.it.ID != "" {
			w.e.Note, notes = notes[0], notes[1:]
		}
		if w.it.Key != "" {
			w.r, records = records[0], records[1:]
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
		a.did(w.it, DidSend, why)
	case doLeave:
		a.did(w.it, DidChange, why)
	case doExpire:
		a.did(w.it, DidSkip, why)
	case doResolve:
		return a.resolve(ctx, w, why)
	case doSend:
		why, err := a.letters.load(ctx, w)
		switch {
		case errors.Is(err, errGone):
			return a.gone(ctx, w)
		case err != nil:
			return err
		case why != "":
			a.did(w.it, DidRefuse, why)
		case a.expired(w):
			a.did(w.it, DidRefuse, whyExpired)
		case a.c.DryRun:
			a.did(w.it, DidSend, "would be sent")
		default:
			*take = append(*take, w)
		}
	}
	return nil
}

// expired says that the window of a letter without a record was over before it
// was sent: a plan may be applied long after it was made.
func (a *application) expired(w *work) bool {
	window := cmp.Or(time.Duration(a.f.WindowSeconds)*time.Second, a.q.window())
	return w.it.ID != "" && w.r.State == dedup.Absent && a.f.AcceptExpired == "" && w.e.old(time.Now(), window)
}

// step is what is left to be done about an item.
type step int

const (
	doNothing step = iota // it is sent
	doLeave               // something has changed
	doExpire              // the plan has expired
	doResolve
	doSend
)

// next compares what the store knows now with what the plan saw.
func (a *application) next(w *work) (step, string) {
	it, n := w.it, &w.e.Note
	if it.ID == "" {
		return a.nextRerun(w)
	}
	if it.Decision.Action.sends() {
		switch {
		case n.Job == a.f.Job && (n.State == dedup.LetterSent || n.State == dedup.LetterResolved):
			return doNothing, "sent before"
		case n.Job == a.f.Job && n.State == dedup.LetterOpen:
			// Taken by this job, which then died. Moved on is not sent.
			switch moved := w.r.Ended() != dedup.Absent && !it.Record.is(&w.r); {
			case moved && it.says(w.r.Fingerprint):
				return doResolve, "finished before it was sent"
			case !moved: // else its copy meets the other content, and that is a conflict for people
				w.reopen = it.Decision.Action == Reopen
			}
			return doSend, ""
		case it.Key == "" && n.Run > it.Letter.Run && n.State != dedup.LetterNone:
			return doNothing, "sent before, and failed again"
		}
	} else if n.State == dedup.LetterResolved {
		return doResolve, "resolved before"
	}
	if !it.Letter.is(n) {
		return doLeave, w.letterChanged()
	}
	if !time.Now().Before(a.f.Expires) {
		return doExpire, "the plan has expired"
	}
	if it.Key != "" && !it.Record.is(&w.r) {
		return doLeave, w.recordChanged()
	}
	if !it.Decision.Action.sends() {
		return doResolve, it.Decision.Why
	}
	if n.Job != "" {
		return doLeave, "held by job " + n.Job
	}
	w.reopen = it.Decision.Action == Reopen
	return doSend, ""
}

// nextRerun is next for a message that is no letter: its record tells it all.
func (a *application) nextRerun(w *work) (step, string) {
	switch {
	case w.r.Job == a.f.Job && (w.r.Sent || w.r.Ended() != dedup.Absent):
		return doNothing, "sent before"
	case w.r.Job == a.f.Job:
		w.reopen = true
		return doSend, ""
	case !w.it.Record.is(&w.r):
		return doLeave, w.recordChanged()
	case !time.Now().Before(a.f.Expires):
		return doExpire, "the plan has expired"
	}
	w.reopen = true
	return doSend, ""
}

// resolve notes that nothing is left to be done about a letter. One that this
// job has taken counts as sent: its copy, or a repeat of the original, has ended
// the run that the job opened.
func (a *application) resolve(ctx context.Context, w *work, why string) error {
	n, ended := &w.e.Note, DidResolve
	if w.it.Decision.Action.sends() {
		ended = DidSend
	}
	if n.State == dedup.LetterResolved || n.State == dedup.LetterNone || a.c.DryRun {
		a.did(w.it, ended, why) // a letter without a note has none to end
		return nil
	}
	l := dedup.Letter{ID: n.ID, Job: n.Job, Who: a.f.Who, Why: why}
	if n.Job != "" {
		l.Answer = w.r.Ended()
	}
	done, err := a.q.move(ctx, n, dedup.LetterResolved, l)
	switch {
	case err != nil:
		return err
	case done || ended == DidSend: // else its consumer was faster
		a.did(w.it, ended, why)
	default:
		a.did(w.it, DidChange, "letter has moved on meanwhile")
	}
	return nil
}

// gone notes that retention has removed a letter.
func (a *application) gone(ctx context.Context, w *work) error {
	n := &w.e.Note
	if !a.c.DryRun && n.State != dedup.LetterNone {
		l := dedup.Letter{ID: n.ID, Who: a.f.Who, Why: "its message is not in " + a.q.Topic + " any more"}
		if _, err := a.q.move(ctx, n, dedup.LetterGone, l); err != nil {
			return err
		}
	}
	a.did(w.it, DidMiss, "its message is not there any more")
	return nil
}
