package dedup_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/memstore"
)

// A webhook is delivered twice. The second delivery gets the first receipt.
func ExampleDo() {
	type receipt struct{ Charge string }
	guard := &dedup.Guard{Store: dedup.NewBatcher(memstore.New(), 0), Consumer: "payments"}
	pay := func(context.Context) (receipt, error) {
		fmt.Println("charging")
		return receipt{Charge: "ch_1"}, nil
	}
	for range 2 {
		r, execution, err := dedup.Do(context.Background(), guard, dedup.Key{Scope: "order.pay", ID: "order-7"}, pay)
		fmt.Println(r.Charge, execution.Replayed, err)
	}
	// Output:
	// charging
	// ch_1 false <nil>
	// ch_1 true <nil>
}

// What no further try can mend is said by marking it.
func ExampleFinal() {
	guard := &dedup.Guard{Store: memstore.New(), Consumer: "payments"}
	refuse := func(context.Context) (string, error) {
		return "", dedup.Final(errors.New("card is stolen"))
	}
	for range 2 {
		_, _, err := dedup.Do(context.Background(), guard, dedup.Key{Scope: "order.pay", ID: "order-8"}, refuse)
		fmt.Println(err)
	}
	// Output:
	// card is stolen
	// payments/order.pay/order-8 failed for good (terminal): card is stolen
}

func ExampleBatcher() {
	store := dedup.NewBatcher(memstore.New(), 0)
	defer store.Close()
	answers, err := store.Apply(context.Background(), []dedup.Op{claim("a", 1), claim("a", 2)})
	fmt.Println(answers[0].Kind, answers[1].Kind, err)
	// Output: acquired busy <nil>
}
