package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/sasl"
)

// Config says how to reach a cluster.
type Config struct {
	Seeds    []string // host:port
	ClientID string
	TLS      *tls.Config    // nil: plain
	SASL     sasl.Mechanism // nil: none
	Dial     Dial
	// MaxData bounds an answer to Fetch in bytes.
	MaxData int
}

const (
	// Short bounds a call that a healthy broker answers in milliseconds.
	Short = 5 * time.Second
	// hedge is how long one broker may think before another is asked too.
	hedge = time.Second
)

// ErrNoBroker says that the metadata names no broker of that id.
var ErrNoBroker = errors.New("broker is not known")

// Cluster is a set of connections. Make one with [New].
type Cluster struct {
	cfg  Config
	life context.Context
	end  context.CancelFunc

	mu      sync.Mutex
	peers   map[string]*peer // by address
	brokers map[int32]string // from the last metadata
	control int32            // the controller
	good    string           // the address that answered last
}

// New starts nothing.
func New(cfg Config) *Cluster {
	c := &Cluster{cfg: cfg, peers: map[string]*peer{}, brokers: map[int32]string{}, control: -1}
	c.life, c.end = context.WithCancel(context.Background())
	return c
}

// Close cuts all connections, those in use included.
func (c *Cluster) Close() {
	c.end()
	c.mu.Lock()
	var all []*peer
	for _, p := range c.peers {
		all = append(all, p)
	}
	c.mu.Unlock()
	for _, p := range all {
		p.cut()
	}
}

// Closed says whether Close was called.
func (c *Cluster) Closed() bool { return c.life.Err() != nil }

func (c *Cluster) peer(addr string) *peer {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.peers[addr]
	if p == nil {
		p = newPeer(c, addr)
		c.peers[addr] = p
	}
	return p
}

// offer is the highest version of a call that the broker has, -1 when it has
// none or was not reached yet.
func (p *peer) offer(key protocol.ApiKey) int16 {
	if m := p.offers.Load(); m != nil {
		if v, ok := (*m)[key]; ok {
			return v
		}
	}
	return -1
}

func (c *Cluster) broker(node int32) (*peer, error) {
	c.mu.Lock()
	addr, ok := c.brokers[node]
	c.mu.Unlock()
	if !ok {
		return nil, &NotSentError{fmt.Errorf("broker %d: %w", node, ErrNoBroker)}
	}
	return c.peer(addr), nil
}

// Call sends one of kafka-go's messages to one broker.
//
// Errors: [ErrNoBroker], of the network, or of a malformed answer; a
// [*NotSentError] when the broker has seen nothing of it. Codes in the answer
// are the caller's.
func (c *Cluster) Call(ctx context.Context, node int32, limit time.Duration, msg protocol.Message) (protocol.Message, error) {
	p, err := c.broker(node)
	if err != nil {
		return nil, err
	}
	return p.do(ctx, limit, &exchange{msg: msg, client: c.cfg.ClientID})
}

// Chooser is a message that picks its version by what the broker has.
type Chooser interface {
	exchanger
	// Choose is called before the exchange. offered tells the highest version
	// of a call, or -1, once the connection is there: it is for RawExchange to
	// ask.
	Choose(offered func(protocol.ApiKey) int16)
}

// Raw is Call for a message that does its own exchange.
func (c *Cluster) Raw(ctx context.Context, node int32, limit time.Duration, msg Chooser) (protocol.Message, error) {
	p, err := c.broker(node)
	if err != nil {
		return nil, err
	}
	msg.Choose(p.offer)
	return p.do(ctx, limit, msg)
}

// ClientID is what requests name as their sender.
func (c *Cluster) ClientID() string { return c.cfg.ClientID }

// Any sends one of kafka-go's messages to whatever broker answers. It may
// reach more than one.
func (c *Cluster) Any(ctx context.Context, msg protocol.Message) (protocol.Message, error) {
	return c.any(ctx, func(*peer) exchanger { return &exchange{msg: msg, client: c.cfg.ClientID} })
}

// Controller sends one of kafka-go's messages to the controller.
func (c *Cluster) Controller(ctx context.Context, limit time.Duration, msg protocol.Message) (protocol.Message, error) {
	c.mu.Lock()
	node := c.control
	c.mu.Unlock()
	return c.Call(ctx, node, limit, msg)
}

// Metadata asks for topics by name, and learns which brokers there are. Topics
// that do not exist are in the View with an error.
func (c *Cluster) Metadata(ctx context.Context, topics []string) (View, error) {
	res, err := c.any(ctx, func(p *peer) exchanger {
		return &metadataRequest{peer: p, client: c.cfg.ClientID, topics: topics}
	})
	if err != nil {
		return View{}, err
	}
	v := res.(*metadataAnswer).View
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(v.Brokers) > 0 {
		c.brokers, c.control = v.Brokers, v.Controller
		c.prune()
	}
	return v, nil
}

