package cluster

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/segmentio/kafka-go/protocol"

	"github.com/onceward/onceward/brokers/kafkabroker/internal/wire"
)

const (
	// maxFirst bounds the answer to ApiVersions: 6 bytes for each of some 90 calls.
	maxFirst = 64 << 10
	// maxControl bounds all other answers but those to Fetch. Metadata of
	// 100,000 partitions is about 5 MiB.
	maxControl = 32 << 20
	// authenticating bounds each step of SASL, which kafka-go does without a
	// deadline.
	authenticating = 5 * time.Second
)

// NotKafkaError is a peer whose first words are not Kafka's.
type NotKafkaError struct {
	Addr string
	Saw  string
}

func (e *NotKafkaError) Error() string {
	return fmt.Sprintf("%s does not answer as a Kafka broker: %s", e.Addr, e.Saw)
}

// guard is a connection that lets kafka-go see only answers that it can decode
// safely. It is used by one goroutine at a time, request and answer in turn,
// as kafka-go does.
type guard struct {
	net.Conn
	peer    *peer
	maxData int // of an answer to Fetch

	head     [8]byte // size, key and version of the request being written
	have     int     // bytes of head so far
	skip     int     // bytes of the request that follow
	answered bool    // the first answer was read

	ready []byte // checked and not read yet
	pass  int    // bytes of this answer that go through as they are
	err   error  // of the first answer that was refused: kafka-go reads on
}

func (g *guard) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		if g.skip > 0 {
			n := min(g.skip, len(rest))
			g.skip -= n
			rest = rest[n:]
			continue
		}
		if g.have == len(g.head) {
			g.have = 0
		}
		n := copy(g.head[g.have:], rest)
		g.have += n
		rest = rest[n:]
		if g.have == len(g.head) {
			g.skip = max(0, int(binary.BigEndian.Uint32(g.head[:]))-4)
		}
	}
	if k := g.key(); k == protocol.SaslHandshake || k == protocol.SaslAuthenticate {
		if err := g.SetDeadline(time.Now().Add(authenticating)); err != nil {
			return 0, err
		}
	}
	return g.Conn.Write(p)
}

// explain tells a connection that was closed during authentication, which is
// how some brokers refuse, from any other.
func (g *guard) explain(err error) error {
	if k := g.key(); (k == protocol.SaslHandshake || k == protocol.SaslAuthenticate) && hungUp(err) {
		return &MismatchError{Addr: g.peer.addr, Wants: "closed the connection during SASL: user, password or mechanism are not accepted"}
	}
	return err
}

func (g *guard) key() protocol.ApiKey {
	return protocol.ApiKey(binary.BigEndian.Uint16(g.head[4:]))
}

func (g *guard) version() int16 { return int16(binary.BigEndian.Uint16(g.head[6:])) }

func (g *guard) Read(p []byte) (int, error) {
	if len(g.ready) == 0 && g.pass == 0 {
		if g.err == nil {
			g.err = g.explain(g.next())
		}
		if g.err != nil {
			return 0, g.err
		}
	}
	if len(g.ready) > 0 {
		n := copy(p, g.ready)
		g.ready = g.ready[n:]
		return n, nil
	}
	n, err := g.Conn.Read(p[:min(len(p), g.pass)])
	g.pass -= n
	return n, err
}

// next takes the beginning of an answer, or all of it where it is checked.
func (g *guard) next() error {
	key, version := g.key(), g.version()
	if !g.answered {
		return g.first()
	}
	if ours(key, version) {
		var head [4]byte
		if _, err := io.ReadFull(g.Conn, head[:]); err != nil {
			return err
		}
		limit := maxControl
		if key == protocol.Fetch {
			limit = g.maxData
		}
		size := int64(int32(binary.BigEndian.Uint32(head[:])))
		if size < 0 || size > int64(limit) {
			return fmt.Errorf("%s: %v: %w", g.peer.addr, key, &wire.SizeError{Size: size, Limit: limit})
		}
		g.ready, g.pass = head[:], int(size)
		return nil
	}
	body, err := wire.ReadFrame(g.Conn, nil, maxControl)
	if err == nil {
		err = checkAnswer(key, version, body)
	}
	if errors.Is(err, wire.ErrMalformed) || errors.As(err, new(*wire.SizeError)) {
		return fmt.Errorf("%s: %v v%d: %w", g.peer.addr, key, version, err)
	}
	if err != nil {
		return err
	}
	g.ready = append(wire.AppendInt32(make([]byte, 0, len(body)+4), int32(len(body))), body...)
	return nil
}

// NextGroupDescribe is ConsumerGroupDescribe, which kafka-go has no name for:
// groups of the next protocol (KIP-848) are not in the answers to DescribeGroups.
const NextGroupDescribe protocol.ApiKey = 69

// ours are the answers that this adapter decodes with a checked reader.
func ours(key protocol.ApiKey, version int16) bool {
	switch key {
	case NextGroupDescribe, protocol.Fetch, protocol.Produce, protocol.Heartbeat, protocol.LeaveGroup:
		return true
	case protocol.Metadata:
		return version >= metadataWithIDs
	}
	return false
}

// first reads the answer to ApiVersions, which kafka-go sends on every new
// connection, and refuses a peer that is not Kafka.
func (g *guard) first() error {
	var head [4]byte
	if _, err := io.ReadFull(g.Conn, head[:]); err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size < 10 || size > maxFirst {
		return &NotKafkaError{Addr: g.peer.addr, Saw: recognise(head)}
	}
	body, err := wire.ReadFrame(io.MultiReader(bytes.NewReader(head[:]), g.Conn), nil, maxFirst)
	if err != nil {
		return err
	}
	offers, err := parseOffers(body)
	if err != nil {
		return &NotKafkaError{Addr: g.peer.addr, Saw: "its list of versions is malformed"}
	}
	g.peer.offers.Store(&offers)
	g.answered = true
	g.ready = append(head[:], body...)
	return nil
}

// recognise names the protocols that are most often found where a broker was
// expected, by their first four bytes.
func recognise(head [4]byte) string {
	switch s := string(head[:]); {
	case head[0] == 0x15 && head[1] == 3:
		return "it answers with a TLS alert, so it wants TLS"
	case s == "HTTP":
		return "it speaks HTTP"
	case s == "SSH-":
		return "it speaks SSH"
	case s == "INFO":
		return "it speaks NATS"
	default:
		return fmt.Sprintf("it begins with %q", s)
	}
}

// parseOffers reads ApiVersions v0: the highest version of each call.
func parseOffers(body []byte) (map[protocol.ApiKey]int16, error) {
	r := wire.NewReader(body)
	r.Int32()
	r.Int16()
	offers := map[protocol.ApiKey]int16{}
	for n := r.Count(6); n > 0; n-- {
		key := protocol.ApiKey(r.Int16())
		r.Int16()
		offers[key] = r.Int16()
	}
	if r.Err() == nil && r.Len() > 0 {
		return nil, wire.ErrMalformed
	}
	return offers, r.Err()
}

// Dial is what [net.Dialer.DialContext] does.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)
