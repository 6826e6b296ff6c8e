package cli

import (
	"context"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/memstore"
)

// lettersNamed is a dead-letter topic with letters of these ids.
type lettersNamed struct {
	deadletter.Broker
	ids []string
}

func (b lettersNamed) Browse(_ context.Context, topic string, _ brokers.From) iter.Seq2[*brokers.Delivery, error] {
	return func(yield func(*brokers.Delivery, error) bool) {
		for i, id := range b.ids {
			out := deadletter.Encode(deadletter.Letter{
				ID: id, Consumer: "billing", Reason: deadletter.ReasonTerminal, Run: 1,
				Key: dedup.Key{Consumer: "billing", Scope: "order.create", ID: id}, Source: deadletter.Source{Topic: "orders"},
			}, topic)
			if !yield(&brokers.Delivery{Lane: &brokers.Lane{Topic: topic, Source: topic}, Offset: int64(i), Value: out.Value, Headers: out.Headers}, nil) {
				return
			}
		}
	}
}

func TestALetterIsNamedByAPrefixThatNoOtherHas(t *testing.T) {
	one, other, third := "0123456789"+strings.Repeat("a", 22), "0123456789"+strings.Repeat("b", 22), "01234567ff"+strings.Repeat("0", 22)
	s := &session{queue: deadletter.Queue{Topic: "dlq", Consumer: "billing", Broker: lettersNamed{ids: []string{one, other, third}}, Store: memstore.New()}}
	got, err := s.whole(t.Context(), []string{one[:11], third[:9], third, "99999999"})
	if want := []string{one, third, third, "99999999"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	if _, err := s.whole(t.Context(), []string{one[:10]}); code(err) != Usage || !strings.Contains(err.Error(), one) || !strings.Contains(err.Error(), other) {
		t.Errorf("%v, want both that begin so", err)
	}
}

func TestOneIsNotMany(t *testing.T) {
	for want, got := range map[string]string{"1 letter": counted(1, "letter"), "2 letters": counted(2, "letter"), "1 copy": counted(1, "copy"), "0 copies": counted(0, "copy")} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
