package deadletter_test

import (
	"testing"

	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup/memstore"
)

// The first page of a topic of ten million letters must not cost reading it.
func TestTheFirstPageReadsNoMoreThanItNeeds(t *testing.T) {
	made := 0
	broker := &endless{count: 10_000_000, letter: func(i int) deadletter.Letter {
		made++
		return numbered(i, "refused")
	}}
	q := deadletter.Queue{Topic: "dlq", Consumer: "billing", Broker: broker, Store: memstore.New()}
	found := 0
	for e, err := range q.Letters(t.Context(), deadletter.Filter{Limit: 100}) {
		if err != nil {
			t.Fatal(err)
		}
		if found++; e.Letter.ID != numbered(found-1, "").ID {
			t.Fatalf("letter %d is %s", found, e.Letter.ID)
		}
	}
	if found != 100 || made > 200 {
		t.Errorf("%d letters found, %d read", found, made)
	}
	// Who stops early stops the reading, too.
	made, found = 0, 0
	for _, err := range q.Letters(t.Context(), deadletter.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if found++; found == 5 {
			break
		}
	}
	if made > 1000 {
		t.Errorf("%d letters read for 5", made)
	}
}
