package consumer

import "testing"

func TestAQueueThatIsNeverEmptyTakesNoMoreMemory(t *testing.T) {
	p, one := pipelineOfOneWorker(t)
	next := func() *task {
		task := one()
		p.start(task)
		return task
	}
	p.work.hand([]*task{next(), next()})
	var done *task
	for range 10_000 {
		done = p.work.exchange(0, done)
		p.work.hand([]*task{next()})
		p.work.take(nil)
	}
	if n := cap(p.work.queue); n > 100 {
		t.Errorf("room for %d tasks, and two waited at a time", n)
	}
}
