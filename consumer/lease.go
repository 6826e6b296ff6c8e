package consumer

import (
	"time"

	"github.com/onceward/onceward/dedup"
)

const (
	// leaseParts: a shared store has a sixth of the lease for an answer, so that
	// one that was lost is repeated in time.
	leaseParts = 6
	// leaseMargin: a handler whose lease ends within a fifth is cut short, and has
	// that for its own end.
	leaseMargin = 5
)

// renewals extends the leases of all that is owned.
func (p *pipeline) renewals() {
	if p.renewing > 0 || p.now.Before(p.renewalDue) {
		return
	}
	p.renewalDue = p.now.Add(p.cfg.Lease / 12)
	for _, t := range p.owned {
		if t.hung || t.phase == ending || t.renewAt.After(p.renewalDue) {
			continue
		}
		p.renewing++
		p.add(t, dedup.Op{Kind: dedup.Renew, Key: t.view.Key, Fence: t.fence, Lease: p.cfg.Lease})
	}
}

func (p *pipeline) renewed(t *task, a *dedup.Answer, sent time.Time) {
	if !t.owned {
		return // its lease was lost while this waited
	}
	if a.Kind == dedup.Done {
		t.leaseEnd, t.renewAt = sent.Add(p.cfg.Lease), sent.Add(p.cfg.Lease/3)
		return
	}
	p.loseLease(t)
}

// loseLease cuts a handler short whose claim another may take now.
func (p *pipeline) loseLease(t *task) {
	p.disown(t)
	p.retract() // what has not started must not, under a claim that may be another's
	if t.attempt != nil {
		t.attempt.end(ErrLeaseLost)
	}
	if t.phase == running {
		p.log.Warn("lease lost: the handler is cut short", p.attrs(t, nil)...)
	} else {
		p.log.Warn("lease lost while no handler ran", p.attrs(t, nil)...)
	}
	if t.phase == ready {
		other := func(o *task) bool { return o != t }
		p.readied, p.suspects = filter(p.readied, other), filter(p.suspects, other)
		p.aloneEnded(t)
		p.giveBack(t) // which the store takes unless another has the claim: it is no crash
	}
}

func (p *pipeline) own(t *task) {
	t.owned = true
	t.slot = len(p.owned)
	p.owned = append(p.owned, t)
}

func (p *pipeline) disown(t *task) {
	if !t.owned {
		return
	}
	t.owned = false
	last := p.owned[len(p.owned)-1]
	p.owned[t.slot], last.slot = last, t.slot
	p.owned[len(p.owned)-1] = nil
	p.owned = p.owned[:len(p.owned)-1]
}
