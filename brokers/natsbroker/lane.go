package natsbroker

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceward/onceward/brokers"
)

// lane reads one durable. Requests for messages overlap: the next is sent when
// half of the last is used up, so the server never waits for us.
//
// Two goroutines meet here: nats.go's, which brings messages (arrive; for a
// moment two, while an epoch begins), and the
// consumer's, which takes them (take) and settles them.
type lane struct {
	brokers.Lane
	s        *source
	consumer jetstream.Consumer
	stream   string
	durable  string
	created  time.Time // of the durable: another one of that name is not ours
	ackWait  time.Duration
	agreed   durableWanted // what the durable was when it was opened
	next     string        // subject that takes requests
	inbox    string        // prefix of their reply subjects, with the dot at its end
	want     int           // messages requested and waiting here, together
	floor    floor
	whole    atomic.Bool // the durable was asked, and delivers payloads: see headless
	examined time.Time   // when doubt asked last; guarded by source.mu

	renewing sync.Mutex // held while an epoch begins

	mu          sync.Mutex // guards what follows, and the fields of held
	sub         *nats.Subscription
	held        ring
	tick        uint64
	queue       []*held // arrived and not received; from head on
	head        int
	queuedBytes int
	requested   int // messages that the server still owes us
	epoch       int // of requests: answers to those of earlier ones are not counted
	most        int // messages of one request, where the durable bounds them; else 0
	maxBytes    int // of one request
	expires     time.Duration
	paused      bool
	open        bool      // requests may be sent: after Assigned, until the end
	ended       bool      // settlement is refused
	heard       bool      // anything, since watch looked last
	quietSince  time.Time // when watch last saw something heard
	trouble     error     // what was reported as degraded
}

const (
	// requestExpires is how long the server keeps a request; it is renewed.
	requestExpires = 30 * time.Second
	// heartbeat is how often the server says that it still has a request.
	heartbeat = 5 * time.Second
	// silence is after how long without a heartbeat requests are doubted.
	silence = 2*heartbeat + time.Second
)

// request is the pull protocol's, see ADR-13 of
// nats-io/nats-architecture-and-design. JSON, written by hand since it is sent
// for every few hundred messages.
func request(batch, maxBytes int, expires time.Duration) []byte {
	b := make([]byte, 0, 96)
	b = append(b, `{"batch":`...)
	b = strconv.AppendInt(b, int64(batch), 10)
	b = append(b, `,"max_bytes":`...)
	b = strconv.AppendInt(b, int64(maxBytes), 10)
	b = append(b, `,"expires":`...)
	b = strconv.AppendInt(b, int64(expires), 10)
	if expires >= 2*heartbeat {
		b = append(b, `,"idle_heartbeat":`...)
		b = strconv.AppendInt(b, int64(heartbeat), 10)
	}
	return append(b, '}')
}

// asking is a request that is to be sent.
type asking struct {
	batch, epoch, maxBytes int
	expires                time.Duration
}

// ask says what to request now; l.mu is held. Its messages count as requested
// from here on. A batch of 0 is nothing.
func (l *lane) ask() asking {
	have := l.requested + len(l.queue) - l.head
	if !l.open || !l.s.b.up.Load() || have > l.want/2 || l.queuedBytes >= l.maxBytes {
		return asking{}
	}
	n := l.want - have
	if l.most > 0 {
		n = min(n, l.most)
	}
	l.requested += n
	return asking{batch: n, epoch: l.epoch, maxBytes: l.maxBytes, expires: l.expires}
}

// pull sends a request. Its reply subject says in which epoch it was sent and
// for how many, so that nothing needs to be kept.
func (l *lane) pull(a asking) {
	if a.batch == 0 {
		return
	}
	reply := l.inbox + strconv.Itoa(a.epoch) + "." + strconv.Itoa(a.batch)
	if err := l.s.b.nc.PublishRequest(l.next, reply, request(a.batch, a.maxBytes, a.expires)); err != nil {
		l.mu.Lock()
		if l.epoch == a.epoch {
			l.requested = max(0, l.requested-a.batch)
		}
		l.mu.Unlock()
	}
}

// refill requests what there is room for.
func (l *lane) refill() {
	l.mu.Lock()
	a := l.ask()
	l.mu.Unlock()
	l.pull(a)
}

// renew begins a new epoch of requests: the server has lost those of the last
// one, or may have. It takes a subject of its own, so that the server drops
// what it still has: nobody listens for the answers.
func (l *lane) renew() error {
	l.renewing.Lock()
	defer l.renewing.Unlock()
	l.mu.Lock()
	epoch := l.epoch + 1
	l.mu.Unlock()
	sub, err := l.s.b.nc.Subscribe(l.inbox+strconv.Itoa(epoch)+".*", l.arrive)
	if err != nil {
		return fmt.Errorf("subscribe to deliveries of %q: %w", l.stream, err)
	}
	// What is on its way is bounded by our requests.
	_ = sub.SetPendingLimits(-1, -1)
	l.mu.Lock()
	last := l.sub
	if l.ended {
		last = sub
	} else {
		l.sub, l.epoch, l.requested, l.quietSince = sub, epoch, 0, time.Now()
	}
	l.mu.Unlock()
	if last != nil {
		// What it has brought already still arrives.
		_ = last.Drain()
	}
	return nil
}

