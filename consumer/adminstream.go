package consumer

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/onceward/onceward/internal/adminapi"
)

// lines writes a stream: one JSON object a line, flushed within a second, with
// a line that says so while there is nothing else to say, and a last line that
// says that it is complete, or why not.
type lines struct {
	control *http.ResponseController
	ended   chan struct{} // closed when the last line is written

	mu     sync.Mutex // guards everything below
	out    *bufio.Writer
	last   time.Time // something was written
	count  int64
	failed error // the peer is gone
}

var errStreamFor = errors.New("the stream has gone on for an hour, and ends")

// stream answers a request with the lines that write sends, and refuses nothing:
// the last line says what went wrong. Its context ends with the request, and when
// the stream has gone on for too long.
func stream(w http.ResponseWriter, r *request, write func(ctx context.Context, l *lines) error) *refusal {
	ctx, cancel := context.WithTimeoutCause(r.Context(), streamFor, errStreamFor)
	defer cancel()
	w.Header().Set("Content-Type", "application/x-ndjson")
	l := &lines{control: http.NewResponseController(w), ended: make(chan struct{}), out: bufio.NewWriterSize(w, 64<<10), last: time.Now()}
	var ticking sync.WaitGroup
	ticking.Go(l.tick)
	defer ticking.Wait()
	defer close(l.ended) // also where write panics
	err := write(ctx, l)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	l.end(err)
	return nil
}

// tick flushes what lies ready and says that the stream goes on.
func (l *lines) tick() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-l.ended:
			return
		}
		if !l.mu.TryLock() {
			continue // a line is on its way
		}
		if time.Since(l.last) >= adminapi.Alive {
			_ = l.put(&adminapi.Line{Alive: true}) // who sends next is told
		}
		l.flush()
		l.mu.Unlock()
	}
}

// send writes one line. It is an error when the peer is gone, or does not take
// what it is sent.
func (l *lines) send(line *adminapi.Line) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if line.Lane == nil {
		l.count++
	}
	return l.put(line)
}

// end writes the last line.
func (l *lines) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := &adminapi.Line{End: true, Count: &l.count}
	if err != nil {
		last = &adminapi.Line{Error: adminapi.OfError(err)}
	}
	_ = l.put(last) // the peer is gone, or sees that it was cut
	l.flush()
	_ = l.control.SetWriteDeadline(time.Time{}) // the connection may serve others
}

// put writes a line to the buffer; the caller holds l.mu.
func (l *lines) put(line *adminapi.Line) error {
	if l.failed != nil {
		return l.failed
	}
	b, err := adminapi.Encode(line)
	if err != nil {
		return err // the last line says it
	}
	l.last = time.Now()
	if l.out.Available() <= len(b) { // it passes something on, which must not wait for ever
		_ = l.control.SetWriteDeadline(l.last.Add(stallFor))
	}
	if _, err := l.out.Write(append(b, '\n')); err != nil {
		l.failed = err
	}
	return l.failed
}

func (l *lines) flush() {
	if l.failed != nil {
		return
	}
	_ = l.control.SetWriteDeadline(time.Now().Add(stallFor))
	if l.failed = l.out.Flush(); l.failed == nil {
		_ = l.control.Flush() // what cannot flush writes at once
	}
}
