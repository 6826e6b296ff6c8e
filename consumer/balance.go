package consumer

// balance keeps one lane whose tasks all wait from filling the bound on
// unfinished deliveries. With other lanes beside it, it is paused when it holds
// more than half of the bound, until it holds no more than a quarter or is the
// only one.
func (p *pipeline) balance() {
	if p.stopping {
		return
	}
	limit := p.cfg.Unfinished.Messages
	for _, l := range p.lanes {
		pause := l.paused
		switch {
		case l.ended:
			continue
		case len(p.lanes) < 2 || l.unfinished <= limit/4:
			pause = false
		case l.unfinished > limit/2:
			pause = true
		}
		if pause != l.paused {
			l.paused = pause
			p.source.Pause(l.Lane, pause)
		}
	}
}
