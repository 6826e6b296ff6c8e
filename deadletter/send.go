package deadletter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/dedup"
)

// If the process dies after ...
//
//	take, before reopen               the letter is held by the job, which goes on with it; another may
//	                                  have it when a person has freed it
//	reopen, before publish            the letter is held by the job and the record waits for its copy,
//	                                  or for a repeat of the original; the job goes on with it
//	publish, before noted             the copy is sent once more, with the same token; the record
//	                                  answers the second
//	noted                             it is not sent again
//
// An answer to the copy may come before it is noted: the letter is resolved
// then, and the note is refused.

// send takes the letters, opens their records, and publishes their copies.
func (a *application) send(ctx context.Context, works []*work) error {
	if err := a.q.noteAll(ctx, works); err != nil {
		return err
	}
	left := works[:0]
	for _, w := range works {
		if n := &w.e.Note; w.it.ID != "" && n.Job != a.f.Job && !w.it.Letter.is(n) {
			a.did(w.it, DidChange, w.letterChanged()) // it was noted otherwise than the plan expects
			continue
		}
		left = append(left, w)
	}
	taken, err := a.take(ctx, left)
	if err != nil {
		return err
	}
	// Of one ordering key only one copy is on its way at once: a publish that
	// fails and is repeated must not be overtaken.
	orders := map[uint64]struct{}{}
	var batch []*work
	for _, w := range taken {
		order := orderOf(&w.e.Letter)
		if _, behind := orders[order]; behind && order != 0 {
			if err := a.publish(ctx, batch); err != nil {
				return err
			}
			batch = batch[:0]
			clear(orders)
		}
		orders[order] = struct{}{}
		batch = append(batch, w)
	}
	return a.publish(ctx, batch)
}

// take makes the letters this job's, and opens the records of those alone: one
// that a person has dealt with in the meantime stays as it is.
func (a *application) take(ctx context.Context, works []*work) ([]*work, error) {
	works, _, err := a.change(ctx, works, a.taking, "somebody else was faster")
	if err != nil {
		return nil, err
	}
	opened, closed, err := a.change(ctx, works, a.reopening, "its record has moved on, or the plan has expired")
	if errors.Is(err, brokers.ErrUnauthorized) {
		// Nothing was opened, and somebody else may do it with a plan of his own.
		for _, w := range works {
			if w.taken {
				err = errors.Join(err, a.release(ctx, w))
			}
		}
		return nil, err
	}
	for _, w := range closed {
		if err == nil {
			err = a.release(ctx, w)
		}
	}
	return opened, err
}

// change applies to each of works the operation that it has, if any, and says
// why of those that are refused.
func (a *application) change(ctx context.Context, works []*work, op func(*work) (dedup.Op, bool), why string) (done, refused []*work, err error) {
	var ops []dedup.Op
	var of []int // the work of each
	for i, w := range works {
		if o, has := op(w); has {
			ops, of = append(ops, o), append(of, i)
		}
	}
	if len(ops) == 0 {
		return works, nil, nil
	}
	answers, err := dedup.Apply(ctx, a.q.Store, ops)
	if err != nil {
		return nil, nil, err
	}
	done = works[:0]
	for i, w := range works {
		if len(of) == 0 || of[0] != i {
			done = append(done, w)
			continue
		}
		got := &answers[0]
		of, answers = of[1:], answers[1:]
		switch {
		case got.Kind == dedup.Done || got.Kind == dedup.Continued:
			done = append(done, w)
			continue
		case got.Err != nil:
			a.did(w.it, DidFail, got.Err.Error())
		default:
			a.did(w.it, DidChange, why)
		}
		refused = append(refused, w)
	}
	return done, refused, nil
}

// taking makes a letter this job's, unless it is already.
func (a *application) taking(w *work) (dedup.Op, bool) {
	n := &w.e.Note
	w.token = n.Token
	switch {
	case w.it.ID == "", n.Job == a.f.Job && (n.Expired || !w.expired):
		return dedup.Op{}, false
	case n.Job != a.f.Job:
		w.token, w.taken = NewToken(n.Token), true
	}
	return moving(n, dedup.LetterOpen, dedup.Letter{
		ID: w.it.ID, Token: w.token, Job: a.f.Job, Expired: w.expired, Who: a.f.Who, Why: a.why(w.it),
	}), true
}

