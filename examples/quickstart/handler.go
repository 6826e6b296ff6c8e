package main

import (
	"context"
	"fmt"
	"io"
	"net/http"

	bolt "go.etcd.io/bbolt"

	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup/boltstore"
)

// bookings is the table of the example's own, in the same file as onceward's
// records: one row for each booking, under a number that counts up. A second
// booking of an order would be a second row.
var bookings = []byte("bookings")

// billing is the business: it knows nothing of repeats, crashes and retries.
type billing struct {
	witness string // address of the service that it calls
	http    *http.Client
}

// create handles one order. It is what a user of onceward writes.
func (b *billing) create(ctx context.Context, o order) error {
	if err := b.call(ctx, "begin", o.ID); err != nil {
		return err
	}
	// An effect outside: nobody but the other side knows whether it happened
	// when the process dies right here.
	if err := b.call(ctx, "notify", o.ID); err != nil {
		return err
	}
	// An effect in the same file: written in the commit that records the order
	// as done, so both are there or neither is.
	return boltstore.InTx(ctx, func(tx *bolt.Tx) error {
		table, err := tx.CreateBucketIfNotExists(bookings)
		if err != nil {
			return err
		}
		return addBooking(table, o.ID)
	})
}

func (b *billing) call(ctx context.Context, what, id string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, b.witness+"/"+what+"/"+id, http.NoBody)
	if err != nil {
		return err
	}
	response, err := b.http.Do(request)
	if err != nil {
		return err // unreachable: sorted as retryable
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	switch {
	case response.StatusCode < 300:
		return nil
	case consumer.ClassifyHTTP(response.StatusCode) == consumer.ClassTerminal:
		return consumer.Terminal(fmt.Errorf("%s of %s is refused: %s", what, id, response.Status))
	}
	return fmt.Errorf("%s of %s: %s", what, id, response.Status)
}
