package natsbroker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceward/onceward/brokers"
)

// Config says how to reach a JetStream server. Only URL is required.
type Config struct {
	// URL of one server of the cluster, or several separated by commas.
	URL string
	// Options are nats.go's own, for credentials, NKeys, JWT, TLS, the name of
	// the connection and all else. They are applied after the adapter's
	// defaults and win; callbacks are called beside the adapter's.
	Options []nats.Option
	// Domain is the JetStream domain; empty for the server's own.
	Domain string
	// Create makes streams and consumers that are missing. Existing ones are
	// compared and never changed. Without it, a missing one is a
	// [*brokers.StartError] that has the command to make it: production's
	// streams are somebody's decision.
	Create bool
	// Subjects of source streams that Create makes, by stream; default
	// "<STREAM>.>".
	Subjects map[string][]string
	// AckWait is how long the server waits for an ack or for word of progress
	// before it delivers again; 100 ms to 1 h. Progress is told at a third of
	// it, also for deliveries that wait: one small message for each, so at 100 ms
	// some 60,000 a second for 2,000 that are at hand, which keeps a server from
	// anything else, and at 1 s 6,000. A durable that is made gets it, an
	// existing one must have it. Default: what an existing durable has, and
	// 30 s for a new one, which a pause of the process may last.
	AckWait time.Duration
	// Prefetch is how many messages of one stream wait in memory to be
	// received; 1 to 100,000, default 1,000: at 100,000 messages a second 10 ms
	// of work, longer than a round trip. It adds to the durable's MaxAckPending.
	Prefetch int
}

// Broker is a connection to JetStream. Make it with [Connect].
type Broker struct {
	config Config
	nc     *nats.Conn
	js     jetstream.JetStream
	api    string        // prefix of API subjects, with the dot at its end
	slots  chan struct{} // bounds publishes without their PubAck
	// up says that the connection stands, as far as we have heard. Asking nats.go
	// waits for as long as it shakes hands with a server that is silent.
	up atomic.Bool

	mu      sync.Mutex
	sources map[*source]bool
	denials []denial      // the last few, newest last
	denied  chan struct{} // closed at the next denial
	closed  bool
}

// denial is word from the server that we may not publish or subscribe.
type denial struct {
	at      time.Time
	subject string
	err     error
}

var (
	_ brokers.Broker  = (*Broker)(nil)
	_ brokers.Browser = (*Broker)(nil)
)

// outstanding is how many publishes may wait for their PubAck. A server that
// syncs each write answers some thousands a second; more would only wait.
const outstanding = 4096

// Connect opens a connection and checks that JetStream answers. It blocks for
// some round trips until ctx ends, at most 10 s.
//
// Errors: a [*brokers.StartError] for wrong credentials, a wrong certificate,
// an unusable configuration and an account without JetStream; anything else
// says what could not be reached, and may be tried again. None contains a
// password or token.
func Connect(ctx context.Context, config Config) (*Broker, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	b := &Broker{
		config: config, sources: map[*source]bool{}, denied: make(chan struct{}),
		slots: make(chan struct{}, outstanding), api: jetstream.DefaultAPIPrefix,
	}
	if err := b.dial(ctx); err != nil {
		return nil, err
	}
	options := []jetstream.JetStreamOpt{
		// Twice our own bound: the library's must never be met, since it answers
		// it with an error.
		jetstream.WithPublishAsyncMaxPending(2 * outstanding),
		jetstream.WithPublishAsyncTimeout(publishWait),
	}
	var err error
	if config.Domain != "" {
		b.api = "$JS." + config.Domain + ".API."
		b.js, err = jetstream.NewWithDomain(b.nc, config.Domain, options...)
	} else {
		b.js, err = jetstream.New(b.nc, options...)
	}
	if err == nil {
		err = b.probe(ctx)
	}
	if err != nil {
		b.nc.Close()
		return nil, err
	}
	return b, nil
}

func (c *Config) check() error {
	if c.Prefetch == 0 {
		c.Prefetch = 1000
	}
	switch {
	case c.URL == "":
		return &brokers.StartError{What: "connect to NATS", Wrong: "URL is empty", Mend: `set it, such as "nats://127.0.0.1:4222"`}
	case c.AckWait != 0 && (c.AckWait < 100*time.Millisecond || c.AckWait > time.Hour):
		return &brokers.StartError{What: "connect to NATS", Wrong: fmt.Sprintf("AckWait %v is not within 100ms and 1h", c.AckWait)}
	case c.Prefetch < 1 || c.Prefetch > 100_000:
		return &brokers.StartError{What: "connect to NATS", Wrong: fmt.Sprintf("Prefetch %d is not within 1 and 100,000", c.Prefetch)}
	}
	return nil
}

// probe asks for the account, so that a server without JetStream is named as
// such at once. A user who may not ask is let through: Open will tell.
func (b *Broker) probe(ctx context.Context) error {
	began := time.Now()
	ctx, cancel := b.untilDenied(ctx)
	defer cancel()
	_, err := b.js.AccountInfo(ctx)
	what := "use JetStream at " + b.address()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, nats.ErrNoResponders):
		return &brokers.StartError{What: what, Wrong: "the server runs without JetStream", Mend: "start it with -js, or name the Domain", Err: err}
	case errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return &brokers.StartError{What: what, Wrong: "JetStream is not enabled for this account", Err: err}
	case b.denial(began, "") != nil:
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Destinations names the subjects `<STREAM>_DLQ.<consumer>` and
// `<STREAM>_RETRY.<consumer>`, in the streams `<STREAM>_DLQ` and
// `<STREAM>_RETRY`, which the consumers of a stream share.
func (b *Broker) Destinations(consumer, topic string) brokers.Destinations {
	return brokers.Destinations{
		DeadLetter: letterStream(topic) + "." + consumer,
		Retry:      retryStream(topic) + "." + consumer,
	}
}

func letterStream(topic string) string { return topic + "_DLQ" }
func retryStream(topic string) string  { return topic + "_RETRY" }

// Conn is the connection, for what else a program does with it. Do not close
// it while sources are open.
func (b *Broker) Conn() *nats.Conn { return b.nc }

// Close ends the connection. Sources that are still open give nothing back:
// the server delivers again what they held when AckWait is over.
func (b *Broker) Close() error {
	b.mu.Lock()
	closed := b.closed
	b.closed = true
	b.mu.Unlock()
	if !closed {
		b.nc.Close()
	}
	return nil
}
