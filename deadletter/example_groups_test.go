package deadletter_test

import (
	"context"
	"fmt"
	"os"

	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
)

// Groups says what letters died of, Letters lists those that a filter means, and
// Move says of one that a person has dealt with it, or that it is given up.
func ExampleQueue_Groups() {
	ctx := context.Background()
	s := newShop(`{"order_id":"ord-1"}`, `{"order_id":"ord-2"}`)
	s.consume(2, func(id string) error { return consumer.Terminal(fmt.Errorf("card of %s refused", id)) })

	q := &deadletter.Queue{
		Topic: s.broker.Destinations("billing", "orders").DeadLetter, Consumer: "billing", Broker: s.broker, Store: s.store,
	}
	tell := func() {
		groups, err := q.Groups(ctx, deadletter.Filter{})
		for _, g := range groups {
			fmt.Println(g.Count, g.Reason, g.Text, err)
		}
	}
	tell()
	for letter, err := range q.Letters(ctx, deadletter.Filter{Key: "ord-2"}) {
		if err != nil {
			fmt.Println(err)
			break
		}
		fmt.Println(letter.Letter.Key.ID, q.Move(ctx, letter.Letter.ID, dedup.LetterDiscarded, "ann", "a test order"))
	}
	tell()
	// Unordered output:
	// dead ord-1
	// dead ord-2
	// 2 terminal card of ord-1|2 refused <nil>
	// ord-2 <nil>
	// 1 terminal card of ord-1 refused <nil>
}

// A handler was wrong for a while: what it did then runs again, with the message
// as it lies at its source.
func ExampleQueue_PlanRerun() {
	ctx := context.Background()
	s := newShop(`{"order_id":"ord-1"}`)
	s.consume(1, func(string) error { return nil }) // forgets to charge

	q := &deadletter.Queue{
		Topic: s.broker.Destinations("billing", "orders").DeadLetter, Consumer: "billing", Broker: s.broker, Store: s.store,
	}
	file, err := os.CreateTemp("", "rerun-*.jsonl")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.Remove(file.Name())
	plan, err := q.PlanRerun(ctx, deadletter.Rerun{Scope: "order.create", ID: "ord-1", Who: "ann", Why: "was not charged"}, file)
	fmt.Println(plan.Letters, plan.Counts, err)
	frozen, err := deadletter.ReadPlan(file)
	if err != nil {
		fmt.Println(err)
		return
	}
	report, err := q.Apply(ctx, frozen, deadletter.ApplyConfig{})
	fmt.Println(report.Counts, err)
	s.consume(1, func(id string) error {
		fmt.Println("charge", id)
		return nil
	})
	// Output:
	// handled ord-1
	// 1 map[reopen:1] <nil>
	// map[sent:1] <nil>
	// charge ord-1
	// handled ord-1
}
