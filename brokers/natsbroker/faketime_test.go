package natsbroker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/internal/natstest"
)

// inside is a server in a synctest bubble.
type inside struct {
	*natstest.Piped
	t *testing.T
}

func startInside(t *testing.T, dir string) *inside {
	t.Helper()
	return &inside{Piped: natstest.Inside(t, dir), t: t}
}

func (i *inside) connect(config Config) *Broker {
	i.t.Helper()
	config.URL, config.Create = "nats://inside:4222", true
	config.Options = append(config.Options, nats.InProcessServer(i))
	b, err := Connect(i.t.Context(), config)
	if err != nil {
		i.t.Fatal(err)
	}
	return b
}

func closeAll(t *testing.T, s brokers.Source, b *Broker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
	b.Close()
}

// 1,100 copies wait for two hours in the retry stream: fresh messages are not
// held up, all copies come when they are due, also when the process is started
// again in between.
func TestManyWaitingCopiesHoldNothingUp(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		const n = 1100
		srv := startInside(t, dir)
		b := srv.connect(Config{Prefetch: 100})
		spec := specOf("ORDERS")
		spec.LongestWait = 2 * time.Hour
		s := openSource(t, b, spec)
		copies := make([]brokers.Outgoing, n)
		for i := range copies {
			copies[i] = brokers.Outgoing{Topic: "ORDERS_RETRY.billing", Value: []byte("copy"), Subject: "ORDERS.x"}
		}
		for _, err := range b.Publish(t.Context(), copies) {
			if err != nil {
				t.Fatal(err)
			}
		}
		due := time.Now().Add(2 * time.Hour)
		for left := n; left > 0; {
			ds := receive(t, s, min(left, 50))
			left -= len(ds)
			if err := s.Defer(ds, time.Until(due)); err != nil {
				t.Fatal(err)
			}
		}
		fresh := func(s *source) {
			t.Helper()
			if _, err := b.js.Publish(t.Context(), "ORDERS.x", []byte("fresh")); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			ds := receive(t, s, 1)
			if string(ds[0].Value) != "fresh" || time.Since(began) > time.Second {
				t.Fatalf("received %q after %v", ds[0].Value, time.Since(began))
			}
			if err := s.Ack(ds); err != nil {
				t.Fatal(err)
			}
		}
		fresh(s)
		time.Sleep(time.Hour)
		closeAll(t, s, b)
		b = srv.connect(Config{Prefetch: 100})
		s = openSource(t, b, spec)
		fresh(s)
		ctx, cancel := context.WithDeadline(t.Context(), due.Add(time.Minute))
		defer cancel()
		for left := n; left > 0; {
			ds, err := s.Receive(ctx, brokers.Limit{Messages: 100, Bytes: 1 << 20})
			if err != nil {
				t.Fatalf("%d of %d copies missing after they were due: %v", left, n, err)
			}
			if early := time.Until(due); early > 0 {
				t.Fatalf("%d copies came %v early", len(ds), early)
			}
			for _, d := range ds {
				if !d.Lane.Retry || d.Subject != "ORDERS.x" {
					t.Errorf("received %q of %q", d.Value, d.Subject)
				}
			}
			if err := s.Ack(ds); err != nil {
				t.Fatal(err)
			}
			left -= len(ds)
		}
		closeAll(t, s, b)
		srv.Stop()
	})
}

// A server that is away for a while is waited for; nothing is lost and nothing
// needs a restart.
func TestAStoppedServerIsWaitedFor(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		srv := startInside(t, dir)
		b := srv.connect(Config{})
		var state degradations
		spec := specOf("ORDERS")
		spec.Events.Degraded = state.note
		s := openSource(t, b, spec)
		publishNumbers(t, b.js, "ORDERS", 0, 10)
		held := receive(t, s, 5)
		for _, pause := range []time.Duration{10 * time.Second, 20 * time.Minute} {
			srv.Stop()
			time.Sleep(pause)
			srv.Start()
			time.Sleep(5 * time.Second)
			if !state.healed("connection") {
				t.Errorf("after %v: %v", pause, state.state)
			}
		}
		if err := s.Ack(held); err != nil {
			t.Error(err)
		}
		publishNumbers(t, b.js, "ORDERS", 10, 20)
		began := time.Now()
		seen := map[string]bool{}
		for _, d := range held {
			seen[string(d.Value)] = true
		}
		for len(seen) < 20 {
			ds := receive(t, s, 1)
			for _, d := range ds {
				seen[string(d.Value)] = true
			}
			if err := s.Ack(ds); err != nil {
				t.Fatal(err)
			}
		}
		// Requests are renewed with the connection, not when they are missed.
		if took := time.Since(began); took > heartbeat {
			t.Errorf("it took %v to go on", took)
		}
		closeAll(t, s, b)
		srv.Stop()
	})
}

// A server that is connected and silent is noticed by its missing heartbeats.
func TestRequestsThatTheServerForgotAreRenewed(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		srv := startInside(t, dir)
		b := srv.connect(Config{})
		s := openSource(t, b, specOf("ORDERS"))
		synctest.Wait()
		l := s.lanes[0]
		if err := l.renew(); err != nil {
			t.Fatal(err)
		}
		l.mu.Lock()
		l.requested = l.want // as if they had been sent, and got lost
		l.mu.Unlock()
		publishNumbers(t, b.js, "ORDERS", 0, 1)
		began := time.Now()
		receive(t, s, 1)
		if took := time.Since(began); took < heartbeat || took > 2*silence {
			t.Errorf("it took %v", took)
		}
		closeAll(t, s, b)
		srv.Stop()
	})
}

// An hour of quiet costs heartbeats and nothing else, also while the server
// holds messages back since too many are deferred.
func TestAnIdleSourceDoubtsNothing(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		srv := startInside(t, dir)
		b := srv.connect(Config{Prefetch: 2})
		spec := specOf("ORDERS")
		spec.Unfinished.Messages = 1 // the durable is made for 30 messages
		s := openSource(t, b, spec)
		publishNumbers(t, b.js, "ORDERS", 0, 40)
		for left := 30; left > 0; {
			ds := receive(t, s, 1)
			left -= len(ds)
			if err := s.Defer(ds, 3*time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Hour)
		s.mu.Lock()
		for _, l := range s.lanes {
			if !l.examined.IsZero() {
				t.Errorf("stream %s was doubted at %v", l.stream, l.examined)
			}
		}
		s.mu.Unlock()
		time.Sleep(3 * time.Hour)
		seen := map[string]bool{}
		for len(seen) < 40 {
			ds := receive(t, s, 1)
			for _, d := range ds {
				seen[string(d.Value)] = true
			}
			if err := s.Ack(ds); err != nil {
				t.Fatal(err)
			}
		}
		closeAll(t, s, b)
		srv.Stop()
	})
}
