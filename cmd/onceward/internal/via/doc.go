// Package via is a running consumer as a command sees it: its store and its
// broker, asked over HTTP through the API of consumer.Admin. A file that only
// one process can open is reached so, and one forwarded port is enough.
//
// # Usage
//
//	c, err := via.Connect(ctx, "http://127.0.0.1:8080", via.Options{Who: "ann"})
//	q := deadletter.Queue{Topic: topic, Consumer: c.Name(), Broker: c, Store: c}
//
// # Guarantees
//
// What is asked twice does no harm is asked again for some seconds while nobody
// answers; what changes something is sent once. A change whose answer did not
// come says so: [brokers.ErrUnknownOutcome] of a message, an error of Apply as
// [dedup.Store] has it. Answers that were cut short are errors, never short
// results. Whatever answers, what is read of it at once is bounded, and no
// control character of it gets into an error.
//
// # Concurrency
//
// A [Client] may be used by many goroutines.
//
// # Testing
//
// The other side is consumer.Admin over membroker and memstore.
package via
