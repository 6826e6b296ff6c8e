package consumer

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/internal/cut"
)

// maxResult is how many bytes of a result are kept with the record.
const maxResult = 4 << 10

var errCrashLoop = errors.New("the process died each time it ran this message with nothing beside it")

// keep is what is stored of a result: itself, or its digest when it is large.
func keep(r Result) (stored []byte, digest bool) {
	if len(r) <= maxResult {
		return r, false
	}
	sum := sha256.Sum256(r)
	return sum[:], true
}

// position is where the message was first published, as far as is known.
func (p *pipeline) position(t *task) dedup.Position {
	if t.lane.Retry && t.record != nil && t.record.Source != (dedup.Position{}) {
		return t.record.Source
	}
	return lies(t)
}

// lies is where a message lies whose record is that of another one, or which
// has none.
func lies(t *task) dedup.Position {
	if at := t.origin(); at != (dedup.Position{}) {
		return at
	}
	return dedup.Position{Source: t.d.Lane.Source, Partition: t.d.Lane.Partition, Offset: t.d.Offset}
}

// place tells a handler where the message was first published.
func (p *pipeline) place(t *task) {
	at := p.position(t)
	t.view.Partition, t.view.Offset = at.Partition, at.Offset
}

// noteKey is the key of a letter's note.
func (p *pipeline) noteKey(t *task) dedup.Key {
	switch {
	case t.bad != nil && t.again():
		return t.replay.note.Key
	case t.bad != nil, t.note.reason == string(deadletter.ReasonTooOld):
		return dedup.LetterKey(p.cfg.Name, t.note.id) // else no record would take the note along when it is swept
	}
	return t.view.Key
}

// mail sends a task's letter on its way, and says so.
func (p *pipeline) mail(t *task, note letterNote) {
	t.phase, t.note = lettering, note
	level := slog.LevelWarn
	if note.reason == string(deadletter.ReasonConflict) {
		level = slog.LevelError // two senders use one id, or one of them changes what it has sent
	}
	p.say(level, "dead letter", append(p.attrs(t, t.err), "reason", note.reason, "dl_id", note.id)...)
	p.outbox = append(p.outbox, t)
}

// badLetter is for a delivery without a usable payload or key.
func (p *pipeline) badLetter(t *task) {
	reason := t.bad.reason
	t.err, t.stack = t.bad, string(t.bad.stack)
	t.err = p.redact(t)
	note := letterNote{id: p.idAt(t, reason), reason: string(reason), run: 1}
	if r := t.replay; r != nil {
		// The message of a letter is dead again: the same incident goes on.
		note.id, note.opened, note.run = r.note.ID, r.note.Opened, max(r.note.Run, 1)+1
	}
	p.mail(t, note)
}

func (p *pipeline) tooOldLetter(t *task) {
	t.answer = dedup.Failed
	t.err = errors.New("passed before, and its record has expired: a repeat cannot be told from a new message")
	p.mail(t, letterNote{id: p.idAt(t, deadletter.ReasonTooOld), reason: string(deadletter.ReasonTooOld)})
}

func (p *pipeline) idAt(t *task, reason deadletter.Reason) string {
	at := lies(t)
	return deadletter.IDAt(p.cfg.Name, at.Source, at.Partition, at.Offset, reason)
}

func (p *pipeline) conflictLetter(t *task) {
	t.err = fmt.Errorf("this key was used with other content, by the message at %s/%d/%d", t.record.Source.Source, t.record.Source.Partition, t.record.Source.Offset)
	id := deadletter.ConflictID(t.view.Key, t.opened, t.fp)
	t.answer = dedup.Failed
	p.mail(t, letterNote{id: id, reason: string(deadletter.ReasonConflict), run: t.run, opened: t.opened})
}

// endLetter is for a claim that this process has just ended.
func (p *pipeline) endLetter(t *task, state dedup.State) {
	reason := deadletter.Reason(t.reason)
	if state == dedup.InDoubt {
		reason = deadletter.ReasonInDoubt
	}
	t.reason, t.answer = string(reason), state
	p.mail(t, letterNote{id: deadletter.ID(t.view.Key, t.opened), reason: t.reason, run: t.run, opened: t.opened, owed: true})
}

// owedLetter is for an outcome that an earlier process has recorded without
// getting so far as its letter.
func (p *pipeline) owedLetter(t *task) {
	r := t.record
	t.reason, t.err, t.stack, t.answer = r.Reason, recorded(r), r.Stack, r.State
	p.mail(t, letterNote{id: deadletter.ID(t.view.Key, r.Opened), reason: r.Reason, run: r.Run, opened: r.Opened, owed: true})
}

