package consumer

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"github.com/onceward/onceward/dedup"
)

// Pauses of the loop.
const (
	storeFullPause = 5 * time.Second
	storeRetryMin  = 50 * time.Millisecond
	storeRetryMax  = 5 * time.Second
)

// commit is what the store is asked at once.
type commit struct {
	ops     []dedup.Op
	owners  []*task   // by operation, nil where it is no task's
	sent    time.Time // its first try: a lease may have begun with one whose answer was lost
	answers []dedup.Answer
	err     error
}

// add puts one operation into the commit that is being collected.
func (p *pipeline) add(t *task, op dedup.Op) {
	p.next.ops = append(p.next.ops, op)
	p.next.owners = append(p.next.owners, t)
}

// collect adds what there is to the next commit, which the store takes when it
// has done the last one: ends first, since they free what claims wait for. It
// adds nothing while a commit is being repeated.
func (p *pipeline) collect() {
	if p.storeTries > 0 {
		return
	}
	p.in.Lock()
	p.next, p.in.next = p.in.next, nil
	p.in.Unlock()
	begun := p.next != nil
	switch n := len(p.spare); {
	case begun:
	case n > 0:
		p.next, p.spare = p.spare[n-1], p.spare[:n-1]
	default:
		p.next = &commit{}
	}
	p.collectEnds()
	p.collectNotes()
	p.collectAnswers()
	p.renewals()
	p.collectAlone()
	p.collectPrefixes()
	p.collectClaims()
	p.filled = p.nextRoom() == 0
	if len(p.next.ops) == 0 {
		p.spare, p.next = append(p.spare, p.next), nil
		return
	}
	if !begun {
		p.writing++
	}
	p.in.Lock()
	p.in.next, p.next = p.next, nil
	p.in.Unlock()
	p.ringWriter()
}

// nextRoom is how many more ends and claims the next commit takes. Were it to
// take all, everything in the process would soon be in one commit, and the store
// would wait for the loop after each: with a third, there is one to write, one to
// collect, and one to handle.
func (p *pipeline) nextRoom() int {
	return max(0, max(p.cfg.Unfinished.Messages/3, 2*p.cfg.Workers)-len(p.next.ops))
}

func (p *pipeline) collectEnds() {
	n := min(len(p.ends), p.nextRoom())
	for _, t := range p.ends[:n] {
		p.add(t, p.endOp(t))
	}
	p.ends = slices.Delete(p.ends, 0, n)
}

func (p *pipeline) collectNotes() {
	n := min(len(p.notes), p.nextRoom())
	for _, t := range p.notes[:n] {
		l := dedup.Letter{
			ID: t.note.id, Reason: t.note.reason, Run: t.note.run, Opened: t.note.opened, Source: p.position(t), Time: t.stored(),
		}
		if t.again() {
			l.Token = t.replay.ticket.Token
		}
		p.add(t, dedup.Op{Kind: dedup.NoteLetter, Key: p.noteKey(t), Letter: &dedup.LetterOp{
			Letter: l, Settles: t.note.owed, Window: p.letterWindow,
		}})
		if t.answers() {
			p.addAnswers(t, nil) // after the new one, so that no letter is lost between them
		}
	}
	p.notes = slices.Delete(p.notes, 0, n)
}

func (p *pipeline) collectAnswers() {
	n := min(len(p.answers), p.nextRoom())
	for _, t := range p.answers[:n] {
		p.addAnswers(t, t)
	}
	p.answers = slices.Delete(p.answers, 0, n)
}

func (p *pipeline) collectPrefixes() {
	for _, position := range p.prefixes {
		p.add(nil, dedup.Op{Kind: dedup.Advance, Key: dedup.Key{Consumer: p.cfg.Name}, Position: position})
	}
	p.prefixes = p.prefixes[:0]
}

func (p *pipeline) endOp(t *task) dedup.Op {
	op := dedup.Op{
		Kind: dedup.End, Key: t.view.Key, Fence: t.fence, Token: t.token, Policy: t.route.policy,
		Outcome: t.outcome, Wait: t.wait, Reason: t.reason,
	}
	switch {
	case t.outcome == dedup.Success:
		op.Result, op.Digest = keep(t.result)
		if t.attempt != nil {
			op.Enlisted = t.attempt.enlisted.Work()
		}
	case t.err != nil:
		op.Error, op.ErrorType, op.Stack = errorTexts(t)
	}
	return op
}

