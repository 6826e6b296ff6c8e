package boltstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

// pages reads a bbolt file without trusting it: bbolt itself takes what a page
// says for granted, and on a damaged one it panics in a goroutine of its own,
// where nobody can recover. So every page that bbolt will follow is looked at
// here first: it is where it says, is referred to once, and its keys are in
// order and inside of the page and of what its parent promises.
//
// Source: go.etcd.io/bbolt 1.5, internal/common/{page,meta}.go, in the byte
// order of the machine.
type pages struct {
	f     io.ReaderAt
	size  int64
	page  int64 // size of one
	metas [2]metaPage
	live  *metaPage // the one that bbolt will use
	seen  []uint64  // bitmap of referenced pages

	window []byte // of the file, read ahead
	at     int64
}

type metaPage struct {
	err    error
	page   uint32
	root   uint64
	free   uint64
	high   uint64 // first page never used
	commit uint64
}

const (
	noFreelist  = ^uint64(0)
	pageHeader  = 16
	elementSize = 16
	flagBranch  = 1
	flagLeaf    = 2
	flagFree    = 16
	flagBucket  = 1 // of a leaf element
	metaSize    = 64
	minPage     = 1024
	maxPage     = 1 << 24
	readAhead   = 512 << 10
)

var native = binary.NativeEndian

func parseMeta(b []byte) metaPage {
	if len(b) < pageHeader+metaSize {
		return metaPage{err: errors.New("it is cut off")}
	}
	b = b[pageHeader:]
	if native.Uint32(b) != 0xED0CDAED || native.Uint32(b[4:]) != 2 {
		return metaPage{err: errors.New("it is not of a bbolt file")}
	}
	h := fnv.New64a()
	h.Write(b[:metaSize-8])
	if native.Uint64(b[metaSize-8:]) != h.Sum64() {
		return metaPage{err: errors.New("its checksum is wrong")}
	}
	m := metaPage{
		page: native.Uint32(b[8:]), root: native.Uint64(b[16:]), free: native.Uint64(b[32:]), high: native.Uint64(b[40:]),
		commit: native.Uint64(b[48:]),
	}
	if m.page < minPage || m.page > maxPage || m.page&(m.page-1) != 0 {
		m.err = fmt.Errorf("its page size %d is impossible", m.page)
	}
	return m
}

// readMetas finds both meta pages as bbolt does.
func readMetas(f io.ReaderAt, size int64) (m [2]metaPage) {
	b := make([]byte, pageHeader+metaSize)
	read := func(at int64) metaPage {
		n, err := f.ReadAt(b, at)
		if n < len(b) {
			return metaPage{err: fmt.Errorf("it cannot be read: %w", err)}
		}
		return parseMeta(b)
	}
	if m[0] = read(0); m[0].err == nil {
		m[1] = read(int64(m[0].page))
		if m[1].err == nil && m[1].page != m[0].page {
			m[1].err = errors.New("its page size is another")
		}
		return m
	}
	m[1] = metaPage{err: errors.New("it is nowhere")}
	for at := int64(minPage); at <= maxPage && at < size-minPage; at *= 2 {
		if x := read(at); x.err == nil && int64(x.page) == at {
			m[1] = x
			break
		}
	}
	return m
}

// newest is the meta page that bbolt will use: the valid one with the larger
// commit; nil when there is none.
func newest(m *[2]metaPage) *metaPage {
	a, b := &m[0], &m[1]
	if b.err == nil && (a.err != nil || b.commit > a.commit) {
		a = b
	}
	if a.err != nil {
		return nil
	}
	return a
}

func openPages(f io.ReaderAt, size int64) (*pages, error) {
	p := &pages{f: f, size: size, metas: readMetas(f, size)}
	if p.live = newest(&p.metas); p.live == nil {
		return nil, fmt.Errorf("neither meta page is valid: of the first %w; of the second %w", p.metas[0].err, p.metas[1].err)
	}
	p.page = int64(p.live.page)
	if p.live.high < 3 || p.live.high > uint64(size/p.page) {
		return nil, fmt.Errorf("it is cut off: %d bytes, where the last commit had %d pages of %d", size, p.live.high, p.page)
	}
	p.seen = make([]uint64, p.live.high/64+1)
	p.seen[0] = 3 // the metas
	return p, nil
}

