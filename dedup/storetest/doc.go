// Package storetest is the conformance suite of [dedup.Store]: whoever writes
// a store runs it, and whoever wants to know what a store promises reads it.
//
// # Usage
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, storetest.Harness{
//			Open: func(tb testing.TB) dedup.Store { return mystore.New() },
//		})
//	}
//
// # Guarantees
//
// It checks every row of the state table by a case that reads as a sentence;
// random sequences of operations against an oracle that was written from the
// table and not from the code that stores share; batches with twins and bad
// items; ids of any bytes; fences over everything that ends a record; the
// clock; reopening and crashes where the store is durable; many callers at
// once, and that what they were answered is linearizable per key.
//
// Fences are compared by order, since a store may leave numbers out.
//
// # Concurrency
//
// The checks of one Run go one after the other, each on a store of its own.
//
// # Testing
//
// The suite's own tests run it on stores with one planted fault each, and fail
// when a fault is not found.
package storetest
