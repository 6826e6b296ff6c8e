package boltstore

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/onceward/onceward/dedup"
)

// A commit writes its pages, syncs, writes its meta page, and syncs. So what
// the power can leave of it follows from the file before and after: some of
// the sectors of the pages and the old meta page, or all of them and either
// meta page.
func TestAPowerCutLosesNothingThatWasAcknowledged(t *testing.T) {
	s := newStore(t, func(o *Options) { o.entries = 40 })
	r := rand.New(rand.NewPCG(3, 4))
	complete(t, s, 0, 30)
	before := readFile(t, s.path)
	page := int(readMetas(bytes.NewReader(before), int64(len(before)))[0].page)
	const cuts = 100
	for n := 0; n < cuts; {
		// Two commits: what is acknowledged after the first, before the second.
		ids := 1 + r.IntN(30)
		first := 1000 * (n + 1)
		complete(t, s, first, ids)
		acknowledged := readFile(t, s.path)
		open := claim(fmt.Sprint("open ", n), uint64(900_000+n))
		apply(t, s, open)
		if n%3 == 0 {
			if _, err := s.Sweep(t.Context(), 10); err != nil {
				t.Fatal(err)
			}
		}
		after := used(readFile(t, s.path))
		for range 4 {
			cut := make([]byte, len(after))
			copy(cut, acknowledged)
			meta := r.IntN(3) // 0: the pages are not synced
			for at := 2 * page; at < len(after); at += 512 {
				if end := at + 512; !bytes.Equal(cut[at:end], after[at:end]) && (meta > 0 || r.IntN(2) == 0) {
					copy(cut[at:end], after[at:end])
				}
			}
			if meta == 2 {
				copy(cut[:2*page], after[:2*page])
			}
			checkCut(t, cut, first, ids, open.Key, meta == 2)
			n++
		}
	}
}

func checkCut(t *testing.T, file []byte, first, ids int, open dedup.Key, whole bool) {
	t.Helper()
	s, err := Open(writeFile(t, file), Options{Logger: quiet, noSync: true})
	if err != nil {
		t.Fatalf("open after the cut: %v", err)
	}
	defer s.Close()
	if s.Info().Unconfirmed {
		t.Errorf("a power cut leaves the file in doubt")
	}
	for i := first; i < first+ids; i++ {
		if r := lookup(t, s, fmt.Sprint(i)); r.State != dedup.Succeeded {
			t.Fatalf("%d was completed and is %s", i, r.State)
		}
	}
	r, err := s.Lookup(t.Context(), []dedup.Key{open})
	if err != nil {
		t.Fatal(err)
	}
	if (r[0].State == dedup.InProgress) != whole || r[0].Live {
		t.Errorf("the last claim is %s, live %v, and its commit was whole: %v", r[0].State, r[0].Live, whole)
	}
	complete(t, s, 500_000, 3)
}
