package consumer

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
)

// This file is the life of a delivery, written once:
//
//	receive ─► decode + key ─► claim ─► worker ─► handler ─► classify ─► (retry copy confirmed) ─►
//	complete ─► (letter confirmed ─► noted) ─► (where it is the copy of a letter: that one told) ─► ack
//
// Its rounds alone write to the store, send a delivery to be published, and
// acknowledge. Each round adds what is ready to the next commit
// (collect), which the store takes when it has done the last one. Once a commit
// has landed, its answers are handed on (heed), and then come the acks that they
// allow (settle): an ack can only follow its commit.
//
// If the process dies after ...
//
//	claim                        the claim lapses; the handler runs again, a crash is counted
//	handler, before complete     the handler runs again
//	retry copy, before complete  the handler runs again; of two copies the second finds the record
//	complete, before ack         a duplicate, acknowledged without running
//	complete as failed or in     the letter is owed: the next delivery writes it, the handler
//	doubt, before its letter     does not run
//	letter, before noted         the same letter again, with the same dl-id
//	noted, before ack            a duplicate of a failed record, acknowledged
//	complete, before the letter  a duplicate, or the owed letter: either tells the letter of
//	of a copy is told            which it is a copy before it is acknowledged
//
// crash_test.go and replay_crash_test.go kill a process at each of these places.

// round is one turn of the loop.
func (p *pipeline) round() {
	p.gather()
	p.now = time.Now()
	p.unpark()
	p.supervise()
	p.land()
	p.collect()
	p.repeat()
	p.heed()
	p.settle()
	p.dispatch()
	p.publish()
	p.report()
}

// finished decides what a handler's return means.
func (p *pipeline) finished(t *task) {
	t.wait, t.reason = 0, ""
	cut, failing := t.attempt.ended(), false
	class, after := ClassSkip, time.Duration(0)
	if t.err != nil {
		class, after = outcomeOf(t.err, t.route.Classify)
		t.err = p.redact(t)
	}
	says := provesNothing
	switch {
	case t.err == nil:
		t.outcome, says = dedup.Success, provesUp
	case class == ClassInDoubt:
		t.outcome, t.reason = dedup.Doubt, string(deadletter.ReasonInDoubt)
	case cut != nil:
		// Cut short by us: whatever the handler made of its context's end is
		// not the message's fault.
		t.outcome = dedup.Release
	case class == ClassSkip:
		t.outcome = dedup.Skip
	case class == ClassTerminal:
		t.outcome, t.reason = dedup.Terminal, string(deadletter.ReasonTerminal)
	default:
		failing, says = true, provesDown
		if after > t.route.Retry.MaxBlocking {
			says = provesNothing // whoever names so long a wait has heard from the dependency
		}
	}
	counts := t.counts
	if !t.hung { // else it was recorded when it was found to hang
		counts = p.breaker.record(t.epoch, t.hash, int(t.failures), says, p.now)
	}
	if failing {
		p.failed(t, after, counts)
	}
	p.leaveOrEnd(t)
}

// failed decides about a failure that may pass.
func (p *pipeline) failed(t *task, after time.Duration, counts bool) {
	t.wait = t.route.Retry.delay(int(t.failures)+1, after)
	switch {
	case !counts:
		// A dependency is down; the message is not at fault.
		t.outcome, t.wait = dedup.Release, min(t.wait, t.route.Retry.MaxBlocking)
	case int(t.failures)+1 >= t.route.Retry.MaxFailures:
		t.outcome, t.reason = dedup.Exhausted, string(deadletter.ReasonExhausted)
	default:
		t.outcome = dedup.Failure
	}
}

// leaveOrEnd sends a delivery that must wait long out of the process before
// its record is released; everything else is completed at once.
func (p *pipeline) leaveOrEnd(t *task) {
	if t.outcome == dedup.Failure && t.wait > t.route.Retry.MaxBlocking && t.route.AfterFailure == Continue && !t.lane.Retry {
		t.phase = copying
		p.outbox = append(p.outbox, t)
		return
	}
	p.end(t)
}

// end has the end of a claim, as it is decided, written with the next commit.
func (p *pipeline) end(t *task) {
	t.phase = ending
	p.ends = append(p.ends, t)
}

// unusable goes on with a delivery that has nothing by which it could be
// claimed.
func (p *pipeline) unusable(t *task) {
	if t.replay != nil && !t.replay.live() {
		// The repeat of a copy whose letter knows all of it. Nothing else would
		// tell it from a message.
		p.decide(t, DuplicateDead, nil)
		p.ack(t)
		return
	}
	p.badLetter(t)
}

