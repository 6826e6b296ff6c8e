// Package natstest runs real nats-servers with JetStream inside of a test.
//
// # Usage
//
//	s := natstest.Serve(t, func(o *server.Options) { o.MaxPayload = 2 << 20 })
//	js := natstest.Client(t, s.ClientURL())
//
// and, where hours shall pass under testing/synctest:
//
//	p := natstest.Inside(t, dir)
//	nats.Connect("nats://inside:4222", nats.InProcessServer(p))
//
// # Guarantees
//
// A server answers when it is handed out, listens on a port of 127.0.0.1 that
// was free or on none at all, logs nothing, takes no signals, and is gone when
// the test has ended. One that does not come up fails the test.
//
// # Concurrency
//
// Everything may be called concurrently, but as testing.TB allows it: from the
// test's own goroutine where the test can fail.
package natstest
