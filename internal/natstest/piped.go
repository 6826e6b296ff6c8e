package natstest

import (
	"errors"
	"net"
	"runtime"
	"sync"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
)

// Piped is a server that is reached without sockets, so that fake time passes in
// a bubble of testing/synctest. It can be stopped and started again, which it
// does not forget anything by. It is a nats.InProcessConnProvider.
type Piped struct {
	t   testing.TB
	dir string

	mu sync.Mutex
	s  *server.Server // nil while it is stopped
}

// Inside starts a server in the bubble of t, with its files in dir, and stops it
// with the test. dir is best a folder of the test around the bubble.
//
// It runs the garbage collector, before and afterwards, so as to take the timers
// of other tests out of the pools of the NATS libraries: one that was made in a
// bubble cannot be used outside of it, and the other way round. Nothing outside
// of the bubble may use NATS meanwhile.
func Inside(t testing.TB, dir string) *Piped {
	t.Helper()
	emptyPools()
	p := &Piped{t: t, dir: dir}
	p.Start()
	t.Cleanup(func() {
		p.Stop()
		emptyPools()
	})
	return p
}

func emptyPools() {
	runtime.GC() // moves what a sync.Pool holds aside
	runtime.GC() // and forgets it
}

// Start starts the server again.
func (p *Piped) Start() {
	p.t.Helper()
	s := start(p.t, &server.Options{DontListen: true, JetStream: true, StoreDir: p.dir})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.s = s
}

// Stop stops the server, if it runs, and blocks until it is down. Until it is
// started again its address refuses connections.
func (p *Piped) Stop() {
	p.mu.Lock()
	s := p.s
	p.s = nil
	p.mu.Unlock()
	if s != nil {
		s.Shutdown()
		s.WaitForShutdown()
	}
}

// InProcessConn makes a connection.
func (p *Piped) InProcessConn() (net.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.s == nil {
		return nil, errors.New("connection refused")
	}
	return p.s.InProcessConn()
}