// collectClaims claims as many as the workers will soon run: a claim made too
// early only waits, and dies with its neighbours if the process does.
func (p *pipeline) collectClaims() {
	p.adapt()
	room := p.claimRoom()
	n := min(p.wanted.len(), room, p.nextRoom())
	if n <= 0 {
		return
	}
	tokens := newTokens(n)
	p.asked += n
	p.wanted.take(n, func(t *task) {
		t.phase = claiming
		t.token, tokens = tokens[0], tokens[1:]
		t.copied, t.pointer, t.hung, t.err, t.stack, t.result, t.attempt = false, false, false, nil, "", nil, nil
		p.enter(t)
		op := dedup.Op{
			Kind: dedup.Claim, Key: t.view.Key, Token: t.token, Fingerprint: t.fp, Policy: t.route.policy,
			Lease: p.cfg.Lease, Stored: t.d.Time, Copy: t.lane.Retry,
		}
		if !t.lane.Retry {
			op.Position = p.position(t)
		}
		if t.replay != nil {
			// Also in the source: what is done meanwhile may be forgotten before it is read.
			op.Copy, op.Stored = true, t.replay.since()
			if t.replay.live() {
				op.ReplayToken = t.replay.ticket.Token
			}
			if at := t.origin(); at != (dedup.Position{}) {
				op.Position = at
			}
		}
		p.add(t, op)
	})
}

// claimRoom is how many tasks may be claimed now.
func (p *pipeline) claimRoom() int {
	if p.stopping || len(p.suspects) > 0 || p.alone != nil {
		return 0
	}
	// While the breaker is not closed, what may start has been counted by it.
	n, _ := p.breaker.admit(p.now)
	return min(p.ahead-p.handed, n) - len(p.readied) - p.asked
}

// adapt sizes the claims made ahead, before new ones are added: doubled when a
// commit has landed and the workers have run dry though more is wanted, halved
// while they leave much over.
func (p *pipeline) adapt() {
	started := p.handed + len(p.readied)
	switch {
	case p.now.Before(p.carefulUntil):
	case started == 0 && p.wanted.len() > p.ahead && len(p.landed) > 0:
		p.ahead = min(p.ahead*2, p.cfg.Unfinished.Messages)
	case started > p.ahead/2:
		p.ahead = max(p.ahead/2, 2*p.cfg.Workers)
	}
}

// crashed has few claims made ahead for a while, once one comes with a crash:
// what kills processes may be among them, and each claim that dies with it a
// second time must run alone.
func (p *pipeline) crashed() {
	p.ahead, p.carefulUntil = min(p.ahead, 2*p.cfg.Workers), p.now.Add(p.cfg.Lease)
}

func newTokens(n int) []dedup.Token {
	tokens := make([]dedup.Token, n)
	buf := make([]byte, n*len(dedup.Token{}))
	rand.Read(buf) // never fails: see crypto/rand
	for i := range tokens {
		copy(tokens[i][:], buf[i*len(dedup.Token{}):])
	}
	return tokens
}

// write does the commits, one after the other, in a goroutine of its own: while
// the store works on one, the loop hands the answers of the last one on and
// collects the next.
func (p *pipeline) write() {
	for {
		p.in.Lock()
		c, closed := p.in.repeat, p.in.closed
		p.in.repeat = nil
		if c == nil && !p.in.failed {
			c, p.in.next = p.in.next, nil
		}
		p.in.Unlock()
		switch {
		case closed:
			return
		case c == nil:
			<-p.written
			continue
		case c.sent.IsZero():
			c.sent = time.Now()
			p.ring() // there is room in the next one
		}
		c.answers, c.err = p.ask(c.ops)
		p.in.Lock()
		p.in.failed = c.err != nil
		p.in.landed = append(p.in.landed, c)
		p.in.Unlock()
		p.ring()
	}
}

