// Package dedup decides what becomes of a repeat. It keeps one record per key,
// in a [Store], and has one state table, [Step], that says what each operation
// does to it.
//
// # Usage
//
// Most programs use it through a consumer, which claims, completes and answers
// for them, or through [Do], the guard for any function:
//
//	guard := &dedup.Guard{Store: store, Consumer: "payments"}
//	go dedup.KeepSwept(ctx, store, time.Hour)
//	receipt, execution, err := dedup.Do(ctx, guard, dedup.Key{Scope: "order.pay", ID: id}, pay)
//
// Whoever writes a consumer hands operations to a store, many at a time:
//
//	answers, err := dedup.Apply(ctx, store, []dedup.Op{{
//		Kind: dedup.Claim, Key: key, Token: token, Fingerprint: print, Policy: policy, Lease: 30 * time.Second,
//	}})
//
// and ends each claim that was [Acquired] with an [End] that bears the fence
// and the token of the claim. Whoever writes a store calls [Step] and
// [StepLetter] and decides nothing of its own.
//
// # Guarantees
//
// A key is owned by one claim at a time, as far as the store's clock goes: a
// claim whose lease is over can be taken over, and then its owner is fenced:
// whatever it still writes changes nothing and is kept as evidence. Fences rise
// for ever, also over the deletion of a record.
//
// What has ended stays ended until somebody reopens it, which is a new run. A
// repeat of it is answered from the record, with its result.
//
// An effect that was dispatched and not confirmed is in doubt, and no end but
// a retry gets past that: the record is held until the effect is confirmed,
// withdrawn or decided.
//
// A record that failed or is held owes a letter until the letter is noted. The
// letter of a message that has no usable key has a record of its own, see
// [LetterKey].
//
// An answer that was lost is asked for again: a claim by the same token, an
// End by the same fence and token.
//
// What it does not promise: order between keys, and that a function that
// ignores its context does not overlap its successor.
//
// # Concurrency
//
// Stores, [Batcher] and [Guard] may be used by any number of goroutines. Step,
// StepLetter and everything on plain values is pure and needs no more than that
// nobody else writes to the same value.
//
// # Testing
//
// Package memstore is a store for tests; in a testing/synctest bubble its clock
// is the bubble's. Package storetest is the suite that every store must pass.
package dedup
