package deadletter_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/deadletter"
)

// A plan says what is to be done about each letter, applying it sends them back,
// and the outcome is what their operations came to. All of it may be done again
// at any time, also after a crash in the middle.
func ExampleQueue_Plan() {
	ctx := context.Background()
	s := newShop(`{"order_id":"ord-1"}`)
	s.consume(1, func(string) error { return consumer.Terminal(errors.New("no such customer")) })

	// The customer has been entered. A real program opens the store's file while
	// the consumer is stopped, or asks the consumer, see cmd/onceward.
	q := &deadletter.Queue{
		Topic: s.broker.Destinations("billing", "orders").DeadLetter, Consumer: "billing", Broker: s.broker, Store: s.store,
	}
	file, err := os.CreateTemp("", "plan-*.jsonl")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.Remove(file.Name())
	plan, err := q.Plan(ctx, deadletter.Selection{
		Filter: deadletter.Filter{Reasons: []deadletter.Reason{deadletter.ReasonTerminal}}, Who: "ann", Why: "the customer has been entered",
	}, file)
	fmt.Println(plan.Letters, "letter:", plan.Counts, err)

	frozen, err := deadletter.ReadPlan(file)
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 { // the second time nothing is left to be done
		report, err := q.Apply(ctx, frozen, deadletter.ApplyConfig{})
		fmt.Println(report.Counts, err)
	}
	s.consume(1, func(id string) error {
		fmt.Println("charge", id)
		return nil
	})
	for letter, err := range q.Outcome(ctx, frozen) {
		fmt.Println(letter.Key.ID, letter.Outcome, err)
	}
	// Output:
	// dead ord-1
	// 1 letter: map[reopen:1] <nil>
	// map[sent:1] <nil>
	// map[sent before:1] <nil>
	// charge ord-1
	// handled ord-1
	// ord-1 succeeded <nil>
}
