// Package memnet is a network in memory, so that real clients talk to real
// servers in one process under testing/synctest.
//
// # Usage
//
//	n := memnet.New()
//	cluster, err := kfake.NewCluster(kfake.ListenFn(n.Listen))
//	transport := &kafka.Transport{Dial: n.DialContext}
//
// A goroutine that reads a loopback socket is not durably blocked, so fake time
// stands still while one is open; connections of this package block on
// condition variables, which synctest knows. (An embedded nats-server needs no
// listener: nats.InProcessServer with DontListen does the same.)
//
// # Guarantees
//
// A connection is a pair of byte streams in order, each with a buffer of
// 256 KiB: a write blocks while it is full, as on a socket. Closing one end
// lets the other read what was written before, then io.EOF; writes to it fail.
// Deadlines hold for blocked calls too. Addresses look like 127.0.0.1:port,
// since clients parse them.
//
// # Concurrency
//
// Everything may be called concurrently.
package memnet
