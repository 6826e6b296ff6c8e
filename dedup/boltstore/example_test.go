package boltstore_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/boltstore"
	bolt "go.etcd.io/bbolt"
)

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	store, err := boltstore.Open(filepath.Join(dir, "billing.db"), boltstore.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()

	policy := &dedup.Policy{Failures: 10, Lone: 3, Window: 14 * 24 * time.Hour}
	key := dedup.Key{Consumer: "billing", Scope: "order.create", ID: "42"}
	claim := dedup.Op{Kind: dedup.Claim, Key: key, Token: dedup.Token{1}, Policy: policy, Lease: 30 * time.Second}
	first, err := store.Apply(context.Background(), []dedup.Op{claim})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(first[0].Kind)

	end := dedup.Op{
		Kind: dedup.End, Key: key, Token: claim.Token, Fence: first[0].Fence, Policy: policy,
		Outcome: dedup.Success, Result: []byte("booked"),
	}
	if _, err := store.Apply(context.Background(), []dedup.Op{end}); err != nil {
		fmt.Println(err)
		return
	}

	claim.Token = dedup.Token{2} // the order is delivered again
	again, err := store.Apply(context.Background(), []dedup.Op{claim})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s: %s\n", again[0].Kind, again[0].Record.Result)
	// Output:
	// acquired
	// duplicate_succeeded: booked
}

// A handler books an order in a bucket of its own, in the commit that says that
// it is done.
func ExampleInTx() {
	create := func(ctx context.Context, order string) error {
		return boltstore.InTx(ctx, func(tx *bolt.Tx) error {
			orders, err := tx.CreateBucketIfNotExists([]byte("orders"))
			if err != nil {
				return err
			}
			return orders.Put([]byte(order), []byte("booked"))
		})
	}
	// Outside of a handler there is no commit to be part of.
	fmt.Println(create(context.Background(), "42"))
	// Output: context belongs to no claim whose store takes this work into its commit
}
