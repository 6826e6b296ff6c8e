package consumer

import (
	"testing"

	"github.com/onceward/onceward/dedup"
)

func TestAnOutputIDNamesOneMessageOfOneRun(t *testing.T) {
	key := dedup.Key{Consumer: "billing", Scope: "order.create", ID: "ord-1"}
	ids := map[string]bool{}
	for _, id := range []string{
		outputID(key, 7, 0), outputID(key, 7, 1), outputID(key, 7, -1), outputID(key, 8, 0),
		outputID(dedup.Key{Consumer: "billing", Scope: "order.createo", ID: "rd-1"}, 7, 0),
		outputID(dedup.Key{Consumer: "billingo", Scope: "rder.create", ID: "ord-1"}, 7, 0),
	} {
		if len(id) != 32 || ids[id] {
			t.Errorf("%q is not 32 digits of its own", id)
		}
		ids[id] = true
	}
	// Readers keep ids for longer than a release: they never change.
	if got := outputID(key, 7, 0); got != "e612c634ce12b474aafd4d607c04e4fd" {
		t.Errorf("got %s", got)
	}
}
