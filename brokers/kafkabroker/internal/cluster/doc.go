// Package cluster reaches the brokers of one Kafka cluster over kafka-go's
// Transport.
//
// # Guarantees
//
// Each broker has a Transport of its own, and which one is asked is decided
// here, from metadata that is as new as the last answer: the Transport's own
// cache and its routing are not used. Every call has a bound. No address is
// special: a question that any broker can answer goes to a second one when the
// first is silent for [hedge].
//
// What comes from a socket is checked before kafka-go's decoder sees it, since
// that allocates what a length says; see guard.go and shape.go.
//
// # Concurrency
//
// All methods may be called concurrently.
package cluster
