package programtest

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/onceward/onceward/examples/internal/billing"
)

// OtherSide is what orders are posted to. It answers each as its id says: those
// that begin with "slow-" when they are let go, "later-" with 503, "refused-"
// with 422.
type OtherSide struct {
	URL  string
	Slow chan struct{} // closed to let go

	mu    sync.Mutex
	calls map[string]int
	keys  map[string]string // Idempotency-Key by order
}

// OpenOtherSide returns one that is closed at the end of the test.
func OpenOtherSide(t *testing.T) *OtherSide {
	t.Helper()
	o := &OtherSide{Slow: make(chan struct{}), calls: map[string]int{}, keys: map[string]string{}}
	s := httptest.NewServer(http.HandlerFunc(o.answer))
	o.URL = s.URL
	t.Cleanup(s.Close)
	return o
}

func (o *OtherSide) answer(w http.ResponseWriter, r *http.Request) {
	var order billing.Order
	if err := json.NewDecoder(r.Body).Decode(&order); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	o.mu.Lock()
	o.calls[order.ID]++
	o.keys[order.ID] = r.Header.Get("Idempotency-Key")
	o.mu.Unlock()
	switch kind, _, _ := strings.Cut(order.ID, "-"); kind {
	case "slow":
		select {
		case <-o.Slow:
		case <-r.Context().Done():
		}
	case "later":
		w.WriteHeader(http.StatusServiceUnavailable)
	case "refused":
		w.WriteHeader(http.StatusUnprocessableEntity)
	}
}

// Calls is how often an order was posted.
func (o *OtherSide) Calls(id string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.calls[id]
}

// All is how often each order was posted.
func (o *OtherSide) All() map[string]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.calls)
}

// IdempotencyKey is what an order was posted with last.
func (o *OtherSide) IdempotencyKey(id string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.keys[id]
}
