package natstest

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// patience is how long a server may take to come up, on a machine that has much
// else to do.
const patience = 10 * time.Second

// Serve runs a server with JetStream until the test ends, in a folder of the
// test's own and on a port of 127.0.0.1 that is free; changes say what else it
// is. It blocks until the server answers.
func Serve(t testing.TB, changes ...func(*server.Options)) *server.Server {
	t.Helper()
	o := &server.Options{ServerName: "test", Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir()}
	for _, change := range changes {
		change(o)
	}
	s := start(t, o)
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return s
}

func start(t testing.TB, o *server.Options) *server.Server {
	t.Helper()
	o.NoSigs, o.NoLog = true, true
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(patience) {
		s.Shutdown()
		t.Fatal("NATS server does not answer")
	}
	return s
}

// Client is a plain client, beside what is tested; it is closed when the test
// ends. It blocks until it is connected.
func Client(t testing.TB, url string, options ...nats.Option) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(url, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}
