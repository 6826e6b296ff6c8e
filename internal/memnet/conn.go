package memnet

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// capacity of one direction, as large as a socket's buffer.
const capacity = 256 << 10

// conn is one end of a connection.
type conn struct {
	in, out      *stream
	local, other net.Addr
}

// pair makes both ends.
func pair(client, server net.Addr) (*conn, *conn) {
	up, down := newStream(), newStream()
	return &conn{in: down, out: up, local: client, other: server},
		&conn{in: up, out: down, local: server, other: client}
}

func (c *conn) Read(p []byte) (int, error)  { return c.in.read(p) }
func (c *conn) Write(p []byte) (int, error) { return c.out.write(p) }
func (c *conn) LocalAddr() net.Addr         { return c.local }
func (c *conn) RemoteAddr() net.Addr        { return c.other }

func (c *conn) Close() error {
	c.in.end(func(s *stream) { s.readerGone = true })
	c.out.end(func(s *stream) { s.writerGone = true })
	return nil
}

func (c *conn) reset() {
	for _, s := range []*stream{c.in, c.out} {
		s.end(func(s *stream) { s.broken = true })
	}
}

func (c *conn) SetDeadline(t time.Time) error {
	c.in.reading.set(c.in, t)
	c.out.writing.set(c.out, t)
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.reading.set(c.in, t)
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.out.writing.set(c.out, t)
	return nil
}

// stream is one direction. All of it is guarded by mu.
type stream struct {
	mu         sync.Mutex
	moved      *sync.Cond
	buffer     []byte
	readerGone bool // its end was closed: writes fail, reads there too
	writerGone bool // its end was closed: reads end with io.EOF
	broken     bool // reset: both fail
	reading    deadline
	writing    deadline
}

func newStream() *stream {
	s := &stream{}
	s.moved = sync.NewCond(&s.mu)
	return s
}

func (s *stream) end(how func(*stream)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	how(s)
	s.moved.Broadcast()
}

func (s *stream) read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.readerGone:
			return 0, net.ErrClosed
		case s.broken:
			return 0, syscall.ECONNRESET
		case s.reading.over:
			return 0, os.ErrDeadlineExceeded
		case len(p) == 0:
			return 0, nil
		case len(s.buffer) > 0:
			n := copy(p, s.buffer)
			if s.buffer = s.buffer[n:]; len(s.buffer) == 0 {
				s.buffer = nil
			}
			s.moved.Broadcast()
			return n, nil
		case s.writerGone:
			return 0, io.EOF
		}
		s.moved.Wait()
	}
}

func (s *stream) write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	done := 0
	for {
		switch {
		case s.writerGone:
			return done, net.ErrClosed
		case s.broken, s.readerGone:
			return done, syscall.ECONNRESET
		case s.writing.over:
			return done, os.ErrDeadlineExceeded
		}
		if free := capacity - len(s.buffer); free > 0 {
			n := min(free, len(p)-done)
			s.buffer = append(s.buffer, p[done:done+n]...)
			done += n
			s.moved.Broadcast()
		}
		if done == len(p) {
			return done, nil
		}
		s.moved.Wait()
	}
}

// deadline of one direction of one end; guarded by the stream's mu.
type deadline struct {
	timer *time.Timer
	over  bool
}

func (d *deadline) set(s *stream, t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.over = false
	if t.IsZero() {
		return
	}
	wait := time.Until(t)
	if wait <= 0 {
		d.over = true
		s.moved.Broadcast()
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(wait, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if d.timer == timer { // else it was set again meanwhile
			d.over = true
			s.moved.Broadcast()
		}
	})
	d.timer = timer
}
