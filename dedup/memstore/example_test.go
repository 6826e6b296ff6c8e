package memstore_test

import (
	"context"
	"fmt"
	"time"

	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/memstore"
)

func ExampleNew() {
	store := memstore.New()
	defer store.Close()
	policy := &dedup.Policy{Failures: 10, Lone: 3, Window: 14 * 24 * time.Hour}
	claim := dedup.Op{
		Kind: dedup.Claim, Key: dedup.Key{Consumer: "billing", Scope: "order.create", ID: "7"}, Token: dedup.Token{1},
		Policy: policy, Lease: 30 * time.Second,
	}
	repeat := claim
	repeat.Token = dedup.Token{2} // another delivery of the same order

	answers, err := store.Apply(context.Background(), []dedup.Op{claim, repeat})
	fmt.Println(answers[0].Kind, answers[1].Kind, err)

	end := dedup.Op{Kind: dedup.End, Key: claim.Key, Fence: answers[0].Fence, Token: claim.Token, Policy: policy, Outcome: dedup.Success}
	repeat.Token = dedup.Token{3}
	answers, err = store.Apply(context.Background(), []dedup.Op{end, repeat})
	fmt.Println(answers[0].Kind, answers[1].Kind, err)
	// Output:
	// acquired busy <nil>
	// done duplicate_succeeded <nil>
}
