package boltstore

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/onceward/onceward/dedup"
	bolt "go.etcd.io/bbolt"
)

// batch is one commit in the making. What it changes outside the transaction
// is copies, which the store takes over when the commit has happened; see
// Store.install.
type batch struct {
	s        *Store
	tx       *bolt.Tx
	top, log *bolt.Bucket
	now      time.Time
	state    state
	words    *dictionary // the store's own: words added are cut when the commit fails
	segments map[uint32]*openSegment
	prefixes map[lane]int64
	dropped  []uint32 // segments
	added    int      // keys that had no record before
	dirty    bool
	key      [4]byte

	// What was looked up in the dictionary last: mostly the same again.
	lastRoute      uint32
	lastWindow     time.Duration
	lastClass      uint32
	lastSource     string
	lastSourceWord uint32
}

// openSegment is a segment as this commit leaves it.
type openSegment struct {
	segment
	bucket *bolt.Bucket
	dirty  bool
	// block gathers entries from number first on, before bbolt is given them.
	block block
	first uint32
}

// held is a record that this commit has looked at.
type held struct {
	rec   dedup.Record
	h     hash
	route uint32
	base  place // of its newest entry as committed; 0: it has none
	at    place // the same as this commit leaves it
	moved bool  // this commit has written an entry of it
	next  *held // another key with the same hash
}

// scratch is memory that batches hand on to each other.
type scratch struct {
	held   []held
	byHash map[hash]*held
	moved  []*held
	row    []byte
	ahead  [ahead]hashed
	near   place // only so that lookAhead's reads are not left out
}

// keptHeld bounds what scratch keeps: a record is 0.7 KB here.
const keptHeld = 1 << 12

// trim lets go of what a usual batch does not need.
func (c *scratch) trim() {
	if cap(c.held) > keptHeld {
		*c = scratch{}
	}
}

func (c *scratch) reset() {
	clear(c.held)
	c.held, c.moved = c.held[:0], c.moved[:0]
	if c.byHash == nil {
		c.byHash = make(map[hash]*held)
	}
	clear(c.byHash)
}

func (c *scratch) one() *held {
	if len(c.held) == cap(c.held) {
		// The old ones stay where they are.
		c.held = make([]held, 0, max(64, 2*cap(c.held)))
	}
	c.held = c.held[:len(c.held)+1]
	return &c.held[len(c.held)-1]
}

func (s *Store) begin(tx *bolt.Tx) (*batch, error) {
	s.arena.reset()
	s.scratch.reset()
	b := &batch{
		s: s, tx: tx, now: s.clock.now(), state: s.state, words: s.dict, segments: make(map[uint32]*openSegment, 4),
		top: tx.Bucket(bucketTop),
	}
	if b.top != nil {
		b.log = b.top.Bucket(bucketLog)
	}
	if b.log == nil {
		return nil, s.damaged("its tables are gone")
	}
	return b, nil
}

// segment returns a segment as of now; nil when there is none.
func (b *batch) segment(no uint32) *openSegment {
	if g := b.segments[no]; g != nil {
		return g
	}
	old := b.s.segments[no]
	if old == nil {
		return nil
	}
	g := &openSegment{segment: *old, bucket: b.log.Bucket(segmentKey(no))}
	if g.bucket == nil {
		return nil
	}
	g.bucket.FillPercent = 1 // keys only grow, so pages can be full
	b.segments[no] = g
	return g
}

// open returns the segment that takes the next entry of a class.
func (b *batch) open(class uint32) (*openSegment, error) {
	if no := b.s.current[class]; no != 0 {
		g := b.segment(no)
		if g == nil {
			return nil, b.s.segmentGone(no)
		}
		aged := class != 0 && b.now.Sub(time.Unix(0, g.base)) >= period(b.words.classWindow(class))
		if !g.closed && g.count < b.s.options.entries && !aged {
			return g, nil
		}
		g.closed, g.dirty = true, true
	}
	no := b.state.segment
	bucket, err := b.log.CreateBucket(segmentKey(no))
	if err != nil {
		return nil, fmt.Errorf("begin a segment: %w", err)
	}
	bucket.FillPercent = 1
	g := &openSegment{
		segment: segment{no: no, class: class, seq: b.state.seq, base: b.now.UnixNano()}, bucket: bucket, dirty: true,
	}
	b.state.segment++
	b.segments[no] = g
	b.s.current[class] = no
	return g, nil
}

func (b *batch) numbered(n uint32) []byte {
	binary.BigEndian.PutUint32(b.key[:], n)
	return b.key[:]
}

// ahead is how many operations are looked at before the first of them is done:
// more than memory serves at once.
const ahead = 64

// hashed is what is known of an operation before it is done.
type hashed struct {
	err   error // it is invalid
	h     hash
	route uint32 // in the dictionary, 0 where it is not there
}

