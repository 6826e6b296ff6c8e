package storetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"sync"
	"time"

	"github.com/onceward/onceward/dedup"
)

// idle is how many connections a client keeps for the next calls; a new one
// costs a millisecond, because gob describes its types on each.
const idle = 128

// dialTime bounds a call that has no context.
const dialTime = 10 * time.Second

// Dial opens the store that [Serve] gives at the address ("unix" or "tcp"). It
// is shared and says so (Info().Local is false). Calls that overlap use
// connections of their own; each is as durable as the store behind it.
//
// Errors: where nobody listens there.
func Dial(network, address string) (dedup.Store, error) {
	return DialWith(func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	})
}

// DialWith is [Dial] with connections of the caller's making, such as pipes in
// memory, which move in testing/synctest bubbles.
func DialWith(dial func(context.Context) (net.Conn, error)) (dedup.Store, error) {
	c := &client{dial: dial}
	ctx, cancel := context.WithTimeout(context.Background(), dialTime)
	defer cancel()
	p, err := c.call(ctx, &request{Call: callInfo})
	if err != nil {
		return nil, fmt.Errorf("dial store: %w", err)
	}
	c.info = p.Info
	return c, nil
}

// client is a store behind a wire.
type client struct {
	dial func(context.Context) (net.Conn, error)
	info dedup.Info // as of the beginning
	wg   sync.WaitGroup

	mu     sync.Mutex
	closed bool
	free   []*wire
}

// take gives a connection for one call, and the way to end the call.
func (c *client) take(ctx context.Context) (w *wire, end func(good bool), err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, nil, dedup.ErrClosed
	}
	c.wg.Add(1)
	if n := len(c.free); n > 0 {
		w, c.free = c.free[n-1], c.free[:n-1]
	}
	c.mu.Unlock()
	if w == nil {
		conn, err := c.dial(ctx)
		if err != nil {
			c.wg.Done()
			return nil, nil, err
		}
		w = newWire(conn)
	}
	stop := context.AfterFunc(ctx, func() { _ = w.SetDeadline(time.Unix(1, 0)) })
	return w, func(good bool) {
		defer c.wg.Done()
		// A connection whose call was cut short has half an answer in it.
		if !stop() || !good || !c.keep(w) {
			_ = w.Close()
		}
	}, nil
}

func (c *client) keep(w *wire) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.free) >= idle {
		return false
	}
	c.free = append(c.free, w)
	return true
}

// call sends a request and waits for its one answer.
func (c *client) call(ctx context.Context, q *request) (*response, error) {
	w, end, err := c.take(ctx)
	if err != nil {
		return nil, err
	}
	p, err := exchange(w, q)
	end(err == nil)
	if err != nil {
		return nil, because(ctx, err)
	}
	return p, p.Err.err()
}

func exchange(w *wire, q *request) (*response, error) {
	if err := w.send(q); err != nil {
		return nil, err
	}
	var p response
	return &p, w.receive(&p)
}

// because prefers the reason of the caller's own context.
func because(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("store behind the wire: %w", err)
}

func (c *client) Apply(ctx context.Context, ops []dedup.Op) ([]dedup.Answer, error) {
	for i := range ops {
		if len(ops[i].Enlisted) > 0 {
			return nil, errors.New("enlisted work cannot travel")
		}
	}
	p, err := c.call(ctx, &request{Call: callApply, Ops: ops})
	if err != nil {
		return nil, err
	}
	for i, fault := range p.Faults {
		if i >= 0 && i < len(p.Answers) {
			p.Answers[i].Err = fault.err()
		}
	}
	return p.Answers, nil
}

func (c *client) Lookup(ctx context.Context, keys []dedup.Key) ([]dedup.Record, error) {
	p, err := c.call(ctx, &request{Call: callLookup, Keys: keys})
	if err != nil {
		return nil, err
	}
	return p.Records, nil
}

func (c *client) Letters(ctx context.Context, ids []string) ([]dedup.Letter, error) {
	p, err := c.call(ctx, &request{Call: callLetters, IDs: ids})
	if err != nil {
		return nil, err
	}
	return p.Letters, nil
}

func (c *client) Prefixes(ctx context.Context, consumer string) ([]dedup.Position, error) {
	p, err := c.call(ctx, &request{Call: callPrefixes, Consumer: consumer})
	if err != nil {
		return nil, err
	}
	return p.Positions, nil
}

func (c *client) Sweep(ctx context.Context, limit int) (dedup.Swept, error) {
	p, err := c.call(ctx, &request{Call: callSweep, Limit: limit})
	if err != nil {
		return dedup.Swept{}, err
	}
	return p.Swept, nil
}

func (c *client) Scan(ctx context.Context, consumer string) iter.Seq2[dedup.Record, error] {
	return scanned(ctx, c, &request{Call: callScan, Consumer: consumer}, func(p *response) []dedup.Record { return p.Records })
}

func (c *client) ScanLetters(ctx context.Context, consumer string) iter.Seq2[dedup.Letter, error] {
	return scanned(ctx, c, &request{Call: callScanLetters, Consumer: consumer}, func(p *response) []dedup.Letter { return p.Letters })
}

// scanned hands out frame by frame. Who stops early gives the connection up.
func scanned[T any](ctx context.Context, c *client, q *request, of func(*response) []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		w, end, err := c.take(ctx)
		if err != nil {
			yield(none, err)
			return
		}
		whole := false
		defer func() { end(whole) }()
		if err := w.send(q); err != nil {
			yield(none, because(ctx, err))
			return
		}
		for {
			var p response
			if err := w.receive(&p); err != nil {
				yield(none, because(ctx, err))
				return
			}
			for _, t := range of(&p) {
				if !yield(t, nil) {
					return
				}
			}
			if p.More {
				continue
			}
			whole = true
			if p.Err != nil {
				yield(none, p.Err.err())
			}
			return
		}
	}
}

// Info asks the store; where it cannot be reached, the answer is as of the
// beginning.
func (c *client) Info() dedup.Info {
	ctx, cancel := context.WithTimeout(context.Background(), dialTime)
	defer cancel()
	info := c.info
	if p, err := c.call(ctx, &request{Call: callInfo}); err == nil {
		info = p.Info
	}
	info.Kind, info.Local = info.Kind+" behind a wire", false
	return info
}

func (c *client) Close() error {
	c.mu.Lock()
	c.closed = true
	free := c.free
	c.free = nil
	c.mu.Unlock()
	for _, w := range free {
		_ = w.Close()
	}
	c.wg.Wait()
	return nil
}
