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
	return s.apply(dedup.Op{Kind: dedup.MoveLetter, Key: l.Key, Letter: &dedup.LetterOp{
		From: dedup.LetterOpen, To: dedup.LetterResolved, Letter: dedup.Letter{ID: l.ID, Job: job, Who: who, Why: why},
	}})
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
// Where it is to run again, a plan approves its letter, see [deadletter.Selection].
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