// release gives a letter back whose record could not be opened.
func (a *application) release(ctx context.Context, w *work) error {
	if w.it.ID == "" {
		return nil
	}
	n := w.e.Note
	n.State = dedup.LetterOpen
	_, err := a.q.move(ctx, &n, dedup.LetterOpen, dedup.Letter{ID: w.it.ID, Who: a.f.Who, Why: "its record was not opened"})
	return err
}

// reopening opens the record of a letter for a further run, where it is to.
func (a *application) reopening(w *work) (dedup.Op, bool) {
	if !w.reopen {
		return dedup.Op{}, false
	}
	it, seen := w.it, w.r.Seen()
	if it.Key != "" {
		// As the plan saw it, since when another process of this job may have opened it.
		seen = dedup.Seen{State: it.Record.state(), Run: it.Record.Run, Fence: it.Record.Fence}
	}
	fp := w.e.Letter.Fingerprint
	if fp.Rule == 0 {
		fp = w.r.Fingerprint
	}
	o := &dedup.OperatorOp{
		Seen: seen, Expires: a.f.Expires,
		Who: a.f.Who, Why: a.why(w.it), Job: a.f.Job, Letter: it.ID, LetterRun: seen.Run, Fingerprint: fp,
	}
	if it.From != nil {
		o.Send = dedup.Position{Source: it.From.Source, Partition: it.From.Partition, Offset: it.From.Offset}
	}
	return dedup.Op{Kind: dedup.Reopen, Key: it.recordKey(a.q.Consumer), Operator: o}, true
}

// publish sends copies and notes those that are confirmed.
func (a *application) publish(ctx context.Context, works []*work) error {
	if len(works) == 0 {
		return nil
	}
	if err := a.pace(ctx, len(works)); err != nil {
		return err
	}
	messages := make([]brokers.Outgoing, len(works))
	for i, w := range works {
		messages[i] = a.outgoing(w)
	}
	errs := a.confirmed(ctx, messages)
	var ops []dedup.Op
	var sent []*work
	var stop error
	for i, w := range works {
		if err := errs[i]; err != nil {
			a.did(w.it, DidFail, err.Error())
			if !errors.Is(err, brokers.ErrTooLarge) {
				stop = err // nothing of this message: none would arrive
			}
			continue
		}
		sent = append(sent, w)
		ops = append(ops, dedup.Op{Kind: dedup.SendNoted, Key: w.noteKey(), Letter: &dedup.LetterOp{Letter: dedup.Letter{ID: w.it.ID, Job: a.f.Job, Who: a.f.Who, Why: a.why(w.it)}}})
	}
	if len(ops) > 0 {
		answers, err := dedup.Apply(ctx, a.q.Store, ops)
		if err != nil {
			return err
		}
		for i, w := range sent {
			if err := answers[i].Err; err != nil {
				return fmt.Errorf("note that letter %q was sent: %w", w.it.ID, err)
			}
			a.did(w.it, DidSend, "")
		}
	}
	return stop
}

// publishTries is how often a publish whose outcome is unknown is repeated
// before the application ends: with the same id, so that a broker which knows
// ids stores it once.
const publishTries = 4

// confirmed publishes messages until the outcome of each is known.
func (a *application) confirmed(ctx context.Context, messages []brokers.Outgoing) []error {
	errs := brokers.Publish(ctx, a.q.Broker, messages)
	for try := 1; try < publishTries; try++ {
		var again []brokers.Outgoing
		var at []int
		for i, err := range errs {
			if errors.Is(err, brokers.ErrUnknownOutcome) && ctx.Err() == nil {
				again, at = append(again, messages[i]), append(at, i)
			}
		}
		if len(again) == 0 {
			break
		}
		for i, err := range brokers.Publish(ctx, a.q.Broker, again) {
			errs[at[i]] = err
		}
	}
	return errs
}

// pace waits until n more copies keep to the rate. What was not sent while the
// application waited for answers is not made up for.
func (a *application) pace(ctx context.Context, n int) error {
	if a.c.Rate <= 0 {
		return nil
	}
	now := time.Now()
	if a.due.Before(now) {
		a.due = now
	}
	wait := a.due.Sub(now)
	a.due = a.due.Add(time.Duration(min(float64(n)/a.c.Rate*float64(time.Second), float64(longestPlan))))
	return sleep(ctx, wait)
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
