// Package deadletter is the dead letter: a message that will not be handled,
// with what an operator must know to decide about it.
//
// # Usage
//
// A consumer writes letters with [Encode], or [Pointer] where the broker refuses
// the size, and tells its store about each. Tools read them with [Decode], which
// wants key, value and headers of the message as a [brokers.Delivery]: the
// examples of Decode make one of a Kafka and of a JetStream message. The latter
// has an envelope, which natsbroker.Delivery opens.
//
// There is no tool yet that sends letters back or decides what is in doubt. The
// examples "Resend" and "Decide" do both with the store and the broker alone,
// while the consumer is stopped where its store is a local file.
//
// # The message
//
// Key, value and headers of the original stay byte for byte. What is known of
// the failure is added in headers whose names begin with dl-: lower-case,
// single-valued, one line of UTF-8 each, times in RFC 3339 UTC, numbers in
// decimal. A header that has nothing to say is left out.
//
//	dl-version            1
//	dl-id                 the incident: equal in repeats of the same letter
//	dl-consumer           who gave up
//	dl-reason             terminal, exhausted, crash-loop, decode, key, conflict,
//	                      too-old, in-doubt
//	dl-error              what the handler said last, at most 1 KiB
//	dl-error-type         its Go type
//	dl-stack              of a panic, at most 4 KiB; \n, \t and \\ stand for
//	                      line end, tab and backslash
//	dl-failures           counted failures of this run
//	dl-crashes            processes that died with it
//	dl-first-failed, dl-last-failed
//	dl-scope, dl-key      the key, where there is one
//	dl-run                run of the operation that ended so
//	dl-fingerprint        number of the rule, ":", SHA-256
//	dl-source-topic, dl-source-partition, dl-source-offset    Kafka
//	dl-source-stream, dl-source-subject, dl-source-sequence   JetStream
//	dl-source-identity    which life of the topic or stream the place is in
//	dl-source-time        when the broker stored the message
//	dl-app-version        of the consumer's program
//	dl-traceparent        trace of the original
//	dl-replay-job, dl-replay-count   of the replay that sent it last
//	dl-pointer            a pointer letter: what it leaves out
//	dl-payload-sha256, dl-payload-size   of the payload left out
//
// Texts that must come back exactly (dl-id, dl-consumer, dl-scope, dl-key and
// the sources) are written as they are where they are one clean line. Where
// they are not, they are in double quotes with the escapes of Go, or, where that
// would be long, "=" and unpadded base64.
//
// # Guarantees
//
// The letter's own headers keep to 8 KiB: the stack is left out first, then the
// error text is cut; the payload never. Encoding a letter twice gives the same
// bytes, and a message that dies many times does not grow. A letter can be
// forged by whoever may publish, so nothing is decided by its headers.
//
// Letters of one incident have one id. A process that dies between a letter and
// its note writes the letter again; readers fold letters by id.
//
// # Concurrency
//
// Everything here is a function of its arguments, and nothing blocks.
//
// # Testing
//
// testdata/wire/letters holds letters as each release has written them, and
// every release must read them.
package deadletter
