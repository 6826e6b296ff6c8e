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

// consume runs the consumer until it has decided about a delivery.
func (s shop) consume(charge func(id string) error) {
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
			}
			stop()
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

// An operation that is dead does not run when its message is published again:
// the record answers. So the record is reopened first, then the message goes
// back to where it came from, and then its letter is resolved. Whoever dies in
// between does all of it again, with the same job.
//
// Letters of the reasons decode, key, conflict and too-old have no record of
// their own: nothing is reopened for them.
func Example_resend() {
	s := newShop(`{"order_id":"ord-1"}`)
	s.consume(func(string) error { return consumer.Terminal(errors.New("no such customer")) })

	l := s.letter()
	const job, who, why = "2026-05-01 customers", "ann", "the customer has been entered"
	r := s.record(l)
	if !s.apply(dedup.Op{Kind: dedup.Reopen, Key: l.Key, Operator: &dedup.OperatorOp{
		Seen: dedup.Seen{State: r.State, Run: r.Run, Fence: r.Fence}, // refused when somebody else was faster
		Who:  who, Why: why, Job: job, Letter: l.ID, LetterRun: l.Run, Fingerprint: r.Fingerprint,
	}}) {
		return
	}
	// On JetStream the topic is l.Source.Subject. A pointer letter has no value:
	// it lies where l.Source says.
	again := brokers.Outgoing{Topic: l.Source.Topic, Key: l.BrokerKey, Value: l.Value, Headers: l.Headers}
	if err := s.broker.Publish(context.Background(), []brokers.Outgoing{again})[0]; err != nil {
		fmt.Println(err)
		return
	}
	s.resolve(l, job, who, why)

	s.consume(func(id string) error {
		fmt.Println("charge", id)
		return nil
	})
	// Output:
	// dead ord-1
	// charge ord-1
	// handled ord-1
}

// An operation in doubt is held until somebody has looked whether its effect
// happened. It ends as a success or for good by one write. To is Release where
// it is to run again: then its message is published again as in the other
// example.
func Example_decide() {
	s := newShop(`{"order_id":"ord-1"}`)
	s.consume(func(string) error { return consumer.InDoubt(errors.New("no answer from the bank")) })

	l := s.letter()
	const who, why = "ann", "the bank's books have the payment"
	r := s.record(l)
	if s.apply(dedup.Op{Kind: dedup.Reconcile, Key: l.Key, Operator: &dedup.OperatorOp{
		Seen: dedup.Seen{State: r.State, Run: r.Run, Fence: r.Fence},
		Who:  who, Why: why, To: dedup.Success, // or Terminal: it did not, and shall not
	}}) {
		s.resolve(l, "", who, why)
	}

	s.broker.Produce("orders", brokers.Outgoing{Value: l.Value}) // a repeat
	s.consume(func(string) error { return errors.New("is not asked") })
	// Output:
	// doubtful ord-1
	// duplicate ord-1
}
