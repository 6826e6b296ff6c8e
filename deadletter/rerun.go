package deadletter

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"github.com/onceward/onceward/dedup"
)

// Rerun is which operations are to run again although they have succeeded: a
// handler that was wrong for a while has done them wrongly.
type Rerun struct {
	Scope string
	// ID, where not empty, means the one operation with this business id.
	ID string
	// From and Until bound when they were completed: at or after, and before.
	// With an ID they may be left out.
	From, Until time.Time
	// Limit is how many operations run again at most; 0: all.
	Limit int
	// The others are as for a [Selection].
	To        Target
	Who, Why  string
	ExpiresIn time.Duration
}

// PlanRerun writes a plan that opens the records of what succeeded for a further
// run and sends their messages again, read from where they were first
// published. [Queue.Apply] and [Queue.Outcome] take it as any other plan. What
// an effect has confirmed stays confirmed: it is not called again. Handlers of
// package consumer confirm none so far: they run whole, and what they call outside
// is called again, with another consumer.Operation.OutputID.
//
// It goes once through the consumer's records.
//
// Errors: a fault of sel; those of the store, of w and of the temporary file.
func (q *Queue) PlanRerun(ctx context.Context, sel Rerun, w io.Writer) (Plan, error) {
	if sel.ID != "" && sel.Until.IsZero() {
		sel.Until = time.Now().Add(time.Hour) // the store's clock may be ahead
	}
	if sel.Scope == "" || dedup.ReservedScope(sel.Scope) || sel.From.IsZero() && sel.ID == "" || !sel.From.Before(sel.Until) {
		return Plan{}, errors.New("plan: a scope and the time between which it was completed are needed")
	}
	p, err := q.head(&Selection{To: sel.To, Who: sel.Who, Why: sel.Why, ExpiresIn: sel.ExpiresIn})
	if err != nil {
		return Plan{}, err
	}
	d, err := newDraft()
	if err != nil {
		return Plan{}, err
	}
	defer d.remove()
	for r, err := range q.meant(ctx, &sel) {
		if err != nil {
			return Plan{}, err
		}
		if r.Key.Scope != sel.Scope || r.State != dedup.Succeeded || r.Finished.Before(sel.From) || !r.Finished.Before(sel.Until) {
			continue
		}
		if err := d.put(rerunItem(&r), orderOf(&Letter{Key: r.Key}), r.Source.Offset); err != nil {
			return Plan{}, err
		}
		if len(d.lines) == sel.Limit {
			break
		}
	}
	return p, d.write(&p, w)
}

// meant are the records among which sel chooses: one, or all of the consumer.
func (q *Queue) meant(ctx context.Context, sel *Rerun) iter.Seq2[dedup.Record, error] {
	if sel.ID == "" {
		return q.Store.Scan(ctx, q.Consumer)
	}
	return func(yield func(dedup.Record, error) bool) {
		_, records, err := q.know(ctx, nil, []dedup.Key{{Consumer: q.Consumer, Scope: sel.Scope, ID: sel.ID}})
		if err != nil {
			yield(dedup.Record{}, err)
			return
		}
		yield(records[0], nil)
	}
}

func rerunItem(r *dedup.Record) *item {
	it := &item{
		Scope: r.Key.Scope, Key: r.Key.ID, Decision: Decision{Action: Reopen, Why: "succeeded, and is to run again"},
		Record: seenOf(r),
		Letter: noteSeen{State: dedup.LetterNone.String()},
		From:   &origin{Source: r.Source.Source, Partition: r.Source.Partition, Offset: r.Source.Offset},
	}
	if r.Source == (dedup.Position{}) {
		it.Decision, it.From = Decision{Action: Refuse, Why: "its record does not say where its message lies"}, nil
	}
	return it
}