// arrive takes what the subscription brings; nats.go calls it for one message
// after the other.
func (l *lane) arrive(m *nats.Msg) {
	at, ok := parseReply(m.Reply)
	if !ok {
		l.status(m)
		return
	}
	h := &held{lane: l, ack: m.Reply}
	h.d = brokers.Delivery{Lane: &l.Lane, Offset: at.sequence, Subject: m.Subject, Time: at.stored, Handle: h}
	unwrap(m.Header, m.Data, &h.d)
	l.mu.Lock()
	if l.requested > 0 {
		l.requested--
	}
	l.heard = true
	if l.ended {
		l.mu.Unlock()
		return
	}
	if l.headless(m) {
		l.mu.Unlock()
		l.s.doubt(l, errHeadless)
		return
	}
	h.told = l.tick
	l.held.push(h)
	l.queue = append(l.queue, h)
	l.queuedBytes += h.d.Size()
	healed := l.trouble != nil
	a := l.ask()
	l.mu.Unlock()
	l.s.look()
	l.pull(a)
	if healed {
		l.report(nil)
	}
}

// headless says that a message looks like what a durable delivers that was
// edited to give headers only. It is left to AckWait until the durable was
// asked, since anybody may publish such a header.
func (l *lane) headless(m *nats.Msg) bool {
	return len(m.Data) == 0 && m.Header.Get(nats.MsgSize) != "" && !l.whole.Load()
}

var errHeadless = errors.New("a message came without its payload")

// take moves deliveries at hand to out, within limit, and reports the bytes of
// those it moved.
func (l *lane) take(out []*brokers.Delivery, messages, bytes int) ([]*brokers.Delivery, int) {
	taken := 0
	l.mu.Lock()
	if l.paused || l.ended {
		l.mu.Unlock()
		return out, 0
	}
	for messages > 0 && taken < bytes && l.head < len(l.queue) {
		h := l.queue[l.head]
		l.queue[l.head] = nil
		l.head++
		messages--
		n := h.d.Size()
		taken += n
		l.queuedBytes -= n
		if h.next == nil {
			continue // settled by nobody but Close
		}
		out = append(out, &h.d)
	}
	if l.head > len(l.queue)/2 { // with a backlog it is never empty, and must not grow for ever
		left := copy(l.queue, l.queue[l.head:])
		clear(l.queue[left:])
		l.queue, l.head = l.queue[:left], 0
	}
	a := l.ask()
	l.mu.Unlock()
	l.pull(a)
	return out, taken
}

// status takes an answer to a request that is no message.
func (l *lane) status(m *nats.Msg) {
	code, text := m.Header.Get("Status"), m.Header.Get("Description")
	epoch, batch, ours := l.asked(m.Subject)
	l.mu.Lock()
	l.heard = true
	if !ours || epoch != l.epoch || l.ended {
		l.mu.Unlock()
		return
	}
	owed := batch // what the request did not bring
	if n, err := strconv.Atoi(m.Header.Get("Nats-Pending-Messages")); err == nil {
		owed = n
	}
	again := false
	var doubt error
	switch {
	case code == "100":
		owed = 0 // a heartbeat
	case code == "404", code == "408":
		again = true // over, as agreed
	case code == "409" && strings.HasPrefix(text, "Message Size Exceeds MaxBytes"):
		if owed == batch { // the next message alone is larger
			l.maxBytes *= 2
		}
		again = true
	case code == "409" && strings.HasPrefix(text, "Batch Completed"):
		again = true
	case code == "409" && strings.HasPrefix(text, "Exceeded"), code == "400", code == "412", code == "423":
		// The durable was edited: what it allows is asked for.
		doubt = refused{fmt.Errorf("server answers %s %s", code, text)}
	default:
		// 409 Consumer Deleted, Leadership Change, Server Shutdown; 503
		// no responders. Whether it heals is asked for,
		// and the next request is sent with the next tick, not at once.
		doubt = fmt.Errorf("server answers %s %s", code, text)
	}
	l.requested = max(0, l.requested-owed)
	l.mu.Unlock()
	if again {
		l.refill()
	}
	if doubt != nil {
		l.s.doubt(l, doubt)
	}
}

// asked reads the reply subject of a request.
func (l *lane) asked(subject string) (epoch, batch int, ok bool) {
	rest, ok := strings.CutPrefix(subject, l.inbox)
	if !ok {
		return 0, 0, false
	}
	e, b, _ := strings.Cut(rest, ".")
	epoch, err1 := strconv.Atoi(e)
	batch, err2 := strconv.Atoi(b)
	return epoch, batch, err1 == nil && err2 == nil
}

// watch looks whether the server still has our requests.
func (l *lane) watch(now time.Time) {
	l.mu.Lock()
	if l.heard || l.requested == 0 || !l.open {
		l.heard, l.quietSince = false, now
	}
	quiet := now.Sub(l.quietSince) > silence
	if quiet {
		l.quietSince = now
	}
	l.mu.Unlock()
	if quiet {
		l.s.doubt(l, fmt.Errorf("no heartbeat for %v", silence))
		return
	}
	l.refill()
}
