package storetest

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/onceward/onceward/dedup"
)

// Serve gives the store to whoever dials the listener with [Dial], until stop
// is called: so several processes can share records in a test. Leases are
// judged by the store's clock, here; a client that is killed leaves its claims
// to lapse.
//
// It starts goroutines, and stop waits for them: it closes the listener and
// every connection, and leaves the store open. There is no authentication:
// listen on a unix socket or on the loopback address. Enlisted work cannot
// travel.
func Serve(l net.Listener, s dedup.Store) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	v := &server{store: s, conns: make(map[net.Conn]bool)}
	v.wg.Go(func() { v.accept(ctx, l) })
	return sync.OnceFunc(func() {
		cancel()
		_ = l.Close()
		v.mu.Lock()
		v.closed = true
		for c := range v.conns {
			_ = c.Close()
		}
		v.mu.Unlock()
		v.wg.Wait()
	})
}

type server struct {
	store dedup.Store
	wg    sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]bool
}

func (v *server) accept(ctx context.Context, l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		v.mu.Lock()
		if v.closed {
			_ = c.Close()
		} else {
			v.conns[c] = true
			v.wg.Go(func() {
				defer v.drop(c)
				v.answer(ctx, newWire(c))
			})
		}
		v.mu.Unlock()
	}
}

func (v *server) drop(c net.Conn) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.conns, c)
	_ = c.Close()
}

// answer serves one connection until it ends or sends garbage.
func (v *server) answer(ctx context.Context, w *wire) {
	for {
		var q request
		if err := w.receive(&q); err != nil {
			return
		}
		if err := v.one(ctx, w, &q); err != nil {
			return
		}
	}
}

func (v *server) one(ctx context.Context, w *wire, q *request) error {
	var p response
	var err error
	switch q.Call {
	case callInfo:
		p.Info = v.store.Info()
	case callApply:
		p.Answers, err = v.store.Apply(ctx, q.Ops)
		for i := range p.Answers {
			if fault := p.Answers[i].Err; fault != nil {
				if p.Faults == nil {
					p.Faults = make(map[int]wireError)
				}
				p.Faults[i], p.Answers[i].Err = *toWire(fault), nil
			}
		}
	case callLookup:
		p.Records, err = v.store.Lookup(ctx, q.Keys)
	case callLetters:
		p.Letters, err = v.store.Letters(ctx, q.IDs)
	case callPrefixes:
		p.Positions, err = v.store.Prefixes(ctx, q.Consumer)
	case callSweep:
		p.Swept, err = v.store.Sweep(ctx, q.Limit)
	case callScan:
		for r, failed := range v.store.Scan(ctx, q.Consumer) {
			if err = failed; err != nil {
				break
			}
			if p.Records = append(p.Records, r); len(p.Records) == scanFrame {
				if err := w.send(&response{Records: p.Records, More: true}); err != nil {
					return err
				}
				p.Records = nil
			}
		}
	case callScanLetters:
		for l, failed := range v.store.ScanLetters(ctx, q.Consumer) {
			if err = failed; err != nil {
				break
			}
			if p.Letters = append(p.Letters, l); len(p.Letters) == scanFrame {
				if err := w.send(&response{Letters: p.Letters, More: true}); err != nil {
					return err
				}
				p.Letters = nil
			}
		}
	default:
		err = errors.New("unknown call")
	}
	p.Err = toWire(err)
	return w.send(&p)
}
