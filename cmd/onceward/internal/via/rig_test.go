package via

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/onceward/onceward/brokers/membroker"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/memstore"
)

const (
	topic = "orders"
	retry = "orders.billing.retry"
	dead  = "orders.billing.dlq"
)

// other is a consumer to be asked.
type other struct {
	store   *memstore.Store
	broker  *membroker.Broker
	handler http.Handler
}

func newOther(t testing.TB, tokens ...consumer.AdminToken) *other {
	t.Helper()
	o := &other{store: memstore.New(), broker: membroker.New(membroker.Config{})}
	for _, name := range []string{topic, retry, dead} { // in this order, so that their identities are the same every time
		o.broker.AddTopic(name, 2)
	}
	c, err := consumer.New(consumer.Config{
		Name: "billing", Broker: o.broker, Topics: []string{topic}, StartFrom: consumer.Earliest, Store: o.store,
		Logger: slog.New(slog.DiscardHandler), AllowLocalInGroup: true,
	}, consumer.Route{
		Scope: "order.create", ID: consumer.Field("no"),
		Run: func(context.Context, *consumer.Delivery) (consumer.Result, error) { return nil, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	if o.handler, err = c.Admin(consumer.AdminConfig{Tokens: tokens}); err != nil {
		t.Fatal(err)
	}
	return o
}

// served is a client of a handler that is served over a socket.
func served(t *testing.T, handler http.Handler, options Options) *Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	c, err := Connect(t.Context(), server.URL, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// wire carries requests to a handler without a socket, so that a bubble's time
// passes.
type wire struct{ http.Handler }

func (w wire) RoundTrip(r *http.Request) (*http.Response, error) {
	in := httptest.NewRequestWithContext(r.Context(), r.Method, r.URL.String(), r.Body)
	in.Header, in.RemoteAddr = r.Header.Clone(), "127.0.0.1:40000"
	body, out := io.Pipe()
	a := &answerer{header: http.Header{}, out: out, began: make(chan struct{})}
	go func() {
		defer func() {
			if recover() != nil {
				a.WriteHeader(http.StatusInternalServerError)
				_ = out.CloseWithError(errors.New("the connection broke"))
			}
		}()
		w.ServeHTTP(a, in)
		a.WriteHeader(http.StatusOK)
		_ = out.Close()
	}()
	select {
	case <-a.began:
	case <-r.Context().Done():
		_ = body.Close()
		return nil, r.Context().Err()
	}
	context.AfterFunc(r.Context(), func() { _ = body.CloseWithError(r.Context().Err()) })
	return &http.Response{StatusCode: a.status, Header: a.sent, Body: body, Request: r}, nil
}

type answerer struct {
	header, sent http.Header
	status       int
	out          *io.PipeWriter
	began        chan struct{}
}

func (a *answerer) Header() http.Header { return a.header }

func (a *answerer) WriteHeader(status int) {
	if a.status == 0 {
		a.status, a.sent = status, a.header.Clone()
		close(a.began)
	}
}

func (a *answerer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.out.Write(b)
}

func wired(t *testing.T, handler http.Handler, options Options) *Client {
	t.Helper()
	options.Transport = wire{handler}
	c, err := Connect(t.Context(), "http://127.0.0.1:8080", options)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func keyOf(id string) dedup.Key {
	return dedup.Key{Consumer: "billing", Scope: "order.create", ID: id}
}

var keptFor = &dedup.Policy{Failures: 10, Lone: 3, Window: time.Hour}
