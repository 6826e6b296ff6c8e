package digest_test

import (
	"testing"

	"github.com/onceward/onceward/internal/digest"
)

func TestDifferentPartsAreDifferentIDs(t *testing.T) {
	of := func() digest.Parts { return digest.Of("kind") }
	seen := map[string]bool{}
	for _, id := range []string{
		of().ID(), digest.Of("kin").Text("d").ID(), of().Text("").ID(), of().Text("ab").Text("c").ID(),
		of().Text("a").Text("bc").ID(), of().Signed(1).ID(), of().Signed(-1).ID(), of().Number(1 << 60).ID(),
	} {
		if len(id) != 32 || seen[id] {
			t.Errorf("%q is not 32 digits of its own", id)
		}
		seen[id] = true
	}
	// Readers keep ids for longer than a release: they never change.
	if got := of().Text("a").Number(300).Signed(-2).ID(); got != "886906f4f4676d9a3863a26d96dbe825" {
		t.Errorf("got %s", got)
	}
}