// lookAhead checks operations, and reads their places in the index so that the
// searches that follow find them in the processor's cache.
func (b *batch) lookAhead(ops []dedup.Op) {
	c := &b.s.scratch
	for i := range ops {
		k := &c.ahead[i]
		if k.err = ops[i].Validate(); k.err == nil {
			k.h, k.route = b.route(&ops[i].Key)
		}
	}
	for i := range ops {
		c.near += b.s.index.near(c.ahead[i].h)
	}
}

// route hashes a key. The route is looked up once for all keys in a row that
// share it.
func (b *batch) route(key *dedup.Key) (hash, uint32) {
	c := &b.s.scratch
	if w := b.lastRoute; w != 0 {
		if word := &b.words.words[w-1]; word.consumer == key.Consumer && word.scope == key.Scope {
			c.row = append(c.row[:0], key.ID...)
			return b.words.hashID(word.k0, word.k1, c.row), w
		}
	}
	h, w := b.words.hashOf(b.state.secret, key, &c.row)
	b.lastRoute = w
	return h, w
}

// locate finds a key's record, or makes an absent one.
func (b *batch) locate(key *dedup.Key, k *hashed) (*held, error) {
	x, known := b.hold(k.h, k.route, key)
	if known {
		return x, nil
	}
	var buf [4]place
	for _, at := range b.s.index.find(k.h, buf[:0]) {
		e, g, err := b.entry(at)
		if err != nil {
			return nil, err
		}
		if e.is(key, b.words) { // otherwise another key with this hash
			return x, b.fill(x, &e, g, at)
		}
	}
	return x, nil
}

// hold returns what this commit holds of a key, and whether it did before.
func (b *batch) hold(h hash, route uint32, key *dedup.Key) (x *held, known bool) {
	c := &b.s.scratch
	first := c.byHash[h]
	for x := first; x != nil; x = x.next {
		if x.rec.Key == *key {
			return x, true
		}
	}
	x = c.one()
	x.h, x.route, x.next, x.rec.Key = h, route, first, *key
	c.byHash[h] = x
	return x, false
}

// fill reads a key's record from its newest entry.
func (b *batch) fill(x *held, e *entry, g *openSegment, at place) error {
	if err := e.record(&x.rec, g.base, b.words); err != nil {
		return b.s.damagedAt(at, err)
	}
	x.rec.Live = b.s.live(&x.rec, e.seq, b.now)
	x.base, x.at = at, at
	return nil
}

// live says whether a record's lease runs: begun since the file was opened, and
// not over by the store's clock.
func (s *Store) live(r *dedup.Record, seq uint64, now time.Time) bool {
	return r.State == dedup.InProgress && r.Live && seq >= s.session && now.Before(r.LeaseUntil)
}

// entry reads the entry at a place.
func (b *batch) entry(at place) (e entry, g *openSegment, err error) {
	g = b.segment(at.segment())
	if g == nil {
		return e, nil, b.s.segmentGone(at.segment())
	}
	row := b.s.recent.get(at)
	if row == nil {
		row = entryIn(g.bucket, b.numbered(at.n()))
	}
	if row == nil {
		return e, nil, b.s.goneAt(at)
	}
	if e, _, err = parse(row, &g.segment, at); err != nil {
		return e, nil, b.s.damagedAt(at, err)
	}
	return e, g, nil
}

// write appends what has become of x.
func (b *batch) write(x *held) error {
	gone := x.rec.State == dedup.Absent
	if gone && x.at == 0 {
		return nil
	}
	class := uint32(0)
	if x.at != 0 {
		class = b.segment(x.at.segment()).class
	}
	if !gone {
		want, err := b.class(&x.rec)
		if err != nil {
			return err
		}
		if x.at != 0 && want != class {
			// Its entries in the old class end here: each class is dropped at
			// its own pace.
			if err := b.append(x, class, entryGone); err != nil {
				return err
			}
		}
		class = want
	}
	kind := entryRecord
	if gone {
		kind = entryGone
	}
	return b.append(x, class, kind)
}

func (b *batch) append(x *held, class uint32, kind entryKind) error {
	g, err := b.open(class)
	if err != nil {
		return err
	}
	if x.route == 0 {
		if x.route, err = b.word(routeWord(x.rec.Key.Consumer, x.rec.Key.Scope)); err != nil {
			return err
		}
	}
	at := placeOf(g.no, g.count)
	row := appendEntry(b.s.scratch.row[:0], kind, &g.segment, b.state.seq, x.at, x.route, &x.rec.Key)
	if kind == entryRecord {
		source, err := b.source(x.rec.Source.Source)
		if err != nil {
			return err
		}
		row = appendRecord(row, &x.rec, g.base, source, b.window(x.rec.Window))
	}
	row = sealEntry(row, 0, at)
	b.s.scratch.row = row
	if len(g.block)+len(row) > blockBytes {
		if err := b.flush(g); err != nil {
			return err
		}
	}
	if len(g.block) == 0 {
		g.first = g.count
	}
	g.block = g.block.appended(row)
	b.s.recent.put(at, &x.rec, row)
	g.link(binary.LittleEndian.Uint32(row[len(row)-sumSize:]))
	g.dirty, b.dirty = true, true
	b.state.seq++
	b.move(x)
	if x.at = at; kind == entryGone {
		x.at = 0
	}
	return nil
}

