package consumer

import (
	"context"
	"time"

	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
)

// replay is what the store confirms of a delivery that has come back from the
// dead letters. What a delivery says of itself without the store decides
// nothing.
type replay struct {
	ticket deadletter.Ticket
	note   dedup.Letter // as it was when the delivery was received
	// spent: the copy was answered before, or its letter is no longer the job's
	// that sent it. This is a repeat, which gives no right; where the message was
	// first published is true of it too.
	spent bool
}

const (
	// askLetters bounds one question for letters; it is asked again.
	askLetters = 10 * time.Second
	// warnTokens is how often tokens that the store does not know are told of.
	warnTokens = time.Minute
	// noTokens is what is degraded while the store does not tell of letters.
	noTokens = "replay tokens"
)

// verify compares what bearers claim with the notes of their letters. It waits
// until the store answers: without it nobody can tell a copy from a message
// that somebody has made up. An error is that of ctx.
func (r *receiver) verify(ctx context.Context, bearers []*task) error {
	ids := make([]string, len(bearers))
	for i, t := range bearers {
		ids[i] = t.replay.ticket.ID
	}
	notes, err := r.letters(ctx, ids)
	if err != nil {
		return err
	}
	for i, t := range bearers {
		if !t.replay.confirmed(&notes[i], r.p.cfg.Name) {
			t.replay = nil
			r.unknown++
		}
	}
	if now := time.Now(); r.unknown > 0 && now.Sub(r.warned) >= warnTokens {
		r.p.log.Warn("messages bear replay tokens that the store does not have: they are handled as if they bore none", "messages", r.unknown)
		r.unknown, r.warned = 0, now
	}
	return nil
}

// letters asks for notes until they come.
func (r *receiver) letters(ctx context.Context, ids []string) ([]dedup.Letter, error) {
	for tries := 1; ; tries++ {
		asking, cancel := context.WithTimeout(ctx, askLetters)
		notes, err := dedup.Letters(asking, r.p.store, ids)
		cancel()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err == nil {
			r.p.restore(noTokens)
			return notes, nil
		}
		r.p.degrade(noTokens, err)
		if err := again(ctx, tries); err != nil {
			return nil, err
		}
	}
}

// confirmed says whether note is that of the letter, and bears the token.
func (r *replay) confirmed(note *dedup.Letter, consumer string) bool {
	own, present := r.ticket.Of(note.Token)
	r.note, r.spent = *note, !present || !note.Awaits(note.Token)
	return own && note.State != dedup.LetterNone && note.Key.Consumer == consumer
}

// live says that the letter waits for an answer to this copy. It may be asked
// of nil.
func (r *replay) live() bool { return r != nil && !r.spent }

// origin is where the letter says that the message was first published; zero
// where it does not, or t is no copy of a letter.
func (t *task) origin() dedup.Position {
	// What has a key and was sent to the source is a message there like any
	// other: its own place decides what has passed.
	if t.replay != nil && (t.lane.Retry || t.bad != nil) {
		return t.replay.note.Source
	}
	return dedup.Position{}
}

// stored is when the broker stored the message that t is a copy of, or t.
func (t *task) stored() time.Time {
	if t.origin() != (dedup.Position{}) && !t.replay.note.Time.IsZero() {
		return t.replay.note.Time
	}
	return t.d.Time
}

// since is from when on what is done under the key of a copy of a letter is
// remembered for a window. The copy is as old as its letter, as the plan has it,
// however old the message was when it died, unless it was that which it died of.
func (r *replay) since() time.Time {
	if r.note.Reason == string(deadletter.ReasonTooOld) {
		return r.note.Time
	}
	return r.note.Noted
}

// again says that the letter of t is the one of which t is a copy: the same
// incident, one death further.
func (t *task) again() bool {
	return t.replay != nil && t.note.id == t.replay.note.ID
}

// runs is the letter that opened the run of the record which t has ended, or
// found ended; nil where no replay has opened it.
func (t *task) runs() *dedup.Record {
	if t.record == nil || t.record.Letter == "" || t.record.Job == "" || t.note.reason == string(deadletter.ReasonConflict) {
		return nil // a conflict says nothing of the record that it met
	}
	return t.record
}

// answers says that a letter waits for the outcome of t.
func (t *task) answers() bool {
	return t.replay.live() && !t.again() || t.runs() != nil
}

// addAnswers adds to the next commit what the letters are told of t. The store
// refuses what another has told them before, and that is right. owner is asked
// for to go on with the first.
func (p *pipeline) addAnswers(t, owner *task) {
	tell := func(key dedup.Key, l dedup.Letter) {
		l.Answer = t.answer
		p.add(owner, dedup.Op{
			Kind: dedup.MoveLetter, Key: key,
			Letter: &dedup.LetterOp{Letter: l, From: dedup.LetterSent, To: dedup.LetterResolved},
		})
		owner = nil
	}
	if r := t.replay; r.live() && !t.again() {
		tell(r.note.Key, dedup.Letter{ID: r.note.ID, Token: r.ticket.Token})
	}
	if r := t.runs(); r != nil && !(t.replay.live() && t.replay.note.ID == r.Letter) {
		tell(t.view.Key, dedup.Letter{ID: r.Letter, Job: r.Job})
	}
}

// outcome is what a letter is told of a record that has ended or is held.
func outcome(r *dedup.Record) dedup.State {
	if ended := r.Ended(); ended != dedup.Absent {
		return ended // also of one that is archived
	}
	return r.State
}