// letter is what is published for a task in phase lettering.
func (p *pipeline) letter(t *task) deadletter.Letter {
	text, typ, stack := errorTexts(t)
	at, stored := p.position(t), t.stored()
	if t.note.reason == string(deadletter.ReasonConflict) {
		// The record speaks of the message that was first, not of this one.
		at = lies(t)
	}
	if at.Source != t.d.Lane.Source && at != t.origin() {
		stored = time.Time{} // it is the copy's that waited, and the original's is not kept
	}
	l := deadletter.Letter{
		ID: t.note.id, Consumer: p.cfg.Name, Reason: deadletter.Reason(t.note.reason),
		Error: text, ErrorType: typ, Stack: stack,
		Failures: int(t.failures), Crashes: int(t.crashes),
		Run: t.note.run, AppVersion: p.cfg.AppVersion, Traceparent: t.view.Header("traceparent"),
		Source: deadletter.Source{
			Topic: t.d.Lane.Topic, Identity: at.Source, Subject: t.d.Subject,
			Partition: at.Partition, Offset: at.Offset, JetStream: t.d.Subject != "", Time: stored,
		},
		BrokerKey: t.d.Key, Value: t.d.Value, Headers: t.view.Headers,
	}
	switch {
	case t.bad == nil:
		l.Key, l.Fingerprint = t.view.Key, t.fp
	case t.again() && !t.replay.note.Key.OfLetter():
		l.Key = t.replay.note.Key // which could be found once, and has a record
	}
	if r := t.replay; r != nil {
		l.ReplayJob, l.ReplayCount = cmp.Or(r.note.Job, r.ticket.Job), r.ticket.Count
	} else if r := t.runs(); r != nil {
		l.ReplayJob = r.Job
	}
	if r := t.record; r != nil {
		l.FirstFailed, l.LastFailed = r.FirstFailed, r.LastFailed
	}
	if t.attempt != nil && t.failures > 0 {
		l.LastFailed = t.began.Add(t.ran)
		if l.FirstFailed.IsZero() {
			l.FirstFailed = l.LastFailed
		}
	}
	return l
}

// outgoing is what is published for a task in phase lettering or copying.
func (p *pipeline) outgoing(t *task) brokers.Outgoing {
	topic := p.destination(t)
	switch {
	case t.phase == copying:
		headers := t.view.Headers
		if t.replay.live() { // so that its letter is answered in the end
			headers = slices.Concat(headers, t.replay.ticket.Headers())
		}
		return brokers.Outgoing{
			Topic: topic, Key: t.d.Key, Value: t.d.Value, Headers: headers, Subject: t.d.Subject,
			ID: fmt.Sprintf("%s-%d", deadletter.ID(t.view.Key, t.opened), t.fence),
		}
	case t.pointer:
		return deadletter.Pointer(p.letter(t), topic)
	}
	return deadletter.Encode(p.letter(t), topic)
}

// destination is where a task in phase lettering or copying is published.
func (p *pipeline) destination(t *task) string {
	to := p.cfg.Broker.Destinations(p.cfg.Name, t.d.Lane.Topic)
	if t.phase == copying {
		return to.Retry
	}
	return to.DeadLetter
}

// letterTrouble names what is degraded while a task cannot be published.
func (p *pipeline) letterTrouble(t *task) string {
	if t.phase == copying {
		return "retry copies to " + p.destination(t)
	}
	return "letters to " + p.destination(t)
}

// storedError is an error's text and type without the error: redacted, or read
// from a record.
type storedError struct{ text, typ string }

func (e *storedError) Error() string { return e.text }

// recorded is the error that a record keeps, nil where it keeps none.
func recorded(r *dedup.Record) error {
	if r.Error == "" {
		return nil
	}
	return &storedError{text: r.Error, typ: r.ErrorType}
}

// redact applies the configured function to a task's error and stack.
func (p *pipeline) redact(t *task) error {
	if t.stack != "" {
		t.stack = p.redactText(t.stack)
	}
	return p.redactError(t.err)
}

func (p *pipeline) redactError(err error) error {
	if err == nil {
		return nil
	}
	text, ok := textOf(err)
	if redacted := p.redactText(text); !ok || redacted != text {
		return &storedError{text: redacted, typ: errorType(err)}
	}
	return err
}

// textOf is what the error says, and whether it can say something without
// panicking: a nil pointer in an error cannot.
func textOf(err error) (text string, ok bool) {
	defer func() {
		if v := recover(); v != nil {
			text, ok = fmt.Sprintf("%T, whose Error panicked: %v", err, v), false
		}
	}()
	return err.Error(), true
}

// redactText is the user's own function. Where it panics nothing may pass.
func (p *pipeline) redactText(text string) (redacted string) {
	defer func() {
		if v := recover(); v != nil {
			p.log.Error("Redact panicked: a text is left out", "panic", v)
			redacted = "left out, since Redact panicked"
		}
	}()
	return p.cfg.Redact(text)
}

// errorType is the type of the error that the handler made, under our marks.
func errorType(err error) string {
	for {
		switch e := err.(type) {
		case *classified:
			err = e.err
		case *PanicError:
			return fmt.Sprintf("panic(%T)", e.Value)
		case *keyError:
			err = e.err
		case *storedError:
			return e.typ
		default:
			name := fmt.Sprintf("%T", err)
			// Nobody's own Unwrap is called, which may panic.
			if name == "*fmt.wrapError" {
				if under := errors.Unwrap(err); under != nil {
					err = under // a wrapping of fmt's says nothing to group by
					continue
				}
			}
			return name
		}
	}
}

// errorTexts is what of a task's error goes into records and letters.
func errorTexts(t *task) (text, typ, stack string) {
	if t.err == nil {
		return "", "", ""
	}
	return cut.Text(t.err.Error(), dedup.MaxError), cut.Text(errorType(t.err), dedup.MaxError), cut.Text(t.stack, dedup.MaxStack)
}
