package deadletter_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/membroker"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/memstore"
)

// shop is a consumer's broker and store. A real one connects to natsbroker or
// kafkabroker and opens its boltstore, which the consumer must have closed: a
// file has one process at a time.
type shop struct {
	broker *membroker.Broker
	store  dedup.Store
}

func newShop(payloads ...string) shop {
	s := shop{broker: membroker.New(membroker.Config{Topics: map[string]int{"orders": 1}}), store: memstore.New()}
	for _, p := range payloads {
		s.broker.Produce("orders", brokers.Outgoing{Value: []byte(p)})
	}
	return s
}

// consume runs the consumer until it has decided about so many deliveries.
func (s shop) consume(deliveries int, charge func(id string) error) {
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	route := consumer.Route{
		Scope: "order.create", ID: consumer.Field("order_id"),
		Run: func(_ context.Context, d *consumer.Delivery) (consumer.Result, error) { return nil, charge(d.Key.ID) },
	}
	c, err := consumer.New(consumer.Config{
		Name: "billing", Broker: s.broker, Topics: []string{"orders"}, StartFrom: consumer.Earliest, Store: s.store,
		Logger: slog.New(slog.DiscardHandler),
		Observer: func(decided []consumer.Decision) {
			for _, d := range decided {
				fmt.Println(d.Verdict, d.Key.ID)
				if deliveries--; deliveries == 0 {
					stop()
				}
			}
		},
	}, route)
	if err == nil {
		err = c.Run(ctx)
	}
	if err != nil {
		fmt.Println(err)
	}
}

// letter reads the consumer's only letter.
func (s shop) letter() deadletter.Letter {
	m := s.broker.Letters("billing", "orders")[0]
	l, err := deadletter.Decode(&brokers.Delivery{Key: m.Key, Value: m.Value, Headers: m.Headers})
	if err != nil {
		fmt.Println(err)
	}
	return l
}

// record reads what the store knows of a letter's operation.
func (s shop) record(l deadletter.Letter) dedup.Record {
	records, err := s.store.Lookup(context.Background(), []dedup.Key{l.Key})
	if err != nil {
		fmt.Println(err)
		return dedup.Record{}
	}
	return records[0]
}

// apply does one operation, and says when it was not done.
func (s shop) apply(op dedup.Op) bool {
	answers, err := s.store.Apply(context.Background(), []dedup.Op{op})
	if err == nil {
		err = answers[0].Err
	}
	if err != nil || answers[0].Kind != dedup.Done && answers[0].Kind != dedup.Continued {
		fmt.Println("not done:", err, answers)
		return false
	}
	return true
}

// resolve says that a letter has been dealt with: until then its record is kept,
// however old.
func (s shop) resolve(l deadletter.Letter, job, who, why string) bool {
	key := l.Key
	if key.ID == "" {
		key = dedup.Key{Consumer: l.Consumer} // of the reasons decode and key
	}
	return s.apply(dedup.Op{Kind: dedup.MoveLetter, Key: key, Letter: &dedup.LetterOp{
		From: dedup.LetterOpen, To: dedup.LetterResolved, Letter: dedup.Letter{ID: l.ID, Job: job, Who: who, Why: why},
	}})
}

// resend publishes a letter's message again where it came from. died says after
// which step the process died.
func (s shop) resend(l deadletter.Letter, job, who, why, died string) {
	// Only these have ended their own operation: its record would answer, so it
	// is reopened. That of a conflict is another message's, which may well have
	// succeeded: it must stay as it is, and the message needs an id of its own.
	switch l.Reason {
	case deadletter.ReasonTerminal, deadletter.ReasonExhausted, deadletter.ReasonCrashLoop:
		r := s.record(l)
		if !s.apply(dedup.Op{Kind: dedup.Reopen, Key: l.Key, Operator: &dedup.OperatorOp{
			// Run is the letter's: a record that was reopened is one further,
			// by which this job is told to go on, and another is refused.
			Seen: dedup.Seen{State: r.State, Run: l.Run, Fence: r.Fence},
			Who:  who, Why: why, Job: job, Letter: l.ID, LetterRun: l.Run, Fingerprint: r.Fingerprint,
		}}) {
			return
		}
	case deadletter.ReasonDecode, deadletter.ReasonKey, deadletter.ReasonTooOld:
	default:
		fmt.Println("not to be sent again:", l.Reason)
		return
	}
	if died == "reopened" {
		return
	}
	// On JetStream the topic is l.Source.Subject. A pointer letter has no value:
	// it lies where l.Source says.
	again := brokers.Outgoing{Topic: l.Source.Topic, Key: l.BrokerKey, Value: l.Value, Headers: l.Headers}
	if err := s.broker.Publish(context.Background(), []brokers.Outgoing{again})[0]; err != nil {
		fmt.Println(err)
		return
	}
	if died == "published" {
		return
	}
	s.resolve(l, job, who, why)
}

