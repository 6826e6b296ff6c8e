package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/onceward/onceward/brokers/natsbroker"
	"github.com/onceward/onceward/consumer"
)

// usageError is a fault of the flags or the environment.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// connection is how to reach NATS; both commands have it.
type connection struct {
	url     string
	creds   string
	ca      string
	stream  string
	ackWait time.Duration
	create  bool
}

func (c *connection) flags(f *flag.FlagSet) {
	f.StringVar(&c.url, "url", "nats://127.0.0.1:4222", "address of the NATS `servers`, separated by commas")
	f.StringVar(&c.creds, "creds", "", "credentials `file` of NATS")
	f.StringVar(&c.ca, "ca", "", "`file` with the certificates that the server's is signed with")
	f.StringVar(&c.stream, "stream", "ORDERS", "`name` of the JetStream stream")
}

func (c *connection) config() natsbroker.Config {
	options := []nats.Option{nats.Name("nats-orders")}
	if c.creds != "" {
		options = append(options, nats.UserCredentials(c.creds))
	}
	if c.ca != "" {
		options = append(options, nats.RootCAs(c.ca))
	}
	return natsbroker.Config{URL: c.url, Options: options, Create: c.create, AckWait: c.ackWait}
}

// settings are those of the consumer.
type settings struct {
	connection
	name    string
	db      string
	adopt   bool
	start   consumer.Start
	workers int
	drain   time.Duration
	retries int
	call    string
	listen  string
}

func readSettings(args []string, getenv func(string) string, stderr io.Writer) (*settings, error) {
	s := &settings{start: consumer.Earliest}
	f := newFlags("nats-orders", stderr)
	s.flags(f)
	f.BoolVar(&s.create, "create", false, "make streams and the consumer where they are missing; existing ones are never changed")
	f.DurationVar(&s.ackWait, "ack-wait", 0, "`time` after which the server delivers again what a dead process held; 0 is what the consumer has, or 30s")
	f.StringVar(&s.name, "name", "billing", "`name` of the consumer; part of every record, so it must never change")
	f.StringVar(&s.db, "db", "billing.db", "`file` with the records and the bookings")
	f.BoolVar(&s.adopt, "adopt", false, "take the consumer over with this file, on purpose; set it once")
	f.Func("start", "where a new consumer begins: `earliest` or latest (default earliest)", s.readStart)
	f.IntVar(&s.workers, "workers", 16, "`N` orders are handled at once")
	f.DurationVar(&s.drain, "drain", 25*time.Second, "`time` that handlers may take to finish after a signal")
	f.IntVar(&s.retries, "max-failures", 10, "an order is dead after `N` failures")
	f.StringVar(&s.call, "call", "", "`URL` that each order is posted to before it is booked")
	f.StringVar(&s.listen, "listen", "127.0.0.1:8080", "`address` of the health endpoints; empty for none")
	return s, parse(f, args, getenv)
}

func (s *settings) readStart(text string) error {
	switch text {
	case "earliest":
		s.start = consumer.Earliest
	case "latest":
		s.start = consumer.Latest
	default:
		return errors.New("must be earliest or latest")
	}
	return nil
}

func newFlags(name string, stderr io.Writer) *flag.FlagSet {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(stderr)
	return f
}

// variable is the name of a flag in the environment.
func variable(flag string) string {
	return "NATS_ORDERS_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// parse reads the environment, then the flags, which win.
func parse(f *flag.FlagSet, args []string, getenv func(string) string) error {
	var wrong error
	f.VisitAll(func(x *flag.Flag) {
		if value := getenv(variable(x.Name)); value != "" && wrong == nil {
			if err := x.Value.Set(value); err != nil {
				wrong = &usageError{fmt.Errorf("%s: %w", variable(x.Name), err)}
			}
		}
	})
	if wrong != nil {
		return wrong
	}
	help := f.Output()
	f.SetOutput(io.Discard) // the error says it, once
	err := f.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		f.SetOutput(help)
		fmt.Fprintf(help, "flags of %s, each also in the environment, such as %s:\n", f.Name(), variable("url"))
		f.PrintDefaults()
		return err
	case err == nil && f.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if err != nil {
		return &usageError{err}
	}
	return nil
}

func newLogger(out io.Writer) *slog.Logger { return slog.New(slog.NewJSONHandler(out, nil)) }