// claimed goes on after the answer to a claim.
func (p *pipeline) claimed(t *task, a *dedup.Answer) {
	t.fence, t.opened, t.run = a.Fence, a.Opened, a.Run
	t.failures, t.crashes, t.lone, t.record = a.Failures, a.Crashes, a.Lone, a.Record
	if a.Kind.Acquired() && a.Crashes > 0 {
		p.crashed()
	}
	switch a.Kind {
	case dedup.Acquired:
		p.taken()
		p.own(t)
		p.acquired(t)
	case dedup.AcquiredInDoubt:
		// No route can ask yet, so a person must.
		p.own(t)
		t.outcome, t.reason = dedup.Doubt, string(deadletter.ReasonInDoubt)
		p.end(t)
	case dedup.AcquiredToBury:
		p.own(t)
		t.outcome, t.reason = dedup.Exhausted, string(deadletter.ReasonExhausted)
		t.err, t.stack = recorded(t.record), t.record.Stack
		if int(t.lone) >= t.route.Retry.MaxLoneCrashes {
			t.reason = string(deadletter.ReasonCrashLoop)
			t.err, t.stack = errCrashLoop, ""
		}
		p.end(t)
	case dedup.Busy:
		p.waiting(t, p.poll(a.Wait))
	case dedup.NotBefore:
		p.early(t, a.Wait)
	case dedup.DuplicateSucceeded:
		p.otherRule(t, a)
		p.absorb(t)
		p.duplicate(t)
		p.answered(t, dedup.Succeeded)
	case dedup.DuplicateFailed, dedup.HeldInDoubt:
		p.otherRule(t, a)
		if t.record.Owed {
			p.owedLetter(t)
			return
		}
		p.absorb(t)
		p.decide(t, DuplicateDead, nil)
		p.answered(t, outcome(t.record))
	case dedup.Conflict:
		p.conflictLetter(t)
	case dedup.TooOld:
		p.tooOldLetter(t)
	default:
		// The store takes no new keys, or this one is beyond it. Nothing of it
		// may be lost, so it waits.
		p.notTaken(t, a)
		p.waiting(t, p.poll(storeFullPause))
	}
}

// What a consumer says of claims that the store does not take.
const (
	noNewKeys    = "store takes no new keys"
	refusesClaim = "store refuses a claim"
)

// notTaken tells of a claim that the store did not take.
func (p *pipeline) notTaken(t *task, a *dedup.Answer) {
	p.refused = true
	switch {
	case errors.Is(a.Err, dedup.ErrInvalidOp):
		p.degrade(refusesClaim, fmt.Errorf("%v: %w", t.view.Key, a.Err))
	case a.Err != nil:
		p.degrade(noNewKeys, a.Err)
	default:
		p.degrade(noNewKeys, fmt.Errorf("it answered %v to a claim", a.Kind))
	}
}

// taken takes back what notTaken told.
func (p *pipeline) taken() {
	if p.refused {
		p.refused = false
		p.restore(noNewKeys)
		p.restore(refusesClaim)
	}
}

// otherRule tells of a repeat whose content could not be compared.
func (p *pipeline) otherRule(t *task, a *dedup.Answer) {
	if a.OtherRule {
		p.say(slog.LevelWarn, "repeat not compared: the record's fingerprint was made by another rule", p.attrs(t, nil)...)
	}
}

// early goes on with a delivery whose record may not be claimed yet.
func (p *pipeline) early(t *task, wait time.Duration) {
	t.wait = wait
	switch {
	case t.lane.Retry && wait > deferFrom:
		p.deferred(t, wait)
	case wait <= t.route.Retry.MaxBlocking || t.lane.Retry || t.route.AfterFailure == HoldKey:
		p.waiting(t, wait)
	default:
		// Its copy waits at the retry destination, or was eaten there: one
		// more keeps the promise, and the record tells them apart.
		t.phase = copying
		p.outbox = append(p.outbox, t)
	}
}

// ended goes on after the end of a claim is durable, or is not.
func (p *pipeline) ended(t *task, a *dedup.Answer) {
	state := a.State
	switch a.Kind {
	case dedup.Done:
	case dedup.Fenced:
		switch r := a.Record; {
		case r == nil && t.outcome == dedup.Skip:
			// As below; what is skipped leaves no record.
			state = dedup.Absent
		case r == nil || r.Fence != t.fence || r.Token != t.token:
			p.superseded(t)
			return
		default:
			// An earlier try of this write, whose answer was lost, took effect.
			state = r.State
		}
	default:
		if t.outcome != dedup.Success {
			// The store knows nothing of this claim, as one that has lost its
			// newest data: what it does know decides.
			t.err = errors.Join(t.err, a.Err)
			p.superseded(t)
			return
		}
		// Work enlisted by the handler failed in the commit: the handler did.
		t.err, t.result, t.stack = p.redactError(a.Err), nil, ""
		p.failed(t, 0, true)
		p.leaveOrEnd(t)
		return
	}
	p.aloneEnded(t)
	t.failures, t.crashes, t.opened, t.run = a.Failures, a.Crashes, a.Opened, a.Run
	p.disown(t)
	switch state {
	case dedup.Succeeded:
		p.decide(t, Handled, nil)
		p.answered(t, state)
	case dedup.Absent:
		p.decide(t, Skipped, nil)
		p.answered(t, state)
	case dedup.Failed, dedup.InDoubt:
		if t.route.AfterFailure == Continue && state == dedup.Failed {
			p.advance(t)
		}
		p.endLetter(t, state)
	default:
		p.released(t)
	}
}

