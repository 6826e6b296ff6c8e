// Package deadletter is the dead letter: a message that will not be handled,
// with what an operator must know to decide about it, and the replay that sends
// letters back.
//
// # Usage
//
// A consumer writes letters with [Encode], or [Pointer] where the broker refuses
// the size, and tells its store about each. Tools read them with [Decode], which
// wants key, value and headers of the message as a [brokers.Delivery]: the
// examples of Decode make one of a Kafka and of a JetStream message. The latter
// has an envelope, which natsbroker.Delivery opens.
//
// A [Queue] is the letters of one consumer: it lists and groups them, plans what
// is to be done about each, applies the plan, and says what came of it. The
// command onceward does all of that from a shell.
//
// # Replay
//
// A message whose operation is dead does not run when it is published again: its
// record answers. So a replay opens the record for a further run, and the copy
// that it sends bears a token which the store holds for that letter. What is
// done about a letter is decided from the record of its operation, see [Decide],
// once, by the plan; what has changed since is left alone.
//
// Progress is in the store and nowhere else: in the record that is reopened, and
// in the note of the letter. A letter is
//
//	open        confirmed at the dead-letter topic
//	sent        a copy is confirmed, and nobody has answered it yet
//	resolved    its copy was answered, or nothing was left to be done
//	discarded   by a person, while no job holds it
//	held        its third run has failed: a person must look before it is sent
//	gone        its topic's retention has removed it
//
// A copy that fails again is another incident, with a letter of its own, unless
// it has no usable key: then it is the same letter, open once more, and its
// record is one by dl-id, see [dedup.LetterKey].
//
// That record knows nothing of the operation, which may have been done under its
// key by a corrected message. So such a letter is sent only while the window of
// that one cannot be over, and its copy must arrive until then, too, unless
// somebody has said why it is sent all the same. What no record can tell: where
// the message itself was a repeat, of one that was done long before, it runs
// again once that one's window is over.
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
//	dl-replay-token       of a copy on its way back, never of a letter: see Ticket
//	dl-pointer            a pointer letter: what it leaves out
//	dl-payload-sha256, dl-payload-size   of the payload left out
//
// Texts that must come back exactly (dl-id, dl-consumer, dl-scope, dl-key and
// the sources) are written as they are where they are one clean line. Where
// they are not, they are in double quotes with the escapes of Go, or, where that
// would be long, "=" and unpadded base64.
//
// # Letters of others
//
// [Foreign] reads the dead letters of Spring Kafka, of Watermill's poison queue,
// of Kafka Connect and Streams, and bare messages, so that a team can work off
// what it has before it has a consumer of onceward.
//
// # Guarantees
//
// The letter's own headers keep to 8 KiB: the stack is left out first, then the
// error text is cut; the payload never. Encoding a letter twice gives the same
// bytes, and a message that dies many times does not grow. Letters and copies
// can be forged by whoever may publish, so their headers give no right: what a
// replay does is decided by the store's records, and a copy counts as one only
// where the store holds its token.
//
// Letters of one incident have one id. A process that dies between a letter and
// its note writes the letter again; readers fold letters by id.
//
// # Concurrency
//
// Reading and writing a single letter is a function of its arguments, and does
// not block. The methods of a [Queue] block while broker and store answer, and
// may be called concurrently; a [PlanFile] is for one call at a time.
//
// # Testing
//
// testdata/wire/letters holds letters as each release has written them, and
// every release must read them; testdata/wire/foreign those of others. Replays
// are tested with real consumers over membroker and memstore, ended before and
// after each of their writes.
package deadletter
