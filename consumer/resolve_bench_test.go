package consumer

import (
	"context"
	"encoding/json"
	"testing"
)

type benchLine struct {
	SKU string `json:"sku"`
	Qty int    `json:"qty"`
}

type benchOrder struct {
	OrderID    string      `json:"order_id"`
	CustomerID string      `json:"customer_id"`
	Cents      int64       `json:"cents"`
	Currency   string      `json:"currency"`
	Created    string      `json:"created"`
	Lines      []benchLine `json:"lines"`
}

// 200 bytes, as in the project's other benchmarks.
const benchPayload = `{"order_id":"ord-000000012345","customer_id":"cust-0000000777","cents":1299,"currency":"EUR","created":"2026-03-01T10:11:12Z","lines":[{"sku":"A-100","qty":2},{"sku":"B-200","qty":1}],"note":"none"}`

func benchResolve(b *testing.B, r Route) {
	b.Helper()
	b.ReportAllocs()
	r.consumer = "billing"
	r.check(new(faults), "")
	d := Delivery{Value: []byte(benchPayload)}
	for b.Loop() {
		if _, _, _, err := r.resolve(&d); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkResolveField(b *testing.B) {
	benchResolve(b, Route{Scope: "order.create", ID: Field("order_id")})
}

func BenchmarkResolveJSON(b *testing.B) {
	benchResolve(b, JSON("order.create", func(o benchOrder) string { return o.OrderID }, func(context.Context, benchOrder) error { return nil }))
}

func BenchmarkResolveFields(b *testing.B) {
	benchResolve(b, Route{Scope: "order.create", ID: Field("order_id"), Order: Field("customer_id"), Fingerprint: Fields("order_id", "cents")})
}

// BenchmarkEncodingJSON is what the typed route is compared with.
func BenchmarkEncodingJSON(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		o := new(benchOrder)
		if err := json.Unmarshal([]byte(benchPayload), o); err != nil {
			b.Fatal(err)
		}
	}
}
