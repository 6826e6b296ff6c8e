package boltstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// contents is what a file holds, as far as it is kept in memory. Making it
// reads the whole file once and checks all of it.
type contents struct {
	commit   uint64 // of bbolt
	fresh    bool   // there is nothing of ours in the file
	doubt    error  // why the newest commit may be missing; nil: it is there
	later    uint64 // where in doubt: a later sequence of which there are traces
	state    state
	words    dictionary
	segments map[uint32]*segment
	prefixes map[lane]int64
	index    *index
}

// inspect reads and checks a file. Errors are about its contents, in words for
// [dedup.DamagedError.What], or wrap errFormat.
func inspect(f io.ReaderAt, size int64, fold func(hash) hash) (*contents, error) {
	c := &contents{words: dictionary{fold: fold}, segments: map[uint32]*segment{}, prefixes: map[lane]int64{}, index: new(index)}
	if size == 0 {
		c.fresh = true
		return c, nil
	}
	p, err := openPages(f, size)
	if err != nil {
		return nil, err
	}
	c.commit, c.doubt = p.live.commit, p.metaFault()
	top, err := p.children(p.live.root, func(key, _ []byte, _ bool) error {
		return fmt.Errorf("the value %q lies beside the buckets", key)
	})
	if err != nil {
		return nil, err
	}
	ours := false
	for _, b := range top {
		if b.name != string(bucketTop) {
			err = p.foreign(b, 0)
		} else {
			ours = true
			err = c.read(p, b)
		}
		if err != nil {
			return nil, fmt.Errorf("bucket %q: %w", b.name, err)
		}
	}
	if err := p.freelist(); err != nil {
		return nil, err
	}
	if !ours {
		c.fresh = true
	}
	if c.fresh || c.doubt != nil {
		return c, c.latest(p)
	}
	return c, nil
}

// foreign checks the form of a bucket of the user's.
func (p *pages) foreign(b child, depth int) error {
	if depth > maxDepth {
		return errors.New("buckets lie too deep")
	}
	inside, err := p.each(b, func(_, _ []byte, _ bool) error { return nil })
	for i := 0; err == nil && i < len(inside); i++ {
		err = p.foreign(inside[i], depth+1)
	}
	return err
}

// latest looks for a later commit than the one that the file opens with, where
// that is in doubt: pages are not overwritten before a later commit is safe, so
// its state still lies about. A torn meta page would be found too, but a disk
// writes the 80 bytes of one in a piece.
func (c *contents) latest(p *pages) error {
	const step = 1 << 20
	b := make([]byte, step+stateRowSize+sumSize)
	for at := int64(0); at < p.size; at += step {
		n, err := p.f.ReadAt(b[:min(int64(len(b)), p.size-at)], at)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("it cannot be read at %d: %w", at, err)
		}
		for rest := b[:n]; ; rest = rest[1:] {
			i := bytes.Index(rest, []byte(stateMagic))
			if i < 0 {
				break
			}
			if rest = rest[i:]; len(rest) < stateRowSize+sumSize {
				break
			}
			s, err := parseState(rest[:stateRowSize+sumSize])
			switch {
			case c.fresh:
				return errors.New("its records are cut off from the root of the file")
			case err == nil && s.id == c.state.id && s.commits > c.state.commits:
				c.later = max(c.later, s.commits)
			}
		}
	}
	return nil
}

// errFormat says that the file is of another version of this package.
var errFormat = errors.New("format of the file is not known to this version")

