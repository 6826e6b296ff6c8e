package boltstore

import (
	"cmp"
	"math/bits"
	"slices"
)

// place is where an entry lies: its segment in the upper half, its number in
// the segment in the lower. Segments count from 1, so 0 is nowhere.
type place uint64

func placeOf(segment, n uint32) place { return place(segment)<<32 | place(n) }
func (p place) segment() uint32       { return uint32(p >> 32) }
func (p place) n() uint32             { return uint32(p) }

// hash is the keyed 128-bit hash of a key.
type hash [2]uint64

// index maps the hash of every key that has a record to the place of its
// newest entry. Two keys may share a hash: whoever looks up compares the key in
// the entry.
//
// It is 512 tables that grow by a quarter each, on their own: nothing doubles
// at once, and a growing table stops its caller for well under a millisecond up
// to ten million records. A slot is 24 bytes and a table is 60 to 75 % full,
// which makes 32 to 40 bytes a record. No pointers, so the collector does not
// look inside.
type index struct {
	tables  [512]table
	records int
}

type table struct {
	slots []slot
	used  int
}

type slot struct {
	h  hash
	at place
}

func (x *index) table(h hash) *table { return &x.tables[h[0]>>55] }

func (t *table) home(h hash) int {
	hi, _ := bits.Mul64(h[1], uint64(len(t.slots)))
	return int(hi)
}

// find appends the places of all keys with this hash to buf: one, as good as
// always.
func (x *index) find(h hash, buf []place) []place {
	t := x.table(h)
	if t.used == 0 {
		return buf
	}
	for i := t.home(h); t.slots[i].at != 0; {
		if t.slots[i].h == h {
			buf = append(buf, t.slots[i].at)
		}
		if i++; i == len(t.slots) {
			i = 0
		}
	}
	return buf
}

// near reads the slot where a search for h begins. A search waits for memory most
// of its time; reads in a row, none of which needs the one before, wait together.
func (x *index) near(h hash) place {
	t := x.table(h)
	if len(t.slots) == 0 {
		return 0
	}
	return t.slots[t.home(h)].at
}

// has says whether a key with this hash is at a place.
func (x *index) has(h hash, at place) bool {
	t := x.table(h)
	if t.used == 0 {
		return false
	}
	for i := t.home(h); t.slots[i].at != 0; {
		if t.slots[i].at == at && t.slots[i].h == h {
			return true
		}
		if i++; i == len(t.slots) {
			i = 0
		}
	}
	return false
}

// move makes the key that was at old be at now. With old 0 it is a new key,
// with now 0 it is gone. It reports whether old was there.
func (x *index) move(h hash, old, now place) bool {
	t := x.table(h)
	if old == 0 {
		if now != 0 {
			x.insert(t, slot{h, now})
		}
		return true
	}
	if t.used == 0 {
		return false
	}
	for i := t.home(h); t.slots[i].at != 0; {
		if t.slots[i].h == h && t.slots[i].at == old {
			if now != 0 {
				t.slots[i].at = now
				return true
			}
			t.remove(i)
			x.records--
			if t.used*4 < len(t.slots) && len(t.slots) > 8 {
				t.resize(max(8, t.used*2))
			}
			return true
		}
		if i++; i == len(t.slots) {
			i = 0
		}
	}
	return false
}

// expect makes room for so many records.
func (x *index) expect(records int) {
	per := records / len(x.tables)
	for i := range x.tables {
		x.tables[i].resize(max(8, per+per*2/5))
	}
}

func (x *index) insert(t *table, s slot) {
	if (t.used+1)*4 > len(t.slots)*3 {
		t.resize(max(8, len(t.slots)+len(t.slots)/4))
	}
	t.put(s)
	t.used++
	x.records++
}

func (t *table) put(s slot) {
	i := t.home(s.h)
	for t.slots[i].at != 0 {
		if i++; i == len(t.slots) {
			i = 0
		}
	}
	t.slots[i] = s
}

// remove empties slot i and moves those behind it that may move up, so that no
// search ends too early.
func (t *table) remove(i int) {
	n := len(t.slots)
	for j := i; ; {
		if j++; j == n {
			j = 0
		}
		if t.slots[j].at == 0 {
			break
		}
		fromHome := j - t.home(t.slots[j].h)
		if fromHome < 0 {
			fromHome += n
		}
		fromHole := j - i
		if fromHole < 0 {
			fromHole += n
		}
		if fromHome >= fromHole {
			t.slots[i] = t.slots[j]
			i = j
		}
	}
	t.slots[i] = slot{}
	t.used--
}

// resize gives t room for n slots.
func (t *table) resize(n int) {
	old := t.slots
	t.slots = make([]slot, n)
	for _, s := range old {
		if s.at != 0 {
			t.put(s)
		}
	}
}

// hashes returns the hashes in table i, each once, for walks that must not
// hold up writers.
func (x *index) hashes(i int, buf []hash) []hash {
	for _, s := range x.tables[i].slots {
		if s.at != 0 {
			buf = append(buf, s.h)
		}
	}
	slices.SortFunc(buf, func(a, b hash) int {
		return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
	})
	return slices.Compact(buf)
}
