package natsbroker

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/onceward/onceward/brokers"
)

// dial connects with the adapter's defaults and the user's options.
func (b *Broker) dial(ctx context.Context) error {
	what := "connect to " + redact(b.config.URL)
	options := nats.GetDefaultOptions()
	options.Name = "onceward"
	options.MaxReconnect = -1           // the default gives up for good after two minutes
	options.ReconnectWait = time.Second // per server, with the jitter of nats.go
	options.IgnoreAuthErrorAbort = true // credentials may be rotated on the server first
	// A connection that a firewall dropped silently is noticed after 30 s; with
	// the default after 6 minutes.
	options.PingInterval, options.MaxPingsOut = 10*time.Second, 2
	options.Timeout = 5 * time.Second
	for _, set := range b.config.Options {
		if set == nil {
			continue
		}
		if err := set(&options); err != nil {
			return &brokers.StartError{What: what, Wrong: "an option cannot be used", Err: err}
		}
	}
	if deadline, ok := ctx.Deadline(); ok {
		options.Timeout = min(options.Timeout, max(time.Until(deadline), time.Millisecond))
	}
	for server := range strings.SplitSeq(b.config.URL, ",") {
		server = strings.TrimSpace(server)
		if !strings.Contains(server, "://") {
			server = "nats://" + server
		}
		if _, err := url.Parse(server); err != nil {
			// The parser's error repeats the whole text, with the password.
			return &brokers.StartError{What: "connect to NATS", Wrong: "URL cannot be parsed"}
		}
		options.Servers = append(options.Servers, server)
	}
	b.follow(&options)
	type result struct {
		nc  *nats.Conn
		err error
	}
	done := make(chan result, 1)
	go func() {
		nc, err := options.Connect()
		done <- result{nc, err}
	}()
	select {
	case r := <-done:
		if r.err != nil {
			return classify(what, r.err)
		}
		b.nc = r.nc
		b.up.Store(true)
		return nil
	case <-ctx.Done():
		go func() {
			if r := <-done; r.nc != nil {
				r.nc.Close()
			}
		}()
		return fmt.Errorf("%s: %w", what, ctx.Err())
	}
}

// follow takes word of the connection's state to the sources, beside the
// user's own callbacks.
func (b *Broker) follow(o *nats.Options) {
	disconnected, reconnected, closed, faults := o.DisconnectedErrCB, o.ReconnectedCB, o.ClosedCB, o.AsyncErrorCB
	o.DisconnectedErrCB = func(nc *nats.Conn, err error) {
		if disconnected != nil {
			disconnected(nc, err)
		}
		if err == nil {
			err = nats.ErrDisconnected
		}
		b.up.Store(false)
		b.each(func(s *source) { s.disconnected(err) })
	}
	o.ReconnectedCB = func(nc *nats.Conn) {
		if reconnected != nil {
			reconnected(nc)
		}
		b.up.Store(true)
		b.each((*source).reconnected)
	}
	o.ClosedCB = func(nc *nats.Conn) {
		if closed != nil {
			closed(nc)
		}
		b.mu.Lock()
		wanted := b.closed
		b.mu.Unlock()
		b.each(func(s *source) {
			if wanted {
				s.stop(brokers.ErrClosed)
				return
			}
			s.fail(&brokers.StartError{What: "read from NATS", Wrong: "the connection was closed", Err: nc.LastError()})
		})
	}
	o.AsyncErrorCB = func(nc *nats.Conn, sub *nats.Subscription, err error) {
		if faults != nil {
			faults(nc, sub, err)
		}
		b.note(err)
	}
}

func (b *Broker) each(f func(*source)) {
	b.mu.Lock()
	sources := make([]*source, 0, len(b.sources))
	for s := range b.sources {
		sources = append(sources, s)
	}
	b.mu.Unlock()
	for _, s := range sources {
		f(s)
	}
}

var violation = regexp.MustCompile(`(?i)permissions violation for (?:publish|subscription) to "([^"]+)"`)

// note keeps a denial, which the server tells beside the call that it is the
// answer of.
func (b *Broker) note(err error) {
	m := violation.FindStringSubmatch(err.Error())
	if m == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.denials) >= 64 {
		b.denials = b.denials[1:]
	}
	b.denials = append(b.denials, denial{at: time.Now(), subject: m[1], err: err})
	close(b.denied)
	b.denied = make(chan struct{})
}

// denial is the newest one since a time, of a subject or (empty) of any API
// subject; nil when there is none.
func (b *Broker) denial(since time.Time, subject string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range slices.Backward(b.denials) {
		if !d.at.Before(since) && (d.subject == subject || subject == "" && strings.HasPrefix(d.subject, "$JS.")) {
			return d.err
		}
	}
	return nil
}

// untilDenied ends ctx when the server says that we may not do what the API is
// asked for: it answers such a request with nothing else.
func (b *Broker) untilDenied(ctx context.Context) (context.Context, context.CancelFunc) {
	began := time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		for {
			b.mu.Lock()
			denied := b.denied
			b.mu.Unlock()
			if err := b.denial(began, ""); err != nil {
				cancel(err)
				return
			}
			select {
			case <-denied:
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

// address is where the connection leads, without credentials.
func (b *Broker) address() string {
	if at := b.nc.ConnectedUrlRedacted(); at != "" {
		return at
	}
	return redact(b.config.URL)
}

// redact takes user, password and token out of a list of URLs.
func redact(list string) string {
	servers := strings.Split(list, ",")
	for i, s := range servers {
		scheme, rest, ok := strings.Cut(strings.TrimSpace(s), "://")
		if !ok {
			scheme, rest = "nats", scheme
		}
		if at := strings.LastIndexByte(rest, '@'); at >= 0 {
			rest = rest[at+1:]
		}
		servers[i] = scheme + "://" + rest
	}
	return strings.Join(servers, ",")
}

// classify says which faults of connecting a retry cannot mend.
func classify(what string, err error) error {
	var (
		authority  x509.UnknownAuthorityError
		hostname   x509.HostnameError
		invalid    x509.CertificateInvalidError
		verify     *tls.CertificateVerificationError
		record     tls.RecordHeaderError
		terminalAs = []any{&authority, &hostname, &invalid, &verify, &record}
	)
	wrong := ""
	switch {
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked),
		errors.Is(err, nats.ErrAccountAuthExpired):
		wrong = "the server refuses these credentials"
	case errors.Is(err, nats.ErrNkeysNotSupported), errors.Is(err, nats.ErrNoUserCB), errors.Is(err, nats.ErrNkeyButNoSigCB),
		errors.Is(err, nats.ErrTokenAlreadySet), errors.Is(err, nats.ErrUserButNoSigCB), errors.Is(err, nats.ErrBadHeaderMsg):
		wrong = "the credentials cannot be used"
	case errors.Is(err, nats.ErrSecureConnRequired):
		wrong = "the server wants TLS"
	case errors.Is(err, nats.ErrSecureConnWanted):
		wrong = "the server has no TLS"
	case errors.Is(err, nats.ErrNoInfoReceived), strings.Contains(err.Error(), "expected 'INFO'"):
		wrong = "whoever answers there is no NATS server"
	}
	for _, as := range terminalAs {
		if wrong == "" && errors.As(err, as) {
			wrong = "the certificates do not fit"
		}
	}
	if wrong == "" {
		return fmt.Errorf("%s: %w", what, err)
	}
	return &brokers.StartError{What: what, Wrong: wrong, Err: err}
}