// read takes in the bucket "onceward".
func (c *contents) read(p *pages, top child) error {
	tables, err := p.each(top, func(key, _ []byte, _ bool) error {
		return fmt.Errorf("the value %q lies beside the tables", key)
	})
	if err != nil {
		return err
	}
	byName := make(map[string]child, len(tables))
	for _, t := range tables {
		byName[t.name] = t
	}
	var found [len(state{}.tables)]tally
	// The order matters: entries need the dictionary and the segments.
	for _, t := range []struct {
		name  []byte
		table byte
		row   func(key, row []byte) (uint32, error)
	}{
		{bucketState, 0, c.readState},
		{bucketDictionary, tableDictionary, c.readWord},
		{bucketSegments, tableSegments, c.readSegment},
		{bucketLetterKeys, tableLetterKeys, readSealed(tableLetterKeys)},
		{bucketLetters, tableLetters, readLetter},
		{bucketPrefixes, tablePrefixes, c.readPrefix},
		{bucketTokens, tableTokens, readSealed(tableTokens)},
	} {
		b, ok := byName[string(t.name)]
		if !ok {
			return fmt.Errorf("table %q is missing", t.name)
		}
		_, err := p.each(b, func(key, row []byte, bucket bool) error {
			if bucket {
				return fmt.Errorf("a bucket %q lies in it", key)
			}
			sum, err := t.row(key, row)
			if err != nil {
				return fmt.Errorf("row %x: %w", key, err)
			}
			if t.table != 0 {
				found[t.table-1].put(sum)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("table %q: %w", t.name, err)
		}
		if t.table == 0 && c.state.format == 0 {
			return errors.New(`table "state" is empty`)
		}
		if t.table != 0 && found[t.table-1] != *c.state.tally(t.table) {
			return fmt.Errorf("table %q: %w: it has %d rows, and the last commit had %d or others",
				t.name, errRow, found[t.table-1].rows, c.state.tally(t.table).rows)
		}
	}
	log, ok := byName[string(bucketLog)]
	if !ok {
		return fmt.Errorf("table %q is missing", bucketLog)
	}
	if err := c.readLog(p, log); err != nil {
		return fmt.Errorf("table %q: %w", bucketLog, err)
	}
	return nil
}

func (c *contents) readState(key, row []byte) (uint32, error) {
	s, err := parseState(row)
	if err != nil {
		return 0, err
	}
	if s.format != formatVersion {
		return 0, fmt.Errorf("%w: %d, where this one reads %d", errFormat, s.format, formatVersion)
	}
	if !bytes.Equal(key, keyState) {
		return 0, errRow
	}
	c.state = s
	return 0, nil
}

func (c *contents) readWord(key, row []byte) (uint32, error) {
	body, sum, err := unseal(row, tableDictionary, key)
	if err != nil {
		return 0, err
	}
	if len(key) != 4 || binary.BigEndian.Uint32(key) != uint32(len(c.words.words)+1) {
		return 0, errRow
	}
	return sum, c.words.add(c.state.secret, body)
}

func (c *contents) readSegment(key, row []byte) (uint32, error) {
	g, sum, err := parseSegment(key, row)
	if err != nil {
		return 0, err
	}
	if g.class != 0 && c.words.classWindow(g.class) <= 0 || g.no >= c.state.segment {
		return 0, errRow
	}
	c.segments[g.no] = g
	return sum, nil
}

func readSealed(table byte) func(key, row []byte) (uint32, error) {
	return func(key, row []byte) (uint32, error) {
		_, sum, err := unseal(row, table, key)
		return sum, err
	}
}

func readLetter(key, row []byte) (uint32, error) {
	_, sum, err := parseLetter(key, row)
	return sum, err
}

func (c *contents) readPrefix(key, row []byte) (uint32, error) {
	l, err := parseLane(key)
	if err != nil {
		return 0, err
	}
	offset, sum, err := parsePrefix(key, row)
	c.prefixes[l] = offset
	return sum, err
}

// readLog goes through all entries in the order in which they were written and
// builds the index.
func (c *contents) readLog(p *pages, log child) error {
	buckets, err := p.each(log, func(key, _ []byte, _ bool) error {
		return fmt.Errorf("the value %x lies beside the segments", key)
	})
	if err != nil {
		return err
	}
	if len(buckets) != len(c.segments) {
		return fmt.Errorf("there are %d segments, where %d are known", len(buckets), len(c.segments))
	}
	entries := uint64(0)
	for _, g := range c.segments {
		entries += uint64(g.count)
	}
	c.index.expect(int(min(c.state.records, entries)))
	for _, b := range buckets {
		var g *segment
		if len(b.name) == 4 {
			g = c.segments[binary.BigEndian.Uint32([]byte(b.name))]
		}
		if g == nil {
			return fmt.Errorf("segment %x is not known", b.name)
		}
		if err := c.readEntries(p, b, g); err != nil {
			return fmt.Errorf("segment %d: %w", g.no, err)
		}
	}
	return nil
}

func (c *contents) readEntries(p *pages, b child, g *segment) error {
	check := segment{no: g.no}
	last := g.seq
	inside, err := p.each(b, func(key, value []byte, _ bool) error {
		if len(key) != 4 || binary.BigEndian.Uint32(key) != check.count {
			return fmt.Errorf("entry %d is missing", check.count)
		}
		rest := block(value)
		for len(rest) > 0 {
			n := check.count
			row, ok := rest.next()
			if !ok {
				return fmt.Errorf("entry %d: %w", n, errRow)
			}
			e, sum, err := parse(row, g, placeOf(g.no, n))
			if err != nil {
				return fmt.Errorf("entry %d: %w", n, err)
			}
			if e.seq < last || e.seq >= c.state.seq {
				return fmt.Errorf("entry %d is out of sequence", n)
			}
			check.link(sum)
			last = e.seq + 1
			if n < g.mark {
				continue
			}
			if err := c.take(&e, placeOf(g.no, n)); err != nil {
				return err
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case len(inside) > 0:
		return errors.New("there are buckets in it")
	case check.count != g.count || check.chain != g.chain:
		return fmt.Errorf("%w: it has %d entries, and the last commit had %d or others", errRow, check.count, g.count)
	}
	return nil
}

// take puts one entry into the index.
func (c *contents) take(e *entry, at place) error {
	h, err := e.hashOf(c.state.secret, &c.words)
	if err != nil {
		return fmt.Errorf("entry %d: its route is not known", at.n())
	}
	now := at
	if e.kind == entryGone {
		now = 0
	}
	if e.prev == 0 {
		c.index.move(h, 0, now)
		return nil
	}
	if c.index.move(h, e.prev, now) {
		return nil
	}
	// What it replaced has been swept, or it is wrong.
	if g := c.segments[e.prev.segment()]; g != nil && e.prev.n() >= g.mark {
		return fmt.Errorf("entry %d replaces one that is not there", at.n())
	}
	c.index.move(h, 0, now)
	return nil
}
