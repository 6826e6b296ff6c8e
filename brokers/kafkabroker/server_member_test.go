//go:build servers && linux

package kafkabroker_test

import (
	"context"
	"errors"
	"log/slog"
	"net/rpc"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/kafkabroker"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/boltstore"
	"github.com/onceward/onceward/dedup/storetest"
)

// memberConfig is what a process needs to be a member.
type memberConfig struct {
	Name     string
	Brokers  []string
	Topic    string
	Group    string
	Instance string
	File     string // of its own, or
	Store    string // a socket where a store is shared
	Witness  string // a socket
	Log      string // a file

	Session time.Duration
	Lease   time.Duration
	// Hold is how long handlers take that do "hold" or "ignore".
	Hold time.Duration
	// Step at which it kills itself after a handler has refused; empty: never.
	Step string
	// Late, where not negative, is a partition whose messages it gets only
	// after one of another partition is acknowledged.
	Late int32
}

// memberWorkers is how many handlers a member runs at once.
const memberWorkers = 8

// task is what the messages carry: what to do, and the id.
type task struct {
	No string `json:"no"`
	Do string `json:"do"`
}

func (t task) ID() string { return t.No }

// member is the inside of the process.
type member struct {
	memberConfig
	witness *rpc.Client
	armed   atomic.Bool
}

// run is the process, until SIGTERM.
func (cfg memberConfig) run() error {
	ctx, stop := context.WithCancel(context.Background())
	end := terminated()
	go func() { <-end; stop() }()
	m := &member{memberConfig: cfg}
	var err error
	if m.witness, err = rpc.Dial("unix", cfg.Witness); err != nil {
		return err
	}
	go stoodStill(ctx, cfg.Lease/3, func(d time.Duration) { m.tell("Stood", Seen{For: d}) })
	kafka := quick(cfg.Brokers...)
	kafka.InstanceID, kafka.SessionTimeout, kafka.Heartbeat, kafka.CommitInterval = cfg.Instance, cfg.Session, cfg.Session/10, 200*time.Millisecond
	b, err := kafkabroker.Connect(ctx, kafka)
	if err != nil {
		return err
	}
	log, err := os.Create(cfg.Log)
	if err != nil {
		return err
	}
	var store dedup.Store
	if cfg.File != "" {
		store, err = boltstore.Open(cfg.File, boltstore.Options{Logger: slog.New(slog.DiscardHandler)})
	} else {
		store, err = storetest.Dial("unix", cfg.Store)
	}
	if err != nil {
		return err
	}
	route := consumer.JSON("task.do", task.ID, m.do)
	route.Retry = consumer.Retry{Initial: 50 * time.Millisecond, Multiplier: 1}
	c, err := consumer.New(consumer.Config{
		Name: cfg.Group, Broker: &dyingBroker{b, m}, Topics: []string{cfg.Topic}, StartFrom: consumer.Earliest, Store: store,
		Workers: memberWorkers, Lease: cfg.Lease, Breaker: consumer.Breaker{Off: true}, Logger: slog.New(&alarm{slog.NewTextHandler(log, nil), m}), Observer: m.observe,
	}, route)
	if err != nil {
		return err
	}
	return errors.Join(c.Run(ctx), b.Close(), store.Close())
}

// tell waits until the witness has heard.
func (m *member) tell(what string, s Seen) {
	s.Member = m.Name
	if err := m.witness.Call("Witness."+what, s, new(bool)); err != nil {
		panic(err) // the test is over
	}
}

func (m *member) do(ctx context.Context, t task) error {
	op := consumer.Info(ctx)
	run := Seen{No: t.No, Fence: op.Fence}
	m.tell("Begin", run)
	defer func() { m.tell("End", run) }()
	switch t.Do {
	case "flaky":
		if op.Failures == 0 {
			return errors.New("once more")
		}
	case "refuse":
		m.armed.Store(true)
		return consumer.Terminal(errors.New("refused"))
	case "hold":
		select {
		case <-time.After(m.Hold):
		case <-ctx.Done():
			return ctx.Err()
		}
	case "ignore": // its context
		time.Sleep(m.Hold)
	}
	// The effect. What comes after it is the consumer's part.
	run.Effect = true
	return nil
}

func (m *member) observe(ds []consumer.Decision) {
	for _, d := range ds {
		if d.Verdict == consumer.Superseded {
			m.tell("Superseded", Seen{No: d.Key.ID})
		}
	}
}

// alarm hears what is logged about double executions.
type alarm struct {
	slog.Handler

	m *member
}

func (a *alarm) WithAttrs(as []slog.Attr) slog.Handler { return &alarm{a.Handler.WithAttrs(as), a.m} }

func (a *alarm) Handle(ctx context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "suspected double execution") {
		r.Attrs(func(at slog.Attr) bool {
			if at.Key == "key" {
				a.m.tell("Logged", Seen{No: at.Value.String()})
			}
			return true
		})
	}
	return a.Handler.Handle(ctx, r)
}

// die is SIGKILL to itself, once a handler has refused, at the step asked for.
func (m *member) die(step string) {
	if step == m.Step && m.armed.Load() {
		_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
		select {}
	}
}

// dyingBroker dies around its steps.
type dyingBroker struct {
	brokers.Broker
	m *member
}

func (b *dyingBroker) Open(ctx context.Context, spec brokers.Spec) (brokers.Source, error) {
	s, err := b.Broker.Open(ctx, spec)
	if err != nil {
		return nil, err
	}
	return &memberSource{Source: s, m: b.m, free: make(chan struct{})}, nil
}

func (b *dyingBroker) Publish(ctx context.Context, messages []brokers.Outgoing) []error {
	b.m.die("before letter")
	errs := b.Broker.Publish(ctx, messages)
	b.m.die("after letter")
	return errs
}

// memberSource dies around its steps, and keeps what is to come late.
type memberSource struct {
	brokers.Source
	m    *member
	once sync.Once
	free chan struct{}
	kept []*brokers.Delivery
}

func (s *memberSource) Receive(ctx context.Context, limit brokers.Limit) ([]*brokers.Delivery, error) {
	late := func(d *brokers.Delivery) bool { return d.Lane.Partition == s.m.Late && !d.Lane.Retry }
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-s.free:
			cancel()
		case <-waiting.Done():
		}
	}()
	for {
		select {
		case <-s.free:
			if got := s.kept; len(got) > 0 {
				s.kept = nil
				return got, nil
			}
			return s.Source.Receive(ctx, limit)
		default:
		}
		got, err := s.Source.Receive(waiting, limit)
		if err != nil && waiting.Err() != nil && ctx.Err() == nil {
			continue
		}
		for _, d := range got {
			if late(d) {
				s.kept = append(s.kept, d)
			}
		}
		if got = slices.DeleteFunc(got, late); len(got) > 0 || err != nil {
			return got, err
		}
	}
}

func (s *memberSource) Ack(ds []*brokers.Delivery) error {
	s.m.die("before ack")
	if s.m.Late < 0 || slices.ContainsFunc(ds, func(d *brokers.Delivery) bool { return d.Lane.Partition != s.m.Late }) {
		s.once.Do(func() { close(s.free) })
	}
	return s.Source.Ack(ds)
}
