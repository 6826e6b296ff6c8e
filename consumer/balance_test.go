package consumer

import (
	"testing"

	"github.com/onceward/onceward/brokers"
)

// pauses is a source that only knows which lanes are paused.
type pauses struct {
	brokers.Source
	paused map[*brokers.Lane]bool
}

func (s pauses) Pause(l *brokers.Lane, paused bool) { s.paused[l] = paused }

func TestAPausedLaneGoesOnOnceTheOthersHaveGone(t *testing.T) {
	p, _ := pipelineOfOneWorker(t)
	source := pauses{paused: map[*brokers.Lane]bool{}}
	p.source = source
	other := &brokers.Lane{Topic: "orders", Partition: 1}
	p.laneOf(other)
	full := p.laneOf(&brokers.Lane{Topic: "orders", Partition: 2})
	full.unfinished = p.cfg.Unfinished.Messages
	p.balance()
	if !source.paused[full.Lane] {
		t.Fatal("a lane that holds everything is not paused")
	}
	for l := range p.lanes {
		if l != full.Lane {
			delete(p.lanes, l)
		}
	}
	p.balance()
	if source.paused[full.Lane] {
		t.Error("paused for ever: nothing asks for its deliveries")
	}
}

func TestAPausedLaneGoesOnWhenItHoldsNothing(t *testing.T) {
	for limit := 1; limit < 10; limit++ {
		p, _ := pipelineOfOneWorker(t)
		source := pauses{paused: map[*brokers.Lane]bool{}}
		p.source, p.cfg.Unfinished.Messages = source, limit
		l := p.laneOf(&brokers.Lane{Topic: "orders", Partition: 1})
		l.unfinished = limit
		p.balance()
		l.unfinished = 0
		p.balance()
		if source.paused[l.Lane] {
			t.Errorf("with a bound of %d a lane that holds nothing stays paused", limit)
		}
	}
}
