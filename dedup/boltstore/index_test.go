package boltstore

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/onceward/onceward/dedup"
)

// The index is compared with a map over random operations, with hashes that
// collide in part.
func TestIndexFindsWhatWasPutAndNothingElse(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	x := new(index)
	type entry struct {
		h  hash
		at place
	}
	known := map[entry]bool{}
	var list []entry
	next := place(1)
	for n := range 200_000 {
		switch grow := n/20_000%2 == 0; {
		case len(list) == 0 || r.IntN(3) == 0 || grow && r.IntN(2) == 0:
			e := entry{hash{r.Uint64() & (0xff << 55), r.Uint64N(50_000)}, next}
			next++
			x.move(e.h, 0, e.at)
			known[e], list = true, append(list, e)
		default:
			i := r.IntN(len(list))
			e := list[i]
			now := next
			if next++; r.IntN(3) > 0 {
				now = 0
			}
			if !x.move(e.h, e.at, now) {
				t.Fatalf("%v is not there", e)
			}
			delete(known, e)
			if list[i] = (entry{e.h, now}); now == 0 {
				list[i] = list[len(list)-1]
				list = list[:len(list)-1]
			} else {
				known[list[i]] = true
			}
			if x.move(e.h, e.at, 1) || x.has(e.h, e.at) {
				t.Fatalf("%v is still there", e)
			}
		}
		if x.records != len(list) {
			t.Fatalf("%d records, want %d", x.records, len(list))
		}
	}
	for e := range known {
		if !slices.Contains(x.find(e.h, nil), e.at) || !x.has(e.h, e.at) {
			t.Fatalf("%v is lost", e)
		}
	}
	found, bytes := 0, uintptr(0)
	for i := range x.tables {
		bytes += uintptr(len(x.tables[i].slots)) * unsafe.Sizeof(slot{})
		for _, h := range x.hashes(i, nil) {
			for _, at := range x.find(h, nil) {
				if !known[entry{h, at}] {
					t.Fatalf("%v was not put", h)
				}
				found++
			}
		}
	}
	if found != len(known) {
		t.Errorf("%d found, want %d", found, len(known))
	}
	if per := float64(bytes) / float64(max(x.records, 1)); x.records > 10_000 && per > IndexBytes*1.1 {
		t.Errorf("%.1f bytes a record", per)
	}
}

func TestKeysWithOneHashAreTwoKeys(t *testing.T) {
	collide := func(o *Options) {
		o.noSync, o.entries, o.hash = true, 20, func(h hash) hash { return hash{h[0] % 3, 0} }
	}
	s := newStore(t, collide)
	complete(t, s, 0, 60)
	ends := apply(t, s, claim("100", 1), claim("101", 2), claim("100", 3))
	if ends[0].Kind != dedup.Acquired || ends[1].Kind != dedup.Acquired || ends[2].Kind != dedup.Busy {
		t.Fatalf("claims of two keys: %v %v %v", ends[0].Kind, ends[1].Kind, ends[2].Kind)
	}
	skip := success(claim("101", 2), ends[1])
	skip.Outcome = dedup.Skip
	apply(t, s, skip)
	check := func() {
		t.Helper()
		for i := range 60 {
			if r := lookup(t, s, fmt.Sprint(i)); r.State != dedup.Succeeded || r.Source.Offset != int64(i+1) {
				t.Fatalf("record %d: %+v", i, r)
			}
		}
		if a, b := lookup(t, s, "100"), lookup(t, s, "101"); a.State != dedup.InProgress || b.State != dedup.Absent {
			t.Errorf("records %s and %s", a.State, b.State)
		}
		seen := 0
		for range s.Scan(t.Context(), "") {
			seen++
		}
		if seen != 61 {
			t.Errorf("a scan sees %d records", seen)
		}
	}
	check()
	s = again(t, s, collide)
	check()
	complete(t, s, 60, 60)
}
