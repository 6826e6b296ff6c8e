package cluster

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

const (
	// dialing bounds making a connection, TLS and versions included.
	dialing = 4 * time.Second
	// cacheTTL: the Transport's own metadata is not used, so it is asked for
	// rarely. What it asks for is no topic at all.
	cacheTTL = 10 * time.Minute
)

// peer is one broker's address and the connections to it.
type peer struct {
	addr      string
	transport *kafka.Transport
	offers    atomic.Pointer[map[protocol.ApiKey]int16] // highest versions, from the last connection
	cluster   *Cluster

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

func newPeer(c *Cluster, addr string) *peer {
	p := &peer{addr: addr, cluster: c, conns: map[net.Conn]struct{}{}}
	p.transport = &kafka.Transport{
		Dial: p.dial, DialTimeout: dialing, ClientID: c.cfg.ClientID, SASL: c.cfg.SASL,
		MetadataTTL: cacheTTL, MetadataTopics: []string{}, Context: c.life,
	}
	return p
}

// dial does TLS itself, so that the guard sees what kafka-go sees.
func (p *peer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if p.cluster.life.Err() != nil {
		return nil, net.ErrClosed
	}
	conn, err := p.cluster.cfg.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if cfg := p.cluster.cfg.TLS; cfg != nil {
		conn, err = handshake(ctx, conn, cfg, address)
		if err != nil {
			return nil, &HandshakeError{Addr: address, Err: err}
		}
	}
	t := &tracked{Conn: conn, peer: p}
	p.mu.Lock()
	p.conns[t] = struct{}{}
	p.mu.Unlock()
	if p.cluster.life.Err() != nil {
		t.Close()
		return nil, net.ErrClosed
	}
	return &guard{Conn: t, peer: p, maxData: p.cluster.cfg.MaxData}, nil
}

func handshake(ctx context.Context, conn net.Conn, cfg *tls.Config, address string) (net.Conn, error) {
	if cfg.ServerName == "" {
		cfg = cfg.Clone()
		cfg.ServerName, _, _ = net.SplitHostPort(address)
	}
	t := tls.Client(conn, cfg)
	if err := t.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return t, nil
}

// HandshakeError is a TLS handshake that failed.
type HandshakeError struct {
	Addr string
	Err  error
}

func (e *HandshakeError) Error() string {
	return fmt.Sprintf("TLS with %s: %v", e.Addr, e.Err)
}

func (e *HandshakeError) Unwrap() error { return e.Err }

// tracked is a connection that Close can find.
type tracked struct {
	net.Conn
	peer *peer
}

func (t *tracked) Close() error {
	t.peer.mu.Lock()
	delete(t.peer.conns, t)
	t.peer.mu.Unlock()
	return t.Conn.Close()
}

// cut closes all connections, those in use included.
func (p *peer) cut() {
	p.transport.CloseIdleConnections()
	p.mu.Lock()
	var all []net.Conn
	for c := range p.conns {
		all = append(all, c)
	}
	p.mu.Unlock()
	for _, c := range all {
		c.Close()
	}
}

// do sends one request and waits at most limit for its answer.
func (p *peer) do(ctx context.Context, limit time.Duration, msg exchanger) (protocol.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	w := &waited{exchanger: msg}
	res, err := p.transport.RoundTrip(ctx, kafka.TCP(p.addr), w)
	if err == nil {
		if r, ok := res.(reply); ok {
			return r.Message, nil
		}
		return res, nil
	}
	unsent := w.abandon()
	if p.cluster.life.Err() == nil {
		if ctx.Err() != context.Canceled {
			// The connections to a broker that was restarted are all dead, and
			// each would fail one more call.
			p.transport.CloseIdleConnections()
		}
		err = fmt.Errorf("%s: %w", p.addr, err)
	} else {
		err = net.ErrClosed
	}
	if unsent {
		return nil, &NotSentError{err}
	}
	return nil, err
}
