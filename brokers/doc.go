// Package brokers says what a message broker must give so that onceward can
// run on it: deliveries with a position, settlement of each, confirmed
// publishing, and word of partitions that come and go.
//
// # Usage
//
// Users connect with an adapter (natsbroker, kafkabroker, membroker) and hand
// the result to consumer.Config.Broker. This package is for those who write an
// adapter; brokertest is the suite that every adapter passes.
//
// # Guarantees
//
// An adapter decides nothing about a message. It never acknowledges what was
// not given to [Source.Ack], never moves a position past an unsettled
// delivery, and never drops one silently: what it cannot hand out it reports.
//
// # Concurrency
//
// Slices are handed on, not messages: Receive returns what is at hand, and
// settlement takes slices. Each method says what may block.
package brokers
