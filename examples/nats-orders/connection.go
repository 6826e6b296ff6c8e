package main

import (
	"flag"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/onceward/onceward/brokers/natsbroker"
)

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
