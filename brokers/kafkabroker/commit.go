package kafkabroker

import (
	"context"
	"errors"
	"time"

	"github.com/onceward/onceward/brokers/kafkabroker/internal/cluster"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/group"
)

// writing waits until it is this caller's turn to commit. Two commits could
// reach the broker in the other order, and an older position, or a mark that
// was taken back, would be there again.
func (s *source) writing(ctx context.Context) (done func(), err error) {
	select {
	case s.turns <- struct{}{}:
		return func() { <-s.turns }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// commitAll commits the lanes whose positions count.
func (s *source) commitAll(ctx context.Context) error { return s.commit(ctx, s.all) }

// commit stores the positions of lanes that moved since the last time. Those of
// claims that are over are left to the next owner.
func (s *source) commit(ctx context.Context, lanes func() []*lane) error {
	done, err := s.writing(ctx)
	if err != nil {
		return err
	}
	defer done()
	ls := lanes()
	want := map[group.Claim]group.Position{}
	by := map[group.Claim]*lane{}
	s.mu.Lock()
	for _, l := range ls {
		if !l.placed || l.life == ended || l.held || l.leader < 0 && l.fails > 0 {
			// Of a partition that cannot be read it is not certain that it is
			// still the one that the position counts in.
			continue
		}
		p := group.Position{Offset: l.track.Next(), Text: s.note(l)}
		if p == l.stored && !l.force || p.Offset < l.stored.Offset {
			continue
		}
		want[l.claim], by[l.claim] = p, l
	}
	s.mu.Unlock()
	if len(want) == 0 {
		return nil
	}
	err = s.member.Commit(ctx, want)
	if err != nil && !errors.Is(err, group.ErrNotOwned) {
		return err
	}
	s.mu.Lock()
	for c, p := range want {
		by[c].stored, by[c].force = p, false
	}
	s.mu.Unlock()
	return nil
}

// saving commits at the interval.
func (s *source) saving() {
	tick := time.NewTicker(s.cfg.CommitInterval)
	defer tick.Stop()
	for {
		select {
		case <-s.life.Done():
			return
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(s.life, cluster.Short)
		err := s.commitAll(ctx)
		cancel()
		switch {
		case s.life.Err() != nil:
		case err == nil:
			s.trouble.over("commit")
		default:
			s.trouble.report("commit", err)
		}
	}
}