// An operation that is dead does not run when its message is published again:
// the record answers. So the record is reopened first, then the message goes
// back to where it came from, and then its letter is resolved. Whoever dies in
// between does all of it again, with the same job: a message that is published
// twice is a repeat.
//
// Letters of the reasons decode, key and too-old have no record that answers:
// nothing is reopened for them. Letters of the reasons conflict and in-doubt are
// never sent so: the record of the first belongs to another message, and the
// second is decided, as in the other example.
func Example_resend() {
	s := newShop(`{"order_id":"ord-1"}`)
	s.consume(1, func(string) error { return consumer.Terminal(errors.New("no such customer")) })

	l := s.letter()
	for _, died := range []string{"reopened", "published", "not at all"} {
		s.resend(l, "2026-05-01 customers", "ann", "the customer has been entered", died)
	}

	s.consume(2, func(id string) error {
		fmt.Println("charge", id)
		return nil
	})
	// Output:
	// dead ord-1
	// charge ord-1
	// handled ord-1
	// duplicate ord-1
}

// The record that a conflict's letter names is that of the message which had
// the id first, and has succeeded with it.
func Example_resendConflict() {
	s := newShop(`{"order_id":"ord-1","cents":100}`, `{"order_id":"ord-1","cents":999}`)
	s.consume(2, func(string) error { return nil })
	s.resend(s.letter(), "2026-05-01 again", "ann", "by mistake", "not at all")
	// Output:
	// handled ord-1
	// dead ord-1
	// not to be sent again: conflict
}

// decide says that an operation in doubt has succeeded. died says after which
// step the process died.
func (s shop) decide(l deadletter.Letter, who, why, died string) {
	r := s.record(l)
	// Decided already: by this program before it died, or by its handler, which
	// came to an end after all.
	decided := r.Run == l.Run && r.State == dedup.Succeeded
	if !decided && !s.apply(dedup.Op{Kind: dedup.Reconcile, Key: l.Key, Operator: &dedup.OperatorOp{
		Seen: dedup.Seen{State: r.State, Run: l.Run, Fence: r.Fence},
		Who:  who, Why: why, To: dedup.Success, // or Terminal: it did not, and shall not
	}}) {
		return
	}
	if died == "reconciled" {
		return
	}
	s.resolve(l, "", who, why)
}

// An operation in doubt is held until somebody has looked whether its effect
// happened. It ends as a success or for good by one write. Whoever dies after it
// does all of it again: what is decided already is not decided twice, and the
// letter is resolved.
//
// To is Release where it is to run again. Its Reconcile has a Job then, as the
// Reopen in the other example, so that a repeat of it is answered in the same
// way, and the message is published again.
func Example_decide() {
	s := newShop(`{"order_id":"ord-1"}`)
	s.consume(1, func(string) error { return consumer.InDoubt(errors.New("no answer from the bank")) })

	l := s.letter()
	for _, died := range []string{"reconciled", "not at all"} {
		s.decide(l, "ann", "the bank's books have the payment", died)
	}

	s.broker.Produce("orders", brokers.Outgoing{Value: l.Value}) // a repeat
	s.consume(1, func(string) error { return errors.New("is not asked") })
	// Output:
	// doubtful ord-1
	// duplicate ord-1
}
