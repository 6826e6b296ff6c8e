// Package natsbroker runs consumers on NATS JetStream, through nats.go.
//
// # Usage
//
//	js, err := natsbroker.Connect(ctx, natsbroker.Config{URL: "nats://127.0.0.1:4222"})
//	c, err := consumer.New(consumer.Config{Name: "billing", Broker: js, Topics: []string{"ORDERS"}, …}, …)
//
// Credentials and TLS are nats.go's own options:
//
//	natsbroker.Config{URL: url, Options: []nats.Option{nats.UserCredentials("billing.creds"), nats.RootCAs("ca.pem")}}
//
// For a stream ORDERS and a consumer "billing" the server must have these, which
// Config.Create makes, and which are compared where they exist:
//
//	stream ORDERS         yours
//	  consumer billing    pull, explicit ack, MaxDeliver -1, no backoff, MaxAckPending
//	                      at least Unfinished + Prefetch (10 times that when made,
//	                      for 10 processes)
//	stream ORDERS_DLQ     subject ORDERS_DLQ.billing; retention limits; when it
//	                      has a bound, discard new
//	stream ORDERS_RETRY   subject ORDERS_RETRY.billing; retention limits or work
//	                      queue; MaxAge over the longest wait
//	  consumer billing    as above, filter ORDERS_RETRY.billing, MaxAckPending -1
//	bucket onceward       key-value; marks of local stores; always made
//
// What does not fit is a [*brokers.StartError] with the nats command that mends
// it; nothing that exists is ever changed. A user of its own needs to publish to
//
//	$JS.API.STREAM.INFO.>  $JS.API.CONSUMER.INFO.>  $JS.API.CONSUMER.MSG.NEXT.>
//	$JS.ACK.>  $KV.onceward.>  $JS.API.DIRECT.GET.KV_onceward.>
//	ORDERS_DLQ.billing  ORDERS_RETRY.billing
//
// and to subscribe to _INBOX.>. Whoever starts with a local store while there is
// no bucket makes it, also without Config.Create, and needs for that besides
//
//	$JS.API.INFO  $JS.API.STREAM.CREATE.KV_onceward
//
// Who looks at letters with [Broker.Browse] needs to publish to
//
//	$JS.API.STREAM.INFO.ORDERS_DLQ  $JS.API.CONSUMER.CREATE.ORDERS_DLQ.>
//	$JS.API.CONSUMER.MSG.NEXT.ORDERS_DLQ.*  $JS.API.CONSUMER.DELETE.ORDERS_DLQ.*
//
// or, slower, to $JS.API.STREAM.MSG.GET.ORDERS_DLQ in place of the last three; to
// that one also for a work queue such as the retry stream, and to say a time to
// begin at. Subjects that do not begin with the name of their stream need
// $JS.API.STREAM.NAMES.
//
// Connect asks $JS.API.INFO too: a user that may not is let in all the same, and
// the server logs a violation.
//
// # Guarantees
//
// Deliveries: the server is told about progress at a third of AckWait for all
// that this process holds, running, parked or prefetched, so that a slow handler
// causes no repeat. Acks are sent and not waited for: a server that is killed
// forgets about the last 100 ms of them, and the record answers the repeats.
// Defer is a nak with a delay; it reorders and counts against MaxAckPending,
// which is unlimited on the retry stream only.
//
// Publishing is confirmed by the PubAck. How much that is worth is the server's
// matter: with its default of syncing every two minutes a power cut (not a crash
// of the process) can lose confirmed messages of one replica; use
// sync_interval: always or three replicas for letters that must stay.
//
// Bytes: a NATS header is a line of text. A message whose key, nil value, subject
// or headers do not fit is sent in an envelope, and the adapter opens it again,
// as [Delivery] does for other readers:
//
//	Onceward-Headers: 1 name :bmFtZQ:dmFsdWU name2   all headers in order; a word
//	                      after a colon is name and value in base64
//	Onceward-Key: a2V5    the key in base64
//	Onceward-Value: nil   the value is nil, not empty
//	Onceward-Subject: …   the first subject in base64
//
// In the envelope go: binary values, values with spaces around them, names that
// are no header names, nil values, and whatever begins with Nats-, which would be
// an order to the server. Names of foreign messages come in alphabetical order,
// since clients do not tell another; their values keep theirs. Their empty values
// are empty, never nil.
//
// The connection is restored for ever. A server that is away is reported through
// [brokers.Events], under "connection"; a durable that was deleted, or made again
// under the same name, ends the source with a [*brokers.StartError].
//
// Memory: at most Prefetch messages, and about Unfinished.Bytes, wait to be
// received for each stream and each retry stream. A browse reads 2 MiB ahead, or a
// message.
//
// Positions: [brokers.Floor] is the durable's ack floor, which all its processes
// share. Lane.Source is the stream's name and time of creation.
//
// # Concurrency
//
// Requests for messages overlap, so that none waits for a round trip. One
// goroutine of nats.go for each stream brings messages in order; one of the
// source keeps them alive. Several processes may read one durable: the server
// deals the messages out.
//
// # Testing
//
// Plain "go test" runs the suite of package brokertest on a nats-server in the
// process, kills one in a process of its own, and lets hours of fake time pass.
package natsbroker
