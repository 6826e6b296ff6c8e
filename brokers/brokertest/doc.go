// Package brokertest is the suite that every adapter of package brokers
// passes, on a real broker, on one in the process, or on one in memory.
//
// # Usage
//
//	func TestConformance(t *testing.T) {
//		brokertest.Run(t, brokertest.Harness{Connect: …, Crash: …, NewTopic: …, Produce: …, Stored: …})
//	}
//
// # Guarantees
//
// Every test makes topics and consumers of its own, so that one broker serves
// the whole suite. What a broker cannot do is declared in [Harness.Lacks] with
// the reason, which the test prints; everything else must hold. Times are real
// unless the caller runs the suite in a synctest bubble.
//
// # Concurrency
//
// Tests run one after the other: several measure time or memory.
package brokertest