// flush hands the gathered entries to bbolt.
func (b *batch) flush(g *openSegment) error {
	if len(g.block) == 0 {
		return nil
	}
	if err := g.bucket.Put(b.numbered(g.first), b.s.arena.keep(g.block)); err != nil {
		return fmt.Errorf("append entries: %w", err)
	}
	g.block = g.block[:0]
	return nil
}

// move has the index follow x when the commit has happened.
func (b *batch) move(x *held) {
	if x.moved {
		return
	}
	x.moved = true
	b.s.scratch.moved = append(b.s.scratch.moved, x)
	if x.base == 0 {
		b.added++
	}
}

// class is where a record's entries go.
func (b *batch) class(r *dedup.Record) (uint32, error) {
	w := r.Window
	if w <= 0 || r.State == dedup.Tombstone {
		return 0, nil
	}
	if w == b.lastWindow {
		return b.lastClass, nil
	}
	word := windowWord(w)
	if b.words.places[string(word)] == 0 && b.words.windows >= maxWindows {
		word = windowWord(rounded(w))
	}
	class, err := b.word(word)
	b.lastWindow, b.lastClass = w, class
	return class, err
}

// window is the place of a window in the dictionary, 0 where it is not there.
func (b *batch) window(w time.Duration) uint32 {
	if w == b.lastWindow && b.words.classWindow(b.lastClass) == w {
		return b.lastClass
	}
	return b.words.places[string(windowWord(w))]
}

func (b *batch) source(name string) (n uint32, err error) {
	if name == "" {
		return 0, nil
	}
	if name == b.lastSource {
		return b.lastSourceWord, nil
	}
	n, err = b.word(sourceWord(name))
	b.lastSource, b.lastSourceWord = name, n
	return n, err
}

// word returns the number of a word, giving it one if there is room.
func (b *batch) word(w []byte) (uint32, error) {
	if n := b.words.places[string(w)]; n != 0 {
		return n, nil
	}
	switch {
	case len(b.words.words) >= maxWords && w[0] != wordWindow:
		return 0, nil
	case len(w) > maxWord:
		return 0, nil
	}
	if err := b.words.add(b.state.secret, w); err != nil {
		return 0, err
	}
	n := uint32(len(b.words.words))
	return n, b.put(bucketDictionary, tableDictionary, binary.BigEndian.AppendUint32(nil, n), append([]byte(nil), w...))
}

// maxWord is more than any consumer and scope, or a source, have.
const maxWord = 2 << 10

// put seals a row and stores it in one of the small tables; nil removes it.
func (b *batch) put(bucket []byte, table byte, key, row []byte) error {
	if row != nil {
		row = seal(row, 0, table, key)
	}
	return b.putSealed(bucket, table, key, row)
}

func (b *batch) putSealed(bucket []byte, table byte, key, row []byte) error {
	t := b.top.Bucket(bucket)
	if t == nil {
		return b.s.damaged(fmt.Sprintf("table %q is gone", bucket))
	}
	tally := b.state.tally(table)
	if old := t.Get(key); old != nil {
		_, sum, err := unseal(old, table, key)
		if err != nil {
			return b.s.damaged(fmt.Sprintf("table %q, row %x: %v", bucket, key, err))
		}
		tally.cut(sum)
	} else if row == nil {
		return nil
	}
	b.dirty = true
	if row == nil {
		return t.Delete(key)
	}
	tally.put(binary.LittleEndian.Uint32(row[len(row)-sumSize:]))
	return t.Put(key, row)
}

// finish writes what the entries changed around them. The state comes last
// because it sums up the rest.
func (b *batch) finish() error {
	for _, g := range b.segments { // those dropped are not dirty
		if !g.dirty {
			continue
		}
		if err := b.flush(g); err != nil {
			return err
		}
		if err := b.putSealed(bucketSegments, tableSegments, segmentKey(g.no), g.row()); err != nil {
			return err
		}
	}
	for _, x := range b.s.scratch.moved {
		switch {
		case x.base == 0 && x.at != 0:
			b.state.records++
		case x.base != 0 && x.at == 0:
			b.state.records--
		}
	}
	b.state.commits++
	b.state.clock = max(b.state.clock, b.now.UnixNano())
	t := b.top.Bucket(bucketState)
	if t == nil {
		return b.s.damaged("its state is gone")
	}
	return t.Put(keyState, b.state.row())
}
