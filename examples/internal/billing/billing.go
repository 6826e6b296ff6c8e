// Package billing is the business of the example consumers: it tells another
// service about an order and books it. It knows nothing of repeats, retries
// and crashes.
package billing

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/onceward/onceward/consumer"
)

// Order is the message.
type Order struct {
	ID       string `json:"order_id"`
	Customer string `json:"customer_id"`
	Cents    int64  `json:"cents"`
}

// Billing handles orders.
type Billing struct {
	call string
	http *http.Client
}

// New returns a Billing that posts each order to the URL, unless that is empty,
// and then books it in the consumer's bolt file.
func New(call string, workers int) *Billing {
	return &Billing{call: call, http: &http.Client{Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: workers, IdleConnTimeout: time.Minute,
	}}}
}

// Route is how orders are consumed.
func (b *Billing) Route(maxFailures int) consumer.Route {
	r := consumer.JSON("order.create", func(o Order) string { return o.ID }, b.create)
	r.Order = consumer.Field("customer_id")                             // one customer's orders in their order
	r.Fingerprint = consumer.Fields("order_id", "customer_id", "cents") // what must be equal in a repeat
	r.Retry.MaxFailures = maxFailures
	r.Timeout = time.Minute
	return r
}

// create handles one order.
func (b *Billing) create(ctx context.Context, o Order) error {
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
	return book(ctx, text)
}

// post tells the other side. If the process dies after the call and before the
// booking, the order is posted again, with the same Idempotency-Key: so the
// other side can tell. When a replay sends its letter back it has another key, and
// is posted anew; see [consumer.Operation.OutputID].
func (b *Billing) post(ctx context.Context, text []byte) error {
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

// StatusCode is what [consumer.ClassifyStatus] asks for.
func (e statusError) StatusCode() int { return int(e) }