// metaFault says why the newest commit may be missing: a healthy file has two
// valid meta pages of successive commits.
func (p *pages) metaFault() error {
	a, b := &p.metas[0], &p.metas[1]
	switch {
	case a.err != nil:
		return fmt.Errorf("the first of its two meta pages is invalid: %w", a.err)
	case b.err != nil:
		return fmt.Errorf("the second of its two meta pages is invalid: %w", b.err)
	case a.commit+1 != b.commit && b.commit+1 != a.commit:
		return fmt.Errorf("its two meta pages are of the commits %d and %d, which do not follow each other", a.commit, b.commit)
	}
	return nil
}

// raw returns n pages; valid until the next call.
func (p *pages) raw(id, n uint64) ([]byte, error) {
	from, length := int64(id)*p.page, int64(n)*p.page
	if from < p.at || from+length > p.at+int64(len(p.window)) {
		want := min(max(length, readAhead), p.size-from)
		if int64(cap(p.window)) < want {
			p.window = make([]byte, want)
		}
		p.window, p.at = p.window[:want], from
		if n, err := p.f.ReadAt(p.window, from); int64(n) < want {
			p.window = nil
			return nil, fmt.Errorf("page %d cannot be read: %w", id, err)
		}
	}
	off := from - p.at
	return p.window[off : off+length : off+length], nil
}

// load returns a page, with what overflows it, checked and marked as seen.
func (p *pages) load(id uint64, flags uint16) ([]byte, error) {
	if id < 2 || id >= p.live.high {
		return nil, fmt.Errorf("page %d is referred to and does not exist", id)
	}
	b, err := p.raw(id, 1)
	if err != nil {
		return nil, err
	}
	if got := native.Uint64(b); got != id {
		return nil, fmt.Errorf("page %d says that it is page %d", id, got)
	}
	if got := native.Uint16(b[8:]); got != flagBranch && got != flagLeaf && got != flagFree || got&flags == 0 {
		return nil, fmt.Errorf("page %d is of kind %d", id, got)
	}
	n := uint64(native.Uint32(b[12:])) + 1
	if n > p.live.high-id {
		return nil, fmt.Errorf("page %d is %d pages long, past the end", id, n)
	}
	for i := id; i < id+n; i++ {
		if p.seen[i/64]>>(i%64)&1 != 0 {
			return nil, fmt.Errorf("page %d is referred to twice", i)
		}
		p.seen[i/64] |= 1 << (i % 64)
	}
	if n == 1 {
		return b, nil
	}
	return p.raw(id, n)
}

// visit is given each element of a tree in order. bucket is set for a bucket
// and is its header. Neither slice outlives the call.
type visit func(key, value []byte, bucket bool) error

// child is a bucket found inside another.
type child struct {
	name   string
	header []byte // root page, sequence, and the page itself where it is inline
}

// children returns all buckets of the tree, after checking it; values go to v.
func (p *pages) children(root uint64, v visit) ([]child, error) {
	var found []child
	err := p.tree(root, nil, nil, 0, func(key, value []byte, bucket bool) error {
		if !bucket {
			return v(key, value, false)
		}
		if len(value) < 16 {
			return fmt.Errorf("bucket %q has a header of %d bytes", key, len(value))
		}
		found = append(found, child{string(key), bytes.Clone(value)})
		return nil
	})
	return found, err
}

// each visits what is in a bucket.
func (p *pages) each(c child, v visit) ([]child, error) {
	root := native.Uint64(c.header)
	if root != 0 {
		return p.children(root, v)
	}
	// Inline: its only page is in the value.
	b := c.header[16:]
	if len(b) < pageHeader || native.Uint16(b[8:]) != flagLeaf {
		return nil, fmt.Errorf("bucket %q has an impossible page", c.name)
	}
	_, err := leaf(b, nil, nil, func(key, value []byte, bucket bool) error {
		if bucket {
			return fmt.Errorf("bucket %q has a bucket in an inline page", c.name)
		}
		return v(key, value, false)
	})
	return nil, err
}

// maxDepth is more than a tree of 2^48 pages has.
const maxDepth = 48