// Versions of the calls that this adapter writes itself: the last ones in the
// fixed layout, all of Kafka 2.4.
const (
	ProduceVersion   = 8
	FetchVersion     = 11
	HeartbeatVersion = 3
	LeaveVersion     = 3
)

// needs are those versions, by call.
var needs = map[protocol.ApiKey]int16{
	protocol.Produce: ProduceVersion, protocol.Fetch: FetchVersion, protocol.Metadata: metadataPlain,
	protocol.Heartbeat: HeartbeatVersion, protocol.LeaveGroup: LeaveVersion,
}

// prune forgets addresses that brokers had once; c.mu is held.
func (c *Cluster) prune() {
	here := map[string]bool{}
	for _, a := range c.brokers {
		here[a] = true
	}
	for a, p := range c.peers {
		if !here[a] && !slices.Contains(c.cfg.Seeds, a) {
			p.transport.CloseIdleConnections()
			delete(c.peers, a)
		}
	}
}

// TooOld names a broker that lacks a call which is needed, or "".
func (c *Cluster) TooOld() string {
	for _, p := range c.order() {
		offers := p.offers.Load()
		if offers == nil {
			continue
		}
		for key, version := range needs {
			if have := (*offers)[key]; have < version {
				return fmt.Sprintf("%s has %v up to version %d, and version %d is needed", p.addr, key, have, version)
			}
		}
	}
	return ""
}

// order lists whom to ask: the one that answered last, the brokers, the seeds.
func (c *Cluster) order() []*peer {
	c.mu.Lock()
	defer c.mu.Unlock()
	var addrs []string
	add := func(a string) {
		if a != "" && !slices.Contains(addrs, a) {
			addrs = append(addrs, a)
		}
	}
	add(c.good)
	for _, a := range c.brokers {
		add(a)
	}
	for _, a := range c.cfg.Seeds {
		add(a)
	}
	ps := make([]*peer, len(addrs))
	for i, a := range addrs {
		if c.peers[a] == nil {
			c.peers[a] = newPeer(c, a)
		}
		ps[i] = c.peers[a]
	}
	return ps
}

// any asks one after the other, and the next one as soon as the present one
// fails or has been silent for hedge. The first answer wins.
func (c *Cluster) any(ctx context.Context, msg func(*peer) exchanger) (protocol.Message, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type outcome struct {
		p   *peer
		res protocol.Message
		err error
	}
	peers := c.order()
	answers := make(chan outcome, len(peers))
	asked := 0
	ask := func() {
		p := peers[asked]
		asked++
		go func() {
			res, err := p.do(ctx, Short, msg(p))
			answers <- outcome{p, res, err}
		}()
	}
	ask()
	patience := time.NewTimer(hedge)
	defer patience.Stop()
	var faults []error
	for len(faults) < len(peers) {
		select {
		case o := <-answers:
			if o.err == nil {
				c.mu.Lock()
				c.good = o.p.addr
				c.mu.Unlock()
				return o.res, nil
			}
			faults = append(faults, o.err)
			if asked < len(peers) {
				ask()
				patience.Reset(hedge)
			}
		case <-patience.C:
			if asked < len(peers) {
				ask()
				patience.Reset(hedge)
			}
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), Faults(faults))
		}
	}
	return nil, Faults(faults)
}

// Faults is what each of several brokers did wrong.
type Faults []error

func (f Faults) Error() string {
	s := "no broker answered"
	for i, err := range f {
		if i == 3 {
			return s + fmt.Sprintf("; and %d more", len(f)-i)
		}
		s += "; " + err.Error()
	}
	return s
}

// Unwrap gives errors.Is and errors.As the parts.
func (f Faults) Unwrap() []error { return f }

// Terminal says whether err is of a kind that asking again does not mend:
// credentials, certificates, a peer of another kind. Of [Faults] all must be.
func Terminal(err error) bool {
	var all Faults
	if errors.As(err, &all) && len(all) > 0 {
		return !slices.ContainsFunc(all, func(err error) bool { return !terminal(err) })
	}
	return terminal(err)
}

func terminal(err error) bool {
	if code, ok := errors.AsType[kafka.Error](err); ok {
		switch code {
		case kafka.SASLAuthenticationFailed, kafka.UnsupportedSASLMechanism, kafka.IllegalSASLState,
			kafka.ClusterAuthorizationFailed, kafka.UnsupportedVersion:
			return true
		}
		return false
	}
	if errors.As(err, new(*NotKafkaError)) || errors.As(err, new(*MismatchError)) {
		return true
	}
	var h *HandshakeError
	return errors.As(err, &h) && certificateFault(h.Err)
}

// certificateFault tells a refusal from a connection that broke meanwhile.
func certificateFault(err error) bool {
	var alert tls.AlertError
	return errors.As(err, new(*tls.CertificateVerificationError)) || errors.As(err, &alert) ||
		errors.As(err, new(tls.RecordHeaderError)) || errors.As(err, new(*net.OpError)) && isRemoteAlert(err)
}

// isRemoteAlert: crypto/tls reports the other side's alert as an OpError named
// so.
func isRemoteAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}
