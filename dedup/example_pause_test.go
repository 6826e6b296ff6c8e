package dedup_test

import (
	"context"
	"fmt"

	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/memstore"
)

func ExampleSetPause() {
	ctx := context.Background()
	store := memstore.New() // the one that the consumer uses
	defer store.Close()
	refunds := dedup.Pause{Consumer: "billing", Scope: "refund.create", Who: "ann", Why: "the bank is down"}

	for range 2 {
		changed, err := dedup.SetPause(ctx, store, refunds)
		fmt.Println("paused:", changed, err)
	}
	pauses, err := dedup.Pauses(ctx, store, "billing", []string{"order.create", "refund.create"})
	for _, p := range pauses {
		fmt.Println(p.Scope, "by", p.Who, "since", p.Why, err)
	}
	changed, err := dedup.LiftPause(ctx, store, refunds)
	fmt.Println("resumed:", changed, err)
	// Output:
	// paused: true <nil>
	// paused: false <nil>
	// refund.create by ann since the bank is down <nil>
	// resumed: true <nil>
}
