package boltstore

import (
	"encoding/binary"
	"math/bits"
	"time"

	"github.com/dchest/siphash"
	"github.com/onceward/onceward/dedup"
)

// dictionary numbers what repeats from record to record, from 1: routes
// (consumer and scope), sources and windows. It only grows; a holder of a copy
// sees what was there when it was made.
type dictionary struct {
	words   []word
	places  map[string]uint32 // only the writer's
	windows int               // how many of the words are windows
	fold    func(hash) hash   // for tests: has keys collide
}

type word struct {
	kind            byte
	consumer, scope string // of a route
	source          string
	window          time.Duration
	k0, k1          uint64 // key of the hashes of this route's ids
}

// Kinds of words; on disk: never renumber.
const (
	wordRoute  byte = 'r'
	wordSource byte = 's'
	wordWindow byte = 'w'
)

// maxWords bounds the dictionary. Who makes scopes out of data fills it; the
// rest is then written in full.
const maxWords = 1 << 16

func routeWord(consumer, scope string) []byte {
	b := append(make([]byte, 0, 2+len(consumer)+len(scope)), wordRoute, byte(len(consumer)))
	return append(append(b, consumer...), scope...)
}

func sourceWord(source string) []byte {
	return append(append(make([]byte, 0, 1+len(source)), wordSource), source...)
}

func windowWord(w time.Duration) []byte {
	return binary.BigEndian.AppendUint64([]byte{wordWindow}, uint64(w))
}

func parseWord(b []byte) (word, error) {
	r := reader{b: b}
	w := word{kind: r.byte()}
	switch w.kind {
	case wordRoute:
		w.consumer = string(r.take(uint64(r.byte())))
		w.scope = string(r.take(uint64(len(r.b))))
	case wordSource:
		w.source = string(r.take(uint64(len(r.b))))
	case wordWindow:
		v := r.take(8)
		if v == nil {
			return w, errRow
		}
		w.window = time.Duration(binary.BigEndian.Uint64(v))
	default:
		return w, errRow
	}
	if !r.ok() || w.window < 0 {
		return w, errRow
	}
	return w, nil
}

// add takes a word over under the next number.
func (d *dictionary) add(s secret, b []byte) error {
	w, err := parseWord(b)
	if err != nil {
		return err
	}
	switch w.kind {
	case wordRoute:
		w.k0, w.k1 = s.route(b)
	case wordWindow:
		d.windows++
	}
	d.words = append(d.words, w)
	if d.places == nil {
		d.places = make(map[string]uint32)
	}
	d.places[string(b)] = uint32(len(d.words))
	return nil
}

// cut forgets the words from n on: their commit failed.
func (d *dictionary) cut(n int) {
	for k, v := range d.places {
		if int(v) > n {
			delete(d.places, k)
		}
	}
	for _, w := range d.words[n:] {
		if w.kind == wordWindow {
			d.windows--
		}
	}
	d.words = d.words[:n:n]
}

func (d *dictionary) get(ref uint32, kind byte, r *reader) *word {
	if ref == 0 || int(ref) > len(d.words) || d.words[ref-1].kind != kind {
		r.fail()
		return &word{}
	}
	return &d.words[ref-1]
}

func (d *dictionary) source(ref uint32, r *reader) string { return d.get(ref, wordSource, r).source }

func (d *dictionary) window(ref uint32, r *reader) time.Duration {
	return d.get(ref, wordWindow, r).window
}

// classWindow is the window of a class, 0 for the one that is kept for ever.
func (d *dictionary) classWindow(class uint32) time.Duration {
	if class == 0 || int(class) > len(d.words) {
		return 0
	}
	return d.words[class-1].window
}

// maxWindows bounds the classes of exact windows; see rounded.
const maxWindows = 64

// rounded is the window of the class that takes records with window w when
// there are many different windows: up to a quarter longer.
func rounded(w time.Duration) time.Duration {
	n := bits.Len64(uint64(w))
	if n <= 3 {
		return w
	}
	step := uint64(1) << (n - 3)
	return time.Duration(min((uint64(w)+step-1)/step*step, 1<<63-1))
}

// secret keys the hashes of one file, so that nobody can make keys that
// collide.
type secret [16]byte

// route derives the key for the ids of one route.
func (s secret) route(word []byte) (k0, k1 uint64) {
	return siphash.Hash128(binary.LittleEndian.Uint64(s[:8]), binary.LittleEndian.Uint64(s[8:]), word)
}

func (d *dictionary) hashID(k0, k1 uint64, id []byte) (h hash) {
	if h[0], h[1] = siphash.Hash128(k0, k1, id); d.fold != nil {
		h = d.fold(h)
	}
	return h
}

// hashOf is for a key whose route may not be in the dictionary. buf is for it
// to work in.
func (d *dictionary) hashOf(s secret, key *dedup.Key, buf *[]byte) (hash, uint32) {
	*buf = append((*buf)[:0], wordRoute, byte(len(key.Consumer)))
	*buf = append(append(*buf, key.Consumer...), key.Scope...)
	ref := d.places[string(*buf)]
	var k0, k1 uint64
	if ref != 0 {
		k0, k1 = d.words[ref-1].k0, d.words[ref-1].k1
	} else {
		k0, k1 = s.route(*buf)
	}
	*buf = append((*buf)[:0], key.ID...)
	return d.hashID(k0, k1, *buf), ref
}

// hashOf is the hash of an entry's key.
func (e *entry) hashOf(s secret, d *dictionary) (hash, error) {
	if e.route == 0 {
		k0, k1 := s.route(routeWord(string(e.consumer), string(e.scope)))
		return d.hashID(k0, k1, e.id), nil
	}
	var r reader
	w := d.get(e.route, wordRoute, &r)
	if r.bad {
		return hash{}, errRow
	}
	return d.hashID(w.k0, w.k1, e.id), nil
}

// key is an entry's key, in memory of its own.
func (e *entry) key(d *dictionary) (dedup.Key, error) {
	if e.route == 0 {
		return dedup.Key{Consumer: string(e.consumer), Scope: string(e.scope), ID: string(e.id)}, nil
	}
	var r reader
	w := d.get(e.route, wordRoute, &r)
	if r.bad {
		return dedup.Key{}, errRow
	}
	return dedup.Key{Consumer: w.consumer, Scope: w.scope, ID: string(e.id)}, nil
}

// is says whether the entry is of this key.
func (e *entry) is(key *dedup.Key, d *dictionary) bool {
	if string(e.id) != key.ID {
		return false
	}
	if e.route == 0 {
		return string(e.consumer) == key.Consumer && string(e.scope) == key.Scope
	}
	var r reader
	w := d.get(e.route, wordRoute, &r)
	return !r.bad && w.consumer == key.Consumer && w.scope == key.Scope
}
