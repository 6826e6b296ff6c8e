// Package consumer runs handlers over the messages of a Kafka topic or a
// JetStream stream so that each business operation takes effect once, no
// message is lost, and what fails is sorted into what can succeed later and
// what never will.
//
// # Usage
//
//	c, err := consumer.New(consumer.Config{
//		Name: "billing", Broker: js, Topics: []string{"ORDERS"}, StartFrom: consumer.Earliest, Store: store,
//	}, consumer.JSON("order.create", Order.ID, create)) // create: func(context.Context, Order) error
//	err = c.Run(ctx)
//
// A [Route] joins an action with its key, policy and handler. [JSON],
// [JSONResult], [Decoded] and [DecodedResult] make one of a typed handler; any
// field of it may be set afterwards. Several routes are told apart by [Match];
// the first that matches takes the message. [Info] tells a handler what is known
// of its own attempt.
//
// # Keys
//
// A key is the consumer's name, the route's scope and the business id. The id
// must come from the business: one that is made by whoever sends the message,
// and that a repeat of the same operation carries again. A request id, a trace
// id or an offset is new in every repeat and makes nothing once.
//
//   - [Field] takes a string or number of a JSON payload, [Header] a header,
//     [BrokerKey] the broker's key; [Join] makes one id of several parts, each
//     with its length before it, so that ("a", "bc") and ("ab", "c") differ.
//   - A number is an id by its text: 9007199254740993 stays itself, 42 and "42"
//     are one id, 42 and 42.0 are two.
//   - What cannot stand for one operation is no id: empty, blank, missing, null,
//     longer than 1 KiB, not UTF-8. Such a message ends as a letter with the
//     reason "key", which names the path that was tried and the fields that were
//     there, never a value. So does a payload in which a name occurs twice, and a
//     message that no route takes.
//   - A payload that cannot be read ends as a letter with the reason "decode".
//   - Neither of the two leaves a record of an operation, only one of the letter
//     ([dedup.LetterKey]). A panic in a user's function for matching, decoding or
//     finding is such a letter too, with its stack.
//
// A message whose key is known but whose fingerprint differs is another
// operation under a used key: a letter with the reason "conflict". The
// fingerprint is the SHA-256 of the payload unless the route says otherwise, for
// example with [Fields]. Fingerprints of different rules are not compared, so
// that a changed rule does not turn repeats into conflicts.
//
// Headers that begin with dl-, in any case, are onceward's own. They are removed
// before anything of a user's sees the message, and decide nothing.
//
// # Errors
//
// A handler says what it knows by the error that it returns, however deep it is
// wrapped:
//
//	Terminal(err), backoff.Permanent(err)   never again: a letter
//	Retryable(err)                          again, on the route's schedule
//	RetryAfter(err, d)                      again, after d
//	InDoubt(err)                            an effect may have happened: held, with a letter
//	Skip                                    not mine: acknowledged, no record
//	anything else                           asks the route's Classify
//
// Of several marks in one error, InDoubt counts wherever it is, then Terminal,
// then Retryable, then Skip; where one wraps another, the outer one, save for
// InDoubt. [ClassifyDefault] knows contexts, the network, database/sql,
// PostgreSQL's codes and HTTP statuses. What nobody knows is retried until the
// failures are used up ([Retry].MaxFailures), and ends as a letter with the
// reason "exhausted". A panic is recovered and counts like an error
// ([PanicError]).
//
// Some failures count nothing: those of an attempt that was cut short by a
// shutdown, a lost partition or a lost lease, and those while the breaker is not
// closed. It opens when keys that had not failed before fail one after another
// ([Breaker]), which is what an outage looks like; then one attempt at a time
// probes, nothing is used up, and it closes by itself. A topic of which every
// single message fails looks the same: nothing becomes a letter then, and
// [Consumer.Status] says so.
//
// # Guarantees
//
// A message is acknowledged only when its outcome is durable: recorded, or
// handed to the retry topic and confirmed, or dead-lettered and confirmed. A
// repeat of a finished operation does not run; a repeat of a running one waits.
//
// The order of steps is receive, decode and key, claim, handler, classify, retry
// copy confirmed, complete, letter confirmed, letter noted, ack; where it is the
// copy of a letter, that one is told before the ack. If the process dies after
//
//	claim                          the next owner runs it again and counts a crash
//	handler, before complete       it runs again, unless the handler's rows were written
//	                               in the completing commit (boltstore.InTx): then neither happened
//	retry copy, before complete    it runs again; of the two copies the second finds the record
//	complete, before ack           the repeat is acknowledged without running
//	complete as failed or in       the letter is owed: the repeat writes it, and does not run
//	doubt, before its letter
//	letter, before it is noted     the same letter is written again, with the same dl-id
//	noted, before ack              the repeat is acknowledged without running
//	complete, before the letter    the repeat tells it, and does not run
//	of a copy is told
//
// Tests kill a process at each of these places (crash_test.go, replay_crash_test.go).
//
// Deduplication does not order, and a handler that ignores its context can
// overlap its successor. An effect outside of the store can happen twice when
// the process dies between the effect and its record.
//
// A lease that has lapsed when its key is claimed again counts as a crash: a
// process that died cannot be told from one that did not reach the store, or
// stood still, for a lease. A key with two
// crashes is a suspect. It runs with nothing beside it, and when it loses
// MaxLoneCrashes (3) leases so, it is buried as a crash-loop, also where a shared
// store was away each time and its handler is innocent. Before it runs, every
// running handler ends and nothing new starts: one that hangs then holds up all
// new work until [Status].Live, which is false by that time, gets the process
// restarted.
//
// A store may refuse the note of a letter. The letter itself is confirmed and
// the same note would be refused again, so that is logged as an error and the
// message is acknowledged. Its record still owes the letter, and a repeat of the
// message writes it again, with the same dl-id.
//
// # Replays
//
// A letter that is sent back ([deadletter.Queue]) comes as a message like any
// other, to the retry topic or the source, with a token. Only what the store
// confirms counts: a delivery whose token is that of a letter of this consumer,
// held by a replay and not answered yet, is the copy of that letter. A token that
// the store does not have decides nothing, and while the store does not answer
// nothing is decided of what bears one. The copy of a letter
//
//   - is too old where there is no record of its key and a window has passed since
//     the letter was written, unless somebody has said why it is sent all the same;
//   - tells its letter what became of it: succeeded, failed, in doubt. The letter
//     knows before the copy is acknowledged, so a crash in between only repeats
//     the telling. It keeps its token where it has to wait long;
//   - opens a letter of its next run where it dies with a key, and is the same
//     incident, with the same dl-id and one run further, where it dies without:
//     after the third death the letter is held for a person;
//   - is absorbed where a repeat of the original has run in its place. That
//     repeat has told the letter too, since the record names it.
//
// A repeat of a copy whose letter was told before, also of one that was followed
// by others, is acknowledged without another letter.
//
// # Pauses
//
// [dedup.SetPause] stops a consumer, or one scope of it, until [dedup.LiftPause];
// every process that shares the store heeds it within about a second and after a
// restart, and says so in [Status]. While the whole consumer is paused nothing is
// received and nothing starts; what runs may finish; partitions and leases are
// kept. What was received and has not started stays in the process.
//
// Of a paused scope deliveries are received and not claimed, also the repeats of
// what is finished. They wait in the process, and with each of them its ordering
// key, also where the rest of that key is of another scope; those of the retry
// topic stay with the broker, at the cost of some bytes. Others go on until the
// bound on unfinished deliveries is full of the paused scope's: nothing more is
// received then, of any scope, and on Kafka the position stays at the first that
// waits. A scope that is paused for longer than it takes to fill the bound
// therefore pauses the consumer. JetStream's own bound (MaxAckPending) counts
// them too.
//
// # Operators
//
// [Consumer.Admin] lets an operator's command work on a running consumer, whose
// file nobody else can open: "onceward --via http://127.0.0.1:8080", or curl. It
// is JSON over HTTP, and streams are one JSON object a line:
//
//	GET         /v1/consumer   view     what it is, how it is set up, how it fares
//	GET         /v1/stats      view     the figures of Consumer.Stats
//	GET, POST   /v1/records    view     ?scope= &state= &completed_after= &completed_before= &limit=; {"keys":[…]}
//	GET, POST   /v1/letters    view     ?state= &limit=; {"ids":[…]}
//	GET         /v1/browse     view     ?topic= &since= &offset=PARTITION:OFFSET, of its own topics
//	POST        /v1/inspect    view     {"topics":[…]}
//	GET         /v1/pause      view     what is paused
//	POST DELETE /v1/pause      replay   {"scope":…,"why":…}; without a scope the whole consumer
//	POST        /v1/publish    replay   {"messages":[…]}, to its retry destinations and what it reads
//	POST        /v1/apply      replay   {"ops":[…]}; some take approve
//
// The last line of a stream is {"end":true,"count":N}, or {"error":…} where it is
// not complete; a stream without either was cut. What is refused is {"error":
// {"code":…,"message":…}}, with the role that is needed where one is missing.
//
// [AdminRole] says what each role allows.
//
// # Concurrency
//
// Handlers of different ordering keys run beside each other, at most
// Config.Workers at once; of one ordering key, one after another in the broker's
// order. The ordering key is the broker's key, else the business id, unless the
// route names another. For one key there is at most one handler at a time in
// all processes that share the store.
//
// Functions of a route for matching, decoding and finding keys are called by
// one goroutine at a time, which also receives: they should take microseconds.
// Classify is called by one goroutine at a time too.
//
// # Testing
//
// Handlers are plain functions. For a whole consumer use membroker and memstore,
// which work on the fake time of testing/synctest.
package consumer
