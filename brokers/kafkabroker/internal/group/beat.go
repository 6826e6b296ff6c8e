package group

import (
	"context"
	"errors"
	"time"

	"github.com/segmentio/kafka-go"
)

// burst is how much more often heartbeats come for two intervals after a
// round: a rebalance goes on only when each member has heard of it, and a
// cooperative one has a second round.
const burst = 5

// beat sends heartbeats in every state; during a join they only prolong the
// lease. They start anew at each change of generation, at the same moment in
// all members.
func (m *Member) beat(ctx context.Context) {
	last := time.Now()
	for {
		m.mu.Lock()
		wait, changed := m.cfg.Heartbeat, m.changed
		if time.Since(m.settled) < 2*wait {
			wait /= burst
		}
		m.mu.Unlock()
		timer := time.NewTimer(time.Until(last.Add(wait)))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-changed:
			timer.Stop()
			last = time.Now()
			continue
		case <-timer.C:
		}
		last = time.Now()
		m.beatOnce(ctx)
	}
}

func (m *Member) beatOnce(ctx context.Context) {
	m.mu.Lock()
	id, generation, fatal := m.id, m.generation, m.fatal
	m.mu.Unlock()
	if id == "" || generation < 0 || fatal != nil {
		return
	}
	if m.cfg.Healthy != nil {
		if err := m.cfg.Healthy(); err != nil {
			m.fail(err)
			return
		}
	}
	sent := time.Now()
	err := m.heartbeat(ctx, id, generation)
	if err == nil || errors.Is(err, kafka.RebalanceInProgress) {
		m.mu.Lock()
		if m.id == id && m.synced >= 0 {
			m.extend(sent)
		}
		m.mu.Unlock()
	}
	if err == nil {
		m.trouble(nil)
		return
	}
	if ctx.Err() == nil {
		if !errors.Is(err, kafka.RebalanceInProgress) {
			m.trouble(err)
		}
		_ = m.judge(beating, err, id, generation)
	}
}