// released goes on after a claim was given back to be run again.
func (p *pipeline) released(t *task) {
	verdict := Retried
	if t.outcome == dedup.Release {
		verdict = Released
	}
	p.decide(t, verdict, t.err)
	if verdict == Retried && t.failures == 1 {
		p.firstFailure(t)
	}
	switch {
	case t.copied:
		p.ack(t)
	case t.lane.ended:
		p.leave(t)
		p.drop(t)
	case t.lane.Retry && t.wait > deferFrom:
		p.deferred(t, t.wait)
	default:
		p.leave(t)
		p.park(t, t.wait)
	}
}

// superseded goes on after somebody else has claimed the key while this
// handler ran: nothing changed, and what is recorded now decides.
func (p *pipeline) superseded(t *task) {
	if t.attempt != nil { // else no handler has run under this claim
		p.log.Error("suspected double execution: finished after another had claimed the key", p.attrs(t, t.err)...)
		p.decide(t, Superseded, t.err)
	}
	p.aloneEnded(t)
	p.disown(t)
	p.leave(t)
	p.want(t)
}

// published goes on after a letter or a copy is confirmed, or is not.
func (p *pipeline) published(t *task, err error) {
	switch {
	case err == nil && t.phase == lettering:
		p.restore(p.letterTrouble(t))
		t.tries = 0
		p.notes = append(p.notes, t)
		t.phase = noting
	case err == nil:
		p.restore(p.letterTrouble(t))
		t.tries, t.copied = 0, true
		if t.attempt != nil { // it has failed, which is told also under a lost lease
			p.end(t)
			return
		}
		p.decide(t, Waiting, nil)
		p.ack(t)
	case errors.Is(err, brokers.ErrTooLarge) && t.phase == lettering && !t.pointer:
		t.pointer = true
		p.log.Warn("dead letter too large for its destination: a pointer is written in its place", p.attrs(t, err)...)
		p.outbox = append(p.outbox, t)
	case errors.Is(err, brokers.ErrTooLarge) && t.phase == copying:
		// It cannot leave, so it waits in the process.
		p.log.Warn("retry copy too large for its destination: it waits in the process", p.attrs(t, err)...)
		if t.attempt != nil {
			p.end(t)
			return
		}
		p.waiting(t, t.route.Retry.MaxBlocking)
	case t.phase == copying && t.lane.ended:
		p.copyStays(t)
	default:
		// Never dropped, never acknowledged: again, until it is confirmed.
		p.degrade(p.letterTrouble(t), err)
		t.tries++
		p.postpone(t, againIn(t.tries))
	}
}

// copyStays gives up a copy that has not left when its lane ends. The failure
// and its wait are written down; the message is not acknowledged, and its next
// delivery sends the copy.
func (p *pipeline) copyStays(t *task) {
	if t.attempt != nil {
		p.end(t)
		return
	}
	p.leave(t)
	p.drop(t)
}

// noted goes on after a letter's note is durable.
func (p *pipeline) noted(t *task) {
	verdict := Dead
	if t.note.reason == string(deadletter.ReasonInDoubt) {
		verdict = Doubtful
	}
	p.decide(t, verdict, t.err)
	p.ack(t)
}

// answered goes on after the outcome of t is durable: its letter is told before
// the message is acknowledged.
func (p *pipeline) answered(t *task, state dedup.State) {
	if t.answer = state; !t.answers() {
		p.ack(t)
		return
	}
	t.phase = answering
	p.answers = append(p.answers, t)
}

// ack is the only way to an acknowledgement: the outcome of t is durable.
func (p *pipeline) ack(t *task) {
	t.phase = acking
	p.acks = append(p.acks, t)
}

// settle acknowledges what this round has made durable.
func (p *pipeline) settle() {
	for _, t := range p.acks {
		if !t.lane.lost {
			p.settled = append(p.settled, t.d)
		}
		p.leave(t)
		p.drop(t)
	}
	clear(p.acks)
	p.acks = p.acks[:0]
	if len(p.settled) > 0 {
		if err := p.source.Ack(p.settled); err != nil {
			p.log.Warn("some acknowledgements did not reach the broker; their repeats are absorbed", "error", err)
		}
		clear(p.settled)
		p.settled = p.settled[:0]
	}
	for _, l := range p.lanes {
		if l.ended && l.active == 0 && l.drained != nil {
			close(l.drained)
			l.drained = nil
		}
	}
}

// deferred leaves a delivery with the broker until it is due.
func (p *pipeline) deferred(t *task, wait time.Duration) {
	if err := p.source.Defer([]*brokers.Delivery{t.d}, wait); err != nil {
		p.log.Warn("a wait could not be left with the broker; it delivers again by itself", p.attrs(t, err)...)
	}
	p.decide(t, Waiting, nil)
	p.leave(t)
	p.drop(t)
}

// waiting parks a delivery that another owner or a time holds up.
func (p *pipeline) waiting(t *task, wait time.Duration) {
	t.wait = wait
	p.decide(t, Waiting, nil)
	p.leave(t)
	if t.lane.ended {
		p.drop(t)
		return
	}
	p.park(t, wait)
}
