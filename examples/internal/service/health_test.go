package service

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup"
)

func TestTheStatusSaysWhatIsPausedAndByWhom(t *testing.T) {
	at := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	r := httptest.NewRecorder()
	describe(r, consumer.Status{Live: true, Paused: []dedup.Pause{
		{Consumer: "billing", Since: at, Who: "ann", Why: "release"}, {Consumer: "billing", Scope: "order.create", Since: at, Who: "bob", Why: "bank"},
	}}, nil)
	const want = `"paused":[{"since":"2026-03-01T10:00:00Z","who":"ann","why":"release"},{"scope":"order.create","since":"2026-03-01T10:00:00Z","who":"bob","why":"bank"}]`
	if !strings.Contains(r.Body.String(), want) {
		t.Errorf("%s lacks %s", r.Body, want)
	}
	r = httptest.NewRecorder()
	if describe(r, consumer.Status{Live: true}, nil); strings.Contains(r.Body.String(), "paused") {
		t.Errorf("nothing is paused: %s", r.Body)
	}
}
