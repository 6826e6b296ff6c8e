package deadletter

import (
	"context"
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
	// each has an outcome, and none has failed again or is in doubt. Letters that an
	// earlier call sent are none of them. It needs a consumer that runs. Below ten:
	// more that fail, with no success between them, are an outage to a consumer by
	// default, in which nothing is decided.
	Canary int
	// CanaryWait is how long nothing may be answered while a Canary or a
	// MaxFailureRatio holds the rest up; default 5 minutes. Then it stops.
	CanaryWait time.Duration
	// MaxFailureRatio, where above 0, stops when more than this share of the
	// copies of this call that were answered has failed again or is in doubt, from
	// the twentieth answer on, and at the end. Forty copies are on their way at
	// first, later at most twice as many as were answered, and never more than a
	// thousand. It needs a consumer that runs.
	MaxFailureRatio float64
	// AcceptExpired is why letters are sent all the same that the plan refuses
	// since they are older than the window and have no record; empty leaves them.
	AcceptExpired string
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
	DidSend    Did = "sent"        // a copy is confirmed
	DidBefore  Did = "sent before" // by an earlier call; or the run that one opened for it has ended
	DidResolve Did = "resolved"    // nothing was left to be done
	DidRefuse  Did = "refused"     // a person must look first
	DidSkip    Did = "skipped"     // as the plan says, or since it has expired
	DidChange  Did = "changed"     // something has changed since the plan was made: left alone
	DidMiss    Did = "gone"        // its message is not in the topic any more
	DidFail    Did = "failed"      // could not be sent; applying the plan again tries again
)

// Result is what was done about one letter.
type Result struct {
	ID  string    // dl-id, empty for a message that is no letter
	Key dedup.Key // zero without one
	Did Did
	Why string
	// What helps against a refusal, as in [Decision].
	Approvable, Expired bool
}

// Report counts what was done, by letter.
type Report struct {
	Letters int         `json:"letters"`
	Counts  map[Did]int `json:"counts"`
	// Answered copies of this call so far, and those among them that failed again or
	// are in doubt, where a Canary or a MaxFailureRatio looks at them.
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
// It blocks until all is sent; with Canary or MaxFailureRatio also for answers,
// at the end for those of a canary that was not filled, and with
// MaxFailureRatio until the last copies are answered or nothing was for half a
// minute. A publish of which nobody knows whether it was stored is repeated
// three times; anything else is for the caller to repeat.
//
// Errors: a [*StoppedError]; [ErrRefused] for a plan of another consumer, topic
// (also of the same name) or store; those of the broker and the store, after
// which it is called again.
func (q *Queue) Apply(ctx context.Context, f *PlanFile, c ApplyConfig) (Report, error) {
	a := &application{
		q: q, f: f, c: c, report: Report{Counts: map[Did]int{}},
		letters: letterReader{q: q, to: f.To, cursors: map[int32]*cursor{}},
	}
	defer a.letters.close()
	if err := q.fits(&f.Plan); err != nil {
		return a.report, err
	}
	if err := q.sameTopic(ctx, &f.Plan); err != nil {
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

// sameTopic says whether the letters of a plan lie in this queue's topic: in
// another of its name, none of them would be found, and all would be taken for
// gone.
func (q *Queue) sameTopic(ctx context.Context, p *Plan) error {
	if p.Identity == "" {
		return nil
	}
	is, err := q.identity(ctx)
	if err == nil && is != "" && is != p.Identity {
		err = fmt.Errorf("%w: the plan is for letters in the topic %s that is %q, this is %q: another broker, or the topic was made again", ErrRefused, q.Topic, p.Identity, is)
	}
	return err
}
