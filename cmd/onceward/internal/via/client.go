package via

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/internal/adminapi"
)

// Options say how to ask.
type Options struct {
	// Token is sent where it is not empty. It never gets into an error.
	Token string
	// Who is told to a consumer on the same machine that asks for no token; the
	// first [adminapi.MaxWho] bytes of it.
	Who string
	// Transport carries the requests; default: one of its own.
	Transport http.RoundTripper
}

// Client is a running consumer. Make it with [Connect].
type Client struct {
	base  string // without a slash at its end
	http  *http.Client
	own   *http.Transport // to be closed; nil where the caller gave one
	token string
	who   string

	mu       sync.Mutex
	consumer adminapi.Consumer // as it was when asked last
}

var (
	_ deadletter.Store  = (*Client)(nil)
	_ deadletter.Broker = (*Client)(nil)
)

// Times of a request. A commit of a store or a round trip to a broker takes
// less, unless something is wrong; a stream says every [adminapi.Alive] that it
// goes on.
const (
	dialFor   = 10 * time.Second
	answerFor = time.Minute
	silentFor = 6 * adminapi.Alive
	againFor  = 3 * time.Second
)

// Connect asks the consumer at an address, http:// or https:// with an optional
// path, with or without the /v1 that curl wants behind it, who it is. It blocks
// until that is answered, or for some seconds where nobody does.
//
// Errors: one that says what is wrong with the address; those of the requests,
// see [Error].
func Connect(ctx context.Context, address string, o Options) (*Client, error) {
	base, err := readAddress(address)
	if err != nil {
		return nil, err
	}
	if strings.ContainsFunc(o.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("the token has a character that none has: it was not copied whole, or too much of it")
	}
	c := &Client{base: base, token: o.Token, who: clean(o.Who[:min(len(o.Who), adminapi.MaxWho)])}
	transport := o.Transport
	if transport == nil {
		c.own = newTransport()
		transport = c.own
	}
	c.http = &http.Client{
		Transport: transport,
		// A consumer sends nobody elsewhere, and the token is not for others.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if _, err := c.Consumer(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func newTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: dialFor}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: dialFor, ResponseHeaderTimeout: answerFor, IdleConnTimeout: answerFor,
		MaxResponseHeaderBytes: 64 << 10, DisableCompression: true,
	}
}

// CheckAddress says what is wrong with the form of an address, without anything
// of it that may be a password. It asks nobody.
func CheckAddress(address string) error {
	_, err := readAddress(address)
	return err
}

const addressForm = "http://HOST:PORT or https://HOST:PORT, such as http://127.0.0.1:8080"

func readAddress(address string) (string, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return "", errors.New("the consumer's address must be " + addressForm)
	case u.User != nil:
		return "", errors.New("the consumer's address must not hold a password; give a token")
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return "", errors.New("the consumer's address must be " + addressForm)
	case u.RawQuery != "" || u.Fragment != "":
		return "", fmt.Errorf("the consumer's address %q must not have a query", u.Scheme+"://"+u.Host)
	}
	path := strings.TrimRight(u.EscapedPath(), "/")
	return u.Scheme + "://" + u.Host + strings.TrimSuffix(path, "/v1"), nil
}

// Close drops connections that are kept for the next request.
func (c *Client) Close() {
	if c.own != nil {
		c.own.CloseIdleConnections()
	}
}

// Consumer asks what the consumer is and how it fares.
//
// Errors: see [Error].
func (c *Client) Consumer(ctx context.Context) (adminapi.Consumer, error) {
	var now adminapi.Consumer
	if err := c.call(ctx, request{method: http.MethodGet, path: "/consumer", again: true}, &now); err != nil {
		return adminapi.Consumer{}, err
	}
	if now.Name == "" {
		return adminapi.Consumer{}, c.fail(true, "its answer names no consumer", ErrNotOnceward)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.consumer = now
	return now, nil
}

func (c *Client) last() adminapi.Consumer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.consumer
}

// Name of the consumer.
func (c *Client) Name() string { return string(c.last().Name) }

// Info describes the consumer's store as it was when it was asked last, by
// [Connect] or [Client.Consumer].
func (c *Client) Info() dedup.Info { return c.last().Store.Dedup() }

// Destinations names where letters and waiting copies of one of its topics go;
// empty names for another topic or another consumer.
func (c *Client) Destinations(consumer, topic string) brokers.Destinations {
	known := c.last()
	if consumer == string(known.Name) {
		for _, t := range known.Topics {
			if topic == string(t.Name) {
				return brokers.Destinations{DeadLetter: string(t.DeadLetter), Retry: string(t.Retry)}
			}
		}
	}
	return brokers.Destinations{}
}
