package kafkabroker

import (
	"context"
	"slices"

	"github.com/onceward/onceward/brokers/kafkabroker/internal/cluster"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/group"
)

// revoked gives lanes back: nothing more is handed out of them, their handlers
// end, and what they settled is committed.
func (s *source) revoked(ctx context.Context, claims []group.Claim) {
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		return
	}
	var ls []*lane
	for _, c := range claims {
		if l := s.byClaim[c]; l != nil && l.life != ended {
			l.life = draining
			l.drop()
			ls = append(ls, l)
		}
	}
	s.mu.Unlock()
	// An Assigned that is running comes first.
	told := make(chan struct{})
	s.events.Call(func() { close(told) })
	select {
	case <-told:
	case <-s.events.Done():
	case <-ctx.Done():
	}
	s.mu.Lock()
	var listed []*lane
	for _, l := range ls {
		if l.told {
			listed = append(listed, l)
		}
	}
	s.mu.Unlock()
	if f := s.spec.Events.Revoked; f != nil && len(listed) > 0 {
		f(ctx, public(listed))
	}
	s.mu.Lock()
	listed = slices.DeleteFunc(listed, func(l *lane) bool { return l.life != draining })
	s.mu.Unlock()
	// The drain may have used up ctx; the last positions are worth a moment.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), cluster.Short)
	defer cancel()
	defer context.AfterFunc(s.over, cancel)() // save where Close has no time left
	if err := s.commit(last, func() []*lane { return listed }); err != nil {
		s.trouble.report("commit", err)
	}
	s.forget(ls)
}

// lost ends lanes that somebody else may have by now.
func (s *source) lost(claims []group.Claim, cause error) {
	s.mu.Lock()
	var ls []*lane
	for _, c := range claims {
		if l := s.byClaim[c]; l != nil {
			ls = append(ls, l)
		}
	}
	s.mu.Unlock()
	s.lose(ls, cause)
}

// lose ends lanes without a commit.
func (s *source) lose(ls []*lane, cause error) {
	s.forget(ls)
	s.events.Call(func() {
		s.mu.Lock()
		ls = slices.DeleteFunc(ls, func(l *lane) bool { return !l.told })
		s.mu.Unlock()
		if f := s.spec.Events.Lost; f != nil && len(ls) > 0 {
			f(public(ls), cause)
		}
	})
}

// forget ends lanes.
func (s *source) forget(ls []*lane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range ls {
		l.life = ended
		l.drop()
		l.later = nil
		l.track.Reset(0)
		if s.byClaim[l.claim] == l {
			delete(s.byClaim, l.claim)
		}
		delete(s.byLane, &l.Lane)
		s.lanes = slices.DeleteFunc(s.lanes, func(x *lane) bool { return x == l })
		s.trouble.over("partition " + l.name())
		s.trouble.over("gap " + l.name())
	}
}
