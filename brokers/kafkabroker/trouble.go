package kafkabroker

import (
	"sync"

	"github.com/onceward/onceward/internal/serial"
)

// trouble tells of what heals by itself: once when it begins or changes its
// text, once when it is over.
type trouble struct {
	events *serial.Queue
	tell   func(what string, err error) // nil: nobody listens

	mu   sync.Mutex
	open map[string]string // what → the last text
}

// maxOpen bounds what is remembered: topics and partitions have names, so it
// is only a limit against a fault of this program.
const maxOpen = 10_000

func (t *trouble) report(what string, err error) {
	text := err.Error()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open[what] == text || len(t.open) >= maxOpen {
		return
	}
	t.open[what] = text
	if t.tell != nil {
		t.events.Call(func() { t.tell(what, err) })
	}
}

func (t *trouble) over(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.open[what]; !ok {
		return
	}
	delete(t.open, what)
	if t.tell != nil {
		t.events.Call(func() { t.tell(what, nil) })
	}
}
