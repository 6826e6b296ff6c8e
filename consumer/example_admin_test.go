package consumer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"

	"github.com/onceward/onceward/brokers/membroker"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup/memstore"
)

// The operator's interface beside the health endpoints. Without tokens it serves
// only this machine, so that a forwarded port is enough and nobody else gets in.
func ExampleConsumer_Admin() {
	type Order struct {
		ID string `json:"order_id"`
	}
	c, err := consumer.New(consumer.Config{
		Name: "billing", Broker: membroker.New(membroker.Config{}), Topics: []string{"orders"}, StartFrom: consumer.Earliest,
		Store: memstore.New(), Logger: slog.New(slog.DiscardHandler),
	}, consumer.JSON("order.create", func(o Order) string { return o.ID }, func(context.Context, Order) error { return nil }))
	if err != nil {
		fmt.Println(err)
		return
	}
	admin, err := c.Admin(consumer.AdminConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/v1/", admin)
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		if !c.Status().Live {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	server := httptest.NewServer(mux) // http.ListenAndServe("127.0.0.1:8080", mux)
	defer server.Close()

	// What "onceward --via" asks, and curl may:
	answer, err := http.Get(server.URL + "/v1/consumer")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer answer.Body.Close()
	var told struct {
		Name   string
		Topics []struct {
			DeadLetter string `json:"dead_letter"`
		}
		You struct{ Who, Role string }
	}
	text, err := io.ReadAll(answer.Body)
	if err == nil {
		err = json.Unmarshal(text, &told)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(told.Name, told.Topics[0].DeadLetter, told.You.Who, told.You.Role)
	// Output: billing orders.billing.dlq local approve
}
