package consumer

import (
	"github.com/onceward/onceward/dedup"
)

// A process that dies takes its running neighbours' claims along, so crashes
// alone prove nothing. A key that has lapsed twice is a suspect: it runs when
// nothing else does, marked so in its record, and only crashes while marked
// count towards a crash-loop letter.

// suspectCrashes is how many crashes make a key a suspect.
const suspectCrashes = 2

// collectAlone asks for the mark of the next suspect once nothing runs.
func (p *pipeline) collectAlone() {
	if p.alone == nil && len(p.suspects) > 0 && !p.stopping {
		p.alone = p.suspects[0]
		p.suspects = p.suspects[1:]
		p.aloneAsked = true
		p.retract()
		return // a worker may have taken one just before: the next look tells
	}
	if !p.aloneAsked || p.busy > 0 || p.handed > 0 {
		return // others still run: their end rings
	}
	p.aloneAsked = false
	p.add(p.alone, dedup.Op{Kind: dedup.Alone, Key: p.alone.view.Key, Fence: p.alone.fence})
}

// aloneDue says that collectAlone has something to do.
func (p *pipeline) aloneDue() bool {
	if p.alone == nil {
		return len(p.suspects) > 0 && !p.stopping
	}
	return p.aloneAsked && p.busy == 0 && p.handed == 0
}

// markedAlone lets a suspect run, or gives it up when its claim is another's.
func (p *pipeline) markedAlone(t *task, a *dedup.Answer) {
	if p.alone != t {
		return // its lease was lost in the same commit
	}
	if a.Kind == dedup.Done && !t.lane.ended && !p.stopping {
		p.aloneMarked = true
		return
	}
	p.alone = nil
	if a.Kind != dedup.Done {
		p.disown(t) // lapsed, or another's
	}
	p.giveBack(t)
}

// aloneReady says that a marked suspect can be handed to a worker.
func (p *pipeline) aloneReady() bool {
	return p.aloneMarked && p.storeTries == 0
}

// aloneBack gives a suspect back that has not started.
func (p *pipeline) aloneBack(of func(*task) bool) {
	if t := p.alone; t != nil && of(t) && t.phase == ready && (p.aloneAsked || p.aloneMarked) {
		p.aloneEnded(t)
		p.giveBack(t)
	}
}

// aloneEnded lets others start again once the suspect's claim has ended.
func (p *pipeline) aloneEnded(t *task) {
	if p.alone == t {
		p.alone, p.aloneAsked, p.aloneMarked = nil, false, false
	}
}
