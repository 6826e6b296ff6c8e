// Package membroker is a broker in memory, for tests of what runs on onceward.
//
// # Usage
//
//	b := membroker.New(membroker.Config{Topics: map[string]int{"orders": 4}})
//	b.Produce("orders", brokers.Outgoing{Key: []byte("c-1"), Value: []byte(`{"id":"o-1"}`)})
//	c, err := consumer.New(consumer.Config{Name: "billing", Broker: b, …}, …)
//
// and afterwards [Broker.Letters], [Broker.Waiting] and [Broker.Position] tell
// what became of the messages. A test makes trouble with [Broker.Redeliver],
// [Broker.Revoke], [Broker.Lose], [Broker.Crash], [Broker.FailPublish],
// [Broker.FailBrowse], [Broker.LoseConfirmations], [Broker.DropBelow] and
// [Broker.SetAvailable].
//
// # Guarantees
//
// It is shaped like Kafka, the stricter of the two: topics have partitions, a
// consumer's members share them, and the broker remembers one position for
// each partition, below which everything is settled. After a crash or a
// rebalance everything from the position on comes again, also what was acked
// beyond it. Publishing the same [brokers.Outgoing] twice stores two messages.
// In one thing it is like JetStream: a message that is produced with a Subject
// is delivered with it.
//
// Nothing survives the process, and nothing is deleted but by
// [Broker.DropBelow]: a million messages of 200 bytes need about 400 MB.
//
// # Concurrency
//
// All methods may be called concurrently. Nothing here reads a socket or a
// file and no timer runs beside those of waiting deliveries, so it works under
// testing/synctest, where an hour's delay takes no time.
//
// # Testing
//
// It passes brokertest, the suite of the real adapters.
package membroker
