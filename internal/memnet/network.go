package memnet

import (
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"
)

// Network connects listeners and dialers. Make it with [New].
type Network struct {
	mu        sync.Mutex
	listeners map[string]*listener
	conns     map[string][]*conn // both ends, by the listener's address
	port      int                // the last one given out
}

// New makes an empty network.
func New() *Network {
	return &Network{listeners: map[string]*listener{}, conns: map[string][]*conn{}, port: 20000}
}

// Listen opens an address "host:port" of 127.0.0.1; port 0 picks a free one.
//
// Errors: a *net.OpError when the address is taken.
func (n *Network) Listen(network, address string) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: network, Err: err}
	}
	port, err := net.LookupPort(network, text)
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: network, Err: err}
	}
	if port == 0 {
		n.port++
		port = n.port
	}
	at := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}
	if n.listeners[at.String()] != nil {
		return nil, &net.OpError{Op: "listen", Net: network, Addr: at, Err: syscall.EADDRINUSE}
	}
	l := &listener{n: n, at: at, backlog: make(chan net.Conn, 128), done: make(chan struct{})}
	n.listeners[at.String()] = l
	return l, nil
}

// Dial connects to an address that somebody listens at.
func (n *Network) Dial(network, address string) (net.Conn, error) {
	return n.DialContext(context.Background(), network, address)
}

// DialContext is [Network.Dial] with a context for the wait in the listener's
// backlog.
//
// Errors: a *net.OpError that wraps ECONNREFUSED when nobody listens.
func (n *Network) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	if host == "localhost" {
		address = net.JoinHostPort("127.0.0.1", port)
	}
	n.mu.Lock()
	l := n.listeners[address]
	if l == nil {
		n.mu.Unlock()
		return nil, &net.OpError{Op: "dial", Net: network, Err: fmt.Errorf("%s: %w", address, syscall.ECONNREFUSED)}
	}
	n.port++
	client, server := pair(&net.TCPAddr{IP: l.at.IP, Port: n.port}, l.at)
	n.conns[address] = append(n.conns[address], client, server)
	n.mu.Unlock()
	select {
	case l.backlog <- server:
		return client, nil
	case <-l.done:
		err = syscall.ECONNREFUSED
	case <-ctx.Done():
		err = ctx.Err()
	}
	client.Close()
	return nil, &net.OpError{Op: "dial", Net: network, Addr: l.at, Err: err}
}

// Cut breaks every connection to an address at once, as a reset does; new ones
// can be made.
func (n *Network) Cut(address string) {
	n.mu.Lock()
	conns := n.conns[address]
	delete(n.conns, address)
	n.mu.Unlock()
	for _, c := range conns {
		c.reset()
	}
}

// listener implements net.Listener.
type listener struct {
	n       *Network
	at      *net.TCPAddr
	backlog chan net.Conn
	done    chan struct{}
	once    sync.Once
}

func (l *listener) Addr() net.Addr { return l.at }

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.backlog:
		return c, nil
	case <-l.done:
		return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.at, Err: net.ErrClosed}
	}
}

// Close stops listening and resets connections that nobody accepted; accepted
// ones stay.
func (l *listener) Close() error {
	l.once.Do(func() {
		l.n.mu.Lock()
		delete(l.n.listeners, l.at.String())
		l.n.mu.Unlock()
		close(l.done)
		for {
			select {
			case c := <-l.backlog:
				c.(*conn).reset()
			default:
				return
			}
		}
	})
	return nil
}