// tree visits the tree under page id, whose keys are at least from and less
// than to where those are given.
func (p *pages) tree(id uint64, from, to []byte, depth int, v visit) error {
	if depth > maxDepth {
		return fmt.Errorf("page %d is too deep", id)
	}
	b, err := p.load(id, flagBranch|flagLeaf)
	if err != nil {
		return err
	}
	if native.Uint16(b[8:]) == flagLeaf {
		if n, err := leaf(b, from, to, v); err != nil {
			return fmt.Errorf("page %d: %w", id, err)
		} else if n == 0 && depth > 0 {
			return fmt.Errorf("page %d is empty", id)
		}
		return nil
	}
	type branch struct {
		key []byte
		id  uint64
	}
	n := int(native.Uint16(b[10:]))
	below := make([]branch, 0, n)
	last := from
	for i := range n {
		at := pageHeader + i*elementSize
		if at+elementSize > len(b) {
			return fmt.Errorf("page %d: element %d is outside", id, i)
		}
		key, ok := part(b, at, native.Uint32(b[at:]), 0, native.Uint32(b[at+4:]))
		if !ok {
			return fmt.Errorf("page %d: key %d is outside", id, i)
		}
		if !inOrder(last, key, to, i == 0) {
			return fmt.Errorf("page %d: key %d is out of order", id, i)
		}
		below = append(below, branch{bytes.Clone(key), native.Uint64(b[at+8:])})
		last = below[i].key
	}
	if n == 0 {
		return fmt.Errorf("page %d is an empty branch", id)
	}
	for i, x := range below {
		end := to
		if i+1 < n {
			end = below[i+1].key
		}
		if err := p.tree(x.id, x.key, end, depth+1, v); err != nil {
			return err
		}
	}
	return nil
}

// inOrder says that key may come after last: the first one may be equal to
// what the parent promised.
func inOrder(last, key, to []byte, first bool) bool {
	if last != nil {
		if c := bytes.Compare(last, key); c > 0 || c == 0 && !first {
			return false
		}
	}
	return to == nil || bytes.Compare(key, to) < 0
}

// part is size bytes at pos + skip from element at.
func part(b []byte, at int, pos uint32, skip, size uint32) ([]byte, bool) {
	from := uint64(at) + uint64(pos) + uint64(skip)
	if from+uint64(size) > uint64(len(b)) {
		return nil, false
	}
	return b[from : from+uint64(size)], true
}

func leaf(b []byte, from, to []byte, v visit) (int, error) {
	n := int(native.Uint16(b[10:]))
	last := from
	for i := range n {
		at := pageHeader + i*elementSize
		if at+elementSize > len(b) {
			return 0, fmt.Errorf("element %d is outside", i)
		}
		flags, pos := native.Uint32(b[at:]), native.Uint32(b[at+4:])
		ksize, vsize := native.Uint32(b[at+8:]), native.Uint32(b[at+12:])
		key, ok1 := part(b, at, pos, 0, ksize)
		value, ok2 := part(b, at, pos, ksize, vsize)
		if !ok1 || !ok2 || flags > flagBucket {
			return 0, fmt.Errorf("element %d is outside or of no known kind", i)
		}
		if ksize == 0 || !inOrder(last, key, to, i == 0) {
			return 0, fmt.Errorf("key %d is out of order", i)
		}
		last = key
		if err := v(key, value, flags == flagBucket); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// freelist checks the list of free pages where the file has one: a page that is
// in use and listed would be overwritten.
func (p *pages) freelist() error {
	if p.live.free == noFreelist {
		return nil
	}
	b, err := p.load(p.live.free, flagFree)
	if err != nil {
		return err
	}
	n, at := uint64(native.Uint16(b[10:])), uint64(pageHeader)
	if n == 0xFFFF {
		n, at = native.Uint64(b[pageHeader:]), pageHeader+8
	}
	if n > (uint64(len(b))-at)/8 {
		return errors.New("the list of free pages is longer than its page")
	}
	for i := range n {
		id := native.Uint64(b[at+8*i:])
		if id < 2 || id >= p.live.high || p.seen[id/64]>>(id%64)&1 != 0 {
			return fmt.Errorf("page %d is listed as free and is not", id)
		}
		p.seen[id/64] |= 1 << (id % 64)
	}
	return nil
}
