package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	bolt "go.etcd.io/bbolt"

	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup/boltstore"
)

// Order is the message.
type Order struct {
	ID       string `json:"order_id"`
	Customer string `json:"customer_id"`
	Cents    int64  `json:"cents"`
}

// bookings is this program's own table in the file: a number that counts up →
// the order.
var bookings = []byte("bookings")

// billing handles orders.
type billing struct {
	call string // URL that each order is posted to, may be empty
	http *http.Client
}

// create books an order. It knows nothing of repeats.
func (b *billing) create(ctx context.Context, o Order) error {
	if o.Cents <= 0 {
		return consumer.Terminal(fmt.Errorf("order of %d cents", o.Cents))
	}
	text, err := json.Marshal(o)
	if err != nil {
		return consumer.Terminal(err)
	}
	if b.call != "" {
		if err := b.post(ctx, text); err != nil {
			return err
		}
	}
	return boltstore.InTx(ctx, func(tx *bolt.Tx) error {
		table, err := tx.CreateBucketIfNotExists(bookings)
		if err != nil {
			return err
		}
		n, err := table.NextSequence()
		if err != nil {
			return err
		}
		return table.Put(binary.BigEndian.AppendUint64(nil, n), text)
	})
}

// post tells the other side. If the process dies after the call and before the
// booking, the order is posted again, with the same Idempotency-Key: so the
// other side can tell.
func (b *billing) post(ctx context.Context, text []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, b.call, bytes.NewReader(text))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", consumer.Info(ctx).OutputID(0))
	response, err := b.http.Do(request)
	if err != nil {
		return err // the network: sorted as retryable by itself
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(response.Body, 1<<20)); err != nil {
		return err
	}
	if response.StatusCode >= 300 {
		return statusError(response.StatusCode)
	}
	return nil
}

// statusError is an answer that is no success. The classifier knows it by its
// method: refused requests are dead at once, others are tried again.
type statusError int

func (e statusError) Error() string {
	return fmt.Sprintf("answer %d %s", int(e), http.StatusText(int(e)))
}
func (e statusError) StatusCode() int { return int(e) }
