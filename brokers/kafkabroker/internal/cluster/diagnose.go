package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/onceward/onceward/brokers/kafkabroker/internal/wire"
)

// probing bounds one question of Diagnose.
const probing = 2 * time.Second

// MismatchError is a peer that wants another way of connecting.
type MismatchError struct {
	Addr  string
	Wants string
}

func (e *MismatchError) Error() string { return fmt.Sprintf("%s %s", e.Addr, e.Wants) }

// Diagnose finds out why the peer closed a connection without a word, or says
// nothing, as brokers do with who uses TLS or SASL where they do not, or the
// other way round. It returns nil when it cannot tell or err is something else.
func (c *Cluster) Diagnose(ctx context.Context, err error) error {
	if !hungUp(err) && !errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	for _, addr := range c.cfg.Seeds {
		if wants := c.diagnose(ctx, addr); wants != "" {
			return &MismatchError{Addr: addr, Wants: wants}
		}
	}
	return nil
}

func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func (c *Cluster) diagnose(ctx context.Context, addr string) string {
	if c.cfg.TLS == nil && c.probe(ctx, addr, speaksTLS) {
		return "wants TLS, and none is configured"
	}
	if c.cfg.TLS != nil && c.probe(ctx, addr, speaksPlain) {
		return "does not use TLS, and it is configured"
	}
	if c.cfg.SASL == nil {
		var mechanisms []string
		c.probe(ctx, addr, func(ctx context.Context, conn net.Conn) bool {
			if c.cfg.TLS != nil {
				var err error
				if conn, err = handshake(ctx, conn, c.cfg.TLS, addr); err != nil {
					return false
				}
			}
			mechanisms = saslMechanisms(conn)
			return true
		})
		if len(mechanisms) > 0 {
			return "wants SASL (" + strings.Join(mechanisms, ", ") + "), and none is configured"
		}
	}
	return ""
}

func (c *Cluster) probe(ctx context.Context, addr string, ask func(context.Context, net.Conn) bool) bool {
	ctx, cancel := context.WithTimeout(ctx, probing)
	defer cancel()
	conn, err := c.cfg.Dial(ctx, "tcp", addr)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(probing))
	return ask(ctx, conn)
}

// speaksTLS: a handshake, or an alert in it.
func speaksTLS(ctx context.Context, conn net.Conn) bool {
	cfg := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // it only asks whether TLS is spoken, and sends nothing
	err := tls.Client(conn, cfg).HandshakeContext(ctx)
	return err == nil || isRemoteAlert(err)
}

// speaksPlain: ApiVersions is answered in plain.
func speaksPlain(_ context.Context, conn net.Conn) bool {
	if _, err := conn.Write(wire.Finish(wire.AppendHeader(nil, int16(protocol.ApiVersions), 0, 1, "onceward", false))); err != nil {
		return false
	}
	body, err := wire.ReadFrame(conn, nil, maxFirst)
	if err != nil {
		return false
	}
	_, err = parseOffers(body)
	return err == nil
}

// saslMechanisms asks with a mechanism that nobody has: the refusal lists those
// that there are, where authentication is wanted at all.
func saslMechanisms(conn net.Conn) []string {
	b := wire.AppendHeader(nil, int16(protocol.SaslHandshake), 1, 1, "onceward", false)
	if _, err := conn.Write(wire.Finish(wire.AppendString(b, "NONE"))); err != nil {
		return nil
	}
	body, err := wire.ReadFrame(conn, nil, maxFirst)
	if err != nil {
		return nil
	}
	r := wire.NewReader(body)
	r.Int32() // correlation id
	if kafka.Error(r.Int16()) != kafka.UnsupportedSASLMechanism {
		return nil
	}
	var names []string
	for n := r.Count(2); n > 0 && !r.Bad(); n-- {
		names = append(names, r.String())
	}
	return names
}
