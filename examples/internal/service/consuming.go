package service

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/consumer"
)

// Consuming is what can be set of every consumer.
type Consuming struct {
	Name        string
	DB          string
	Adopt       bool
	Start       consumer.Start
	Workers     int
	Drain       time.Duration
	MaxFailures int
	Call        string
	Listen      string
	AdminTokens string

	log    *slog.Logger
	counts counts
}

// Flags adds the flags of the consumer.
func (c *Consuming) Flags(f *flag.FlagSet) {
	c.Start = consumer.Earliest
	f.StringVar(&c.Name, "name", "billing", "`name` of the consumer; part of every record, so it must never change")
	f.StringVar(&c.DB, "db", "billing.db", "`file` with the records and the bookings")
	f.BoolVar(&c.Adopt, "adopt", false, "take the consumer over with this file, though another or a newer one was used last; for one start")
	f.Func("start", "`place` where a new consumer begins: earliest or latest (default earliest)", c.readStart)
	f.IntVar(&c.Workers, "workers", 16, "handle `N` orders at once")
	f.DurationVar(&c.Drain, "drain", 25*time.Second, "`time` that handlers may take to finish after a signal")
	f.IntVar(&c.MaxFailures, "max-failures", 10, "make a dead letter of an order after `N` failures; 10 take about 4 minutes, 3 two seconds")
	f.StringVar(&c.Call, "call", "", "`URL` that each order is posted to before it is booked")
	f.StringVar(&c.Listen, "listen", "127.0.0.1:8080", "`address` of the health endpoints and of the operator's interface; empty for none")
	f.StringVar(&c.AdminTokens, "admin-tokens", "", "`file` with who may use the operator's interface, NAME:ROLE:TOKEN a line, ROLE view, replay or approve; also $"+TokensVariable+". Without tokens: this machine only, all of it")
}

func (c *Consuming) readStart(text string) error {
	switch text {
	case "earliest":
		c.Start = consumer.Earliest
	case "latest":
		c.Start = consumer.Latest
	default:
		return errors.New("must be earliest or latest")
	}
	return nil
}

// Config is the consumer's configuration, but for its broker and store.
func (c *Consuming) Config(topic string, log *slog.Logger) consumer.Config {
	c.log = log
	return consumer.Config{
		Name: c.Name, Topics: []string{topic}, StartFrom: c.Start, Workers: c.Workers, Drain: c.Drain,
		Logger: log, Observer: c.counts.observe,
	}
}

// withFlag names the flag of the setting that an error names.
func withFlag(err error) error {
	if start, ok := errors.AsType[*brokers.StartError](err); ok && strings.Contains(start.Mend, "set Create") {
		return fmt.Errorf("%w; here the flag --create sets Create", err)
	}
	return err
}

// Run consumes until ctx ends, and says what was done and what is left.
func (c *Consuming) Run(ctx context.Context, p *Process, of *consumer.Consumer, health *Health) error {
	admin, err := c.administer(of, p.Getenv)
	if err != nil {
		return err
	}
	health.of(of, admin, &c.counts)
	err = withFlag(of.Run(ctx))
	c.log.Info("stopped", "lag", of.Status().Lag, "counts", c.counts.now())
	return err
}