func (p *pipeline) ringWriter() {
	select {
	case p.written <- struct{}{}:
	default:
	}
}

// ask asks the store, and a shared one not for so long that the lease of every
// handler runs out meanwhile: see lapse.
func (p *pipeline) ask(ops []dedup.Op) ([]dedup.Answer, error) {
	ctx := p.hard
	if !p.local {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.cfg.Lease/leaseParts)
		defer cancel()
	}
	return dedup.Apply(ctx, p.store, ops)
}

// land notes what became of the commits that the store has returned. When it
// could not do one, nothing starts, nothing is acknowledged, and the same
// operations are done again before any other: their tokens and fences make the
// repeat harmless.
func (p *pipeline) land() {
	for i, c := range p.landed {
		if c.err != nil {
			p.undone = c // the last: the store is given no other one
			p.landed = p.landed[:i]
			p.storeFailed(c.err)
			return
		}
		p.writing--
		if p.storeTries > 0 {
			p.storeTries = 0
			p.restore("store")
			p.log.Info("store works again")
		}
	}
}

// repeat gives a failed commit to the store again.
func (p *pipeline) repeat() {
	if p.undone == nil || p.now.Before(p.storeRetryAt) {
		return
	}
	p.in.Lock()
	p.in.repeat, p.undone = p.undone, nil
	p.in.Unlock()
	p.ringWriter()
}

// heed hands the answers on.
func (p *pipeline) heed() {
	for _, c := range p.landed {
		for i := range c.answers {
			p.answer(c.owners[i], &c.ops[i], &c.answers[i], c.sent)
		}
		clear(c.ops)
		clear(c.owners)
		*c = commit{ops: c.ops[:0], owners: c.owners[:0]}
		p.spare = append(p.spare, c)
	}
	clear(p.landed)
	p.landed = p.landed[:0]
}

// answer hands one answer on.
func (p *pipeline) answer(t *task, op *dedup.Op, a *dedup.Answer, sent time.Time) {
	switch op.Kind {
	case dedup.Claim:
		p.asked--
		t.leaseEnd, t.renewAt = sent.Add(p.cfg.Lease), sent.Add(p.cfg.Lease/3)
		p.claimed(t, a)
	case dedup.End:
		p.ended(t, a)
	case dedup.NoteLetter:
		if a.Kind != dedup.Done {
			// The letter itself is confirmed, and the same note would be refused
			// again.
			p.log.Error("letter could not be noted", append(p.attrs(t, a.Err), "answer", a.Kind.String())...)
		}
		p.noted(t)
	case dedup.MoveLetter:
		if a.Err != nil {
			p.log.Error("letter could not be told what became of its copy", "letter", op.Letter.Letter.ID, "error", a.Err)
		}
		if t != nil { // its letter knows what became of it
			p.ack(t)
		}
	case dedup.Renew:
		p.renewing--
		p.renewed(t, a, sent)
	case dedup.Alone:
		p.markedAlone(t, a)
	case dedup.Advance:
		if a.Err != nil {
			p.log.Error("acknowledged prefix could not be kept", "error", a.Err)
			delete(p.prefixed, dedup.Position{Source: op.Position.Source, Partition: op.Position.Partition}) // asked for again
		}
	}
}

func (p *pipeline) storeFailed(err error) {
	if errors.Is(err, context.Canceled) && p.hard.Err() != nil {
		return // the drain is over
	}
	p.storeTries++
	wait := min(storeRetryMin<<min(p.storeTries-1, 10), storeRetryMax)
	p.storeRetryAt = p.now.Add(wait)
	if p.storeTries == 1 {
		p.log.Error("store does not work: no handler starts and nothing is acknowledged until it does", "error", err)
	}
	p.degrade("store", err)
	p.retract()
}

// retract takes back what was handed to the workers and not started.
func (p *pipeline) retract() {
	back := filter(p.work.retract(), func(t *task) bool {
		t.phase = ready
		p.breaker.record(t.epoch, t.hash, 0, provesNothing, p.now)
		if t != p.alone {
			return true
		}
		p.aloneMarked = true // its mark is kept: it is still the next
		return false
	})
	p.readied = append(back, p.readied...)
	p.handed = 0
}
