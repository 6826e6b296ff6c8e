package deadletter

import (
	"time"

	"github.com/onceward/onceward/dedup"
)

// step is what is left to be done about an item.
type step int

const (
	doNothing step = iota // it is sent
	doLeave               // something has changed
	doExpire              // the plan has expired
	doRefuse              // a person must look first
	doResolve
	doMiss
	doSend
)

// next compares what the store knows now with what the plan saw.
func (a *application) next(w *work) (step, string) {
	it, n := w.it, &w.e.Note
	if it.ID == "" {
		return a.nextRerun(w)
	}
	sent := n.Job == a.f.Job && (n.State == dedup.LetterSent || n.State == dedup.LetterResolved)
	if it.Decision.Action == Refuse {
		// Expired, and accepted by an earlier call if at all.
		if sent || it.diedAgain(n, a.f.Job) {
			return doNothing, ""
		}
		return doRefuse, it.Decision.Why
	}
	if it.Decision.Action.sends() {
		switch {
		case sent:
			return doNothing, ""
		case n.Job == a.f.Job && n.State == dedup.LetterOpen && it.Key == "":
			w.reopen = w.r.State == dedup.Failed // else that was done before the job died
			return doSend, ""
		case n.Job == a.f.Job && n.State == dedup.LetterOpen:
			// Taken by this job, which then died. Moved on is not sent.
			switch moved := w.r.Ended() != dedup.Absent && !it.Record.is(&w.r); {
			case moved && it.sameContent(w.r.Fingerprint):
				return doResolve, "its operation is finished"
			case !moved: // else its copy meets the other content, and that is a conflict for people
				w.reopen = it.Decision.Action == Reopen
			}
			return doSend, ""
		case it.diedAgain(n, a.f.Job):
			return doNothing, "and failed again"
		}
	} else if n.State == dedup.LetterResolved && it.Decision.Action == Resolve || n.State == dedup.LetterGone && it.Decision.Action == Miss {
		return it.Decision.Action.ends(), n.State.String() + " before"
	}
	if !it.Letter.is(n) {
		return doLeave, w.letterChanged()
	}
	if !time.Now().Before(a.f.Expires) {
		return doExpire, "the plan has expired"
	}
	if it.Decision.Action == Miss {
		return doMiss, it.Decision.Why // whatever its record is
	}
	if it.Key != "" && !it.Record.is(&w.r) {
		return doLeave, w.recordChanged()
	}
	if !it.Decision.Action.sends() {
		return doResolve, it.Decision.Why
	}
	if n.Job != "" {
		return doLeave, "taken by job " + n.Job
	}
	w.reopen = it.Decision.Action == Reopen
	return doSend, ""
}

// ends is the step that ends a letter without a copy.
func (a Action) ends() step {
	if a == Miss {
		return doMiss
	}
	return doResolve
}

// nextRerun is next for a message that is no letter: its record tells it all.
func (a *application) nextRerun(w *work) (step, string) {
	switch {
	case w.r.Job == a.f.Job && (w.r.Sent || w.r.Ended() != dedup.Absent):
		return doNothing, ""
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

// recordChanged says how the record is not what the plan saw.
func (w *work) recordChanged() string {
	return "record was " + w.it.Record.State + ", is " + w.r.State.String() + ", or another run of it"
}

// letterChanged says how the letter is not what the plan saw.
func (w *work) letterChanged() string {
	return "letter was " + w.it.Letter.State + ", is " + w.e.Note.State.String()
}

// diedAgain says that the item's letter, one without a key, has died again as a
// copy that job sent. The note names the job of the last death.
func (it *item) diedAgain(n *dedup.Letter, job string) bool {
	return it.Key == "" && n.State != dedup.LetterNone && n.Run > it.Letter.Run &&
		(n.Run > it.Letter.Run+1 || n.Why == job)
}
