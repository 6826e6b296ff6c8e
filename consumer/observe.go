package consumer

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/onceward/onceward/dedup"
)

// deferFrom is the wait from which a delivery of the retry lane is left with
// the broker instead of being parked with its payload.
const deferFrom = time.Second

// decide notes what became of a task, for the observer.
func (p *pipeline) decide(t *task, v Verdict, err error) {
	if p.cfg.Observer == nil {
		return
	}
	d := Decision{
		Key: t.view.Key, Topic: t.d.Lane.Topic, Partition: t.d.Lane.Partition, Offset: t.d.Offset, Time: t.d.Time,
		Verdict: v, Err: err,
	}
	if v == Retried || v == Released || v == Waiting {
		d.Wait = t.wait // of the others it may be that of a failure before
	}
	if v == Dead || v == Doubtful {
		d.Reason = t.note.reason
	}
	if t.attempt != nil {
		d.Ran = t.ran
	}
	p.decisions = append(p.decisions, d)
}

// observed hands the round's decisions to the observer, which cannot end it.
func (p *pipeline) observed() {
	defer func() {
		if v := recover(); v != nil {
			p.log.Error("Observer panicked", "panic", p.cfg.Redact(fmt.Sprint(v)))
		}
		clear(p.decisions)
		p.decisions = p.decisions[:0]
	}()
	p.cfg.Observer(p.decisions)
}

// greet logs the first line of a consumer: what somebody wants to know who
// wonders at night what this process does. It waits a second for a first
// message, so that a wrong key rule is seen before it has gone wrong a million
// times.
func (p *pipeline) greet() {
	if p.greetBy.IsZero() || p.sample == nil && p.now.Before(p.greetBy) {
		return
	}
	p.greetBy = time.Time{}
	info := p.store.Info()
	var rules, windows, destinations []string
	for i := range p.routes {
		r := &p.routes[i]
		rules = append(rules, r.Scope+"="+r.ID.Rule)
		windows = append(windows, r.Scope+"="+r.Window.String())
	}
	for _, topic := range p.cfg.Topics {
		d := p.cfg.Broker.Destinations(p.cfg.Name, topic)
		destinations = append(destinations, d.DeadLetter, d.Retry)
	}
	backlog := int64(0)
	for l := range p.lanes {
		backlog += max(l.Backlog, 0)
	}
	sample := "no message yet"
	if p.sample != nil {
		sample = p.sample.view.Key.String()
		p.sample = nil
	}
	p.log.Info("consuming", "topics", p.cfg.Topics, "start", p.cfg.StartFrom.String(), "backlog", backlog,
		"keys", rules, "sample", sample, "windows", windows, "store", info.Kind, "store_id", info.ID, "local", info.Local,
		"destinations", destinations, "workers", p.cfg.Workers, "unfinished", p.cfg.Unfinished.Messages, "bytes", p.cfg.Unfinished.Bytes)
}

// duplicate tells the route's observer what was stored.
func (p *pipeline) duplicate(t *task) {
	p.decide(t, Duplicate, nil)
	if t.route.OnDuplicate == nil {
		return
	}
	var stored Result
	if t.record != nil && !t.record.Digest {
		stored = t.record.Result
	}
	p.place(t)
	defer func() {
		if v := recover(); v != nil {
			p.log.Error("OnDuplicate panicked", append(p.attrs(t, nil), "panic", p.cfg.Redact(fmt.Sprint(v)))...)
		}
	}()
	t.route.OnDuplicate(p.base, &t.view, stored)
}

// sayings bounds lines that a flood of messages would make: so many a second,
// and how many were left out is said with the next one.
const sayings = 20

// say logs what concerns one message.
func (p *pipeline) say(level slog.Level, text string, attrs ...any) {
	if second := p.now.Truncate(time.Second); second != p.said.second {
		p.said.second, p.said.lines = second, 0
	}
	if p.said.lines++; p.said.lines > sayings {
		p.said.unsaid++
		return
	}
	if p.said.unsaid > 0 {
		attrs = append(attrs, "lines_left_out_before", p.said.unsaid)
		p.said.unsaid = 0
	}
	p.log.Log(context.Background(), level, text, attrs...)
}

// firstFailure logs a key's first failure, so that a handler that panics is
// seen before its failures are used up; the later ones differ only by their
// number.
func (p *pipeline) firstFailure(t *task) {
	attrs := append(p.attrs(t, t.err), "again_in", t.wait)
	if t.stack != "" {
		attrs = append(attrs, "stack", t.stack)
	}
	p.say(slog.LevelWarn, "handler failed", attrs...)
}

// attrs are what identifies a task in a log line.
func (p *pipeline) attrs(t *task, err error) []any {
	at := p.position(t)
	attrs := []any{"topic", t.d.Lane.Topic, "partition", at.Partition, "offset", at.Offset}
	if t.view.Key != (dedup.Key{}) {
		attrs = append(attrs, "key", t.view.Key.String())
	}
	if err != nil {
		attrs = append(attrs, "error", err)
	}
	return attrs
}

// degrade and restore may be called from any goroutine.
func (p *pipeline) degrade(what string, err error) {
	if p.health.degrade(what, err) {
		p.log.Warn("degraded", "what", what, "error", err)
	}
}

func (p *pipeline) restore(what string) {
	if p.health.restore(what) {
		p.log.Info("works again", "what", what)
	}
}

// poll is how long to wait for a key that another owner has: not longer than
// its lease, often enough that its end is soon seen, jittered so that many
// that wait for one do not ask at once. It asks next after the end when that is
// nearer than a millisecond: halving what is left would ask for ever under a
// clock that stands still meanwhile, as in a user's synctest.
func (p *pipeline) poll(left time.Duration) time.Duration {
	wait := min(p.cfg.Lease/3, 5*time.Second)
	if left > 0 {
		wait = min(wait, left)
	}
	return max(wait/2+rand.N(wait/2+1), time.Millisecond)
}
