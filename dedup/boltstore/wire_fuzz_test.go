package boltstore

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/onceward/onceward/dedup"
)

func fuzzWords(t testing.TB) *dictionary {
	t.Helper()
	d := new(dictionary)
	for _, w := range [][]byte{routeWord("billing", "order.create"), sourceWord("orders@1"), windowWord(time.Hour)} {
		if err := d.add(secret{1}, w); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// full is a record with every field.
func fullRecord() *dedup.Record {
	at := func(s int64) time.Time { return time.Unix(1_000_000_000+s, 7).UTC() }
	return &dedup.Record{
		State: dedup.InProgress, Fence: 70, Opened: 68, Run: 2, Token: dedup.Token{1, 2}, LeaseUntil: at(30), Live: true, Alone: true,
		NotBefore: time.Date(2400, 1, 1, 0, 0, 0, 5, time.UTC), Failures: 1, Crashes: 2, Lone: 3, FirstFailed: at(-5), LastFailed: at(-4), Owed: true,
		Reason: "terminal", Error: "e", ErrorType: "t", Stack: "s", Fingerprint: dedup.Fingerprint{Sum: [32]byte{9}, Rule: 300},
		Result: []byte{0, 1}, Digest: true, Intents: []dedup.Intent{{
			Effect: "charge", Status: dedup.Dispatched, Blind: true, EffectRun: 2, Dispatched: at(1), QuietFor: time.Minute, External: "x", Outcome: []byte("o"),
		}, {Effect: "ship"}},
		Source: dedup.Position{Source: "orders@1", Partition: -1, Offset: 1 << 40}, Created: at(-100), Claimed: at(0), Finished: at(2),
		Window: time.Hour, Archive: true, Outcome: dedup.Failed, Job: "j", Letter: "l", Sent: true, Approver: "a", Why: "w",
		Evidence: []dedup.Evidence{{At: at(3), Kind: dedup.End, Fence: 60, Outcome: dedup.Success, Note: "n"}},
	}
}

func TestAnEntryKeepsEveryFieldOfARecord(t *testing.T) {
	d, g := fuzzWords(t), &segment{no: 7, seq: 40, base: 1_000_000_000_000_000_000}
	key := dedup.Key{Consumer: "billing", Scope: "order.create", ID: "42\x00"}
	for _, words := range [][3]uint32{{1, 2, 3}, {0, 0, 0}} {
		at := placeOf(7, 11)
		row := appendEntry(nil, entryRecord, g, 90, placeOf(5, 99_999), words[0], &key)
		row = sealEntry(appendRecord(row, fullRecord(), g.base, words[1], words[2]), 0, at)
		e, _, err := parse(row, g, at)
		if err != nil {
			t.Fatal(err)
		}
		var got dedup.Record
		if err := e.record(&got, g.base, d); err != nil {
			t.Fatal(err)
		}
		if k, err := e.key(d); err != nil || k != key || !e.is(&key, d) || e.seq != 90 || e.prev != placeOf(5, 99_999) {
			t.Errorf("entry %+v of %v, %v", e, k, err)
		}
		if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", *fullRecord()); g != w {
			t.Errorf("record\n%s\nwant\n%s", g, w)
		}
		if _, _, err := parse(row, g, at+1); err == nil {
			t.Errorf("an entry is taken for another's")
		}
	}
}

// Whatever is in an entry, reading it ends in a record or an error, and what
// is read can be written and read again.
func FuzzEntry(f *testing.F) {
	g := &segment{no: 7, seq: 40, base: 1_000_000_000_000_000_000}
	key := dedup.Key{Consumer: "billing", Scope: "order.create", ID: "42"}
	head := appendEntry(nil, entryRecord, g, 90, placeOf(5, 1), 1, &key)
	f.Add(appendRecord(bytes.Clone(head), fullRecord(), g.base, 2, 3))
	f.Add(appendRecord(bytes.Clone(head), &dedup.Record{State: dedup.Succeeded, Fence: 3, Opened: 3, Run: 1}, g.base, 0, 0))
	f.Add(appendEntry(nil, entryGone, g, 90, 0, 0, &key))
	d := fuzzWords(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		at := placeOf(7, 11)
		e, _, err := parse(sealEntry(bytes.Clone(body), 0, at), g, at)
		if err != nil {
			return
		}
		k, err := e.key(d)
		if err != nil || e.kind == entryGone {
			return
		}
		var r dedup.Record
		if e.record(&r, g.base, d) != nil {
			return
		}
		row := sealEntry(appendRecord(appendEntry(nil, entryRecord, g, e.seq, e.prev, 0, &k), &r, g.base, 0, 0), 0, at)
		again, _, err := parse(row, g, at)
		if err != nil {
			t.Fatalf("written again: %v", err)
		}
		var r2 dedup.Record
		if err := again.record(&r2, g.base, d); err != nil || fmt.Sprintf("%+v", r) != fmt.Sprintf("%+v", r2) {
			t.Errorf("record\n%+v\nand again\n%+v, %v", r, r2, err)
		}
	})
}

// The rows of the small tables, sealed as if they were ours.
func FuzzRow(f *testing.F) {
	f.Add(byte(0), letterRow(&dedup.Letter{ID: "k", Key: dedup.Key{Consumer: "c"}, Time: time.Unix(5, 5)}))
	f.Add(byte(1), (&segment{no: 1}).row())
	f.Add(byte(2), (&state{format: 1}).row())
	f.Add(byte(3), routeWord("a", "b"))
	f.Add(byte(4), prefixRow([]byte("k"), 7))
	f.Add(byte(5), []byte(block(nil).appended([]byte("row"))))
	f.Fuzz(func(t *testing.T, which byte, row []byte) {
		key := []byte("k")
		if len(row) >= sumSize {
			row = row[:len(row)-sumSize]
		}
		switch which % 6 {
		case 0:
			if l, _, err := parseLetter(key, seal(bytes.Clone(row), 0, tableLetters, key)); err == nil {
				if again, _, err := parseLetter(key, letterRow(&l)); err != nil || again != l {
					t.Errorf("letter %+v and again %+v, %v", l, again, err)
				}
			}
		case 1:
			key = segmentKey(1)
			_, _, _ = parseSegment(key, seal(bytes.Clone(row), 0, tableSegments, key))
		case 2:
			_, _ = parseState(seal(bytes.Clone(row), 0, tableState, keyState))
		case 3:
			_ = new(dictionary).add(secret{}, row)
		case 4:
			_, _, _ = parsePrefix(key, seal(bytes.Clone(row), 0, tablePrefixes, key))
			_, _ = parseLane(row)
		case 5:
			b := block(row)
			for {
				if _, ok := b.next(); !ok {
					break
				}
			}
			block(row).at(3)
		}
	})
}

// A file with any bytes changed is taken in or refused.
func FuzzFile(f *testing.F) {
	file := readFile(f, golden+".db")
	f.Add([]byte{0, 0, 0, 16, 1})
	f.Add([]byte{0, 0, 16, 30, 255, 0, 0, 48, 12, 7})
	f.Fuzz(func(t *testing.T, changes []byte) {
		b := bytes.Clone(file)
		for ; len(changes) >= 5; changes = changes[5:] {
			b[int(binary.BigEndian.Uint32(changes))%len(b)] ^= changes[4]
		}
		if len(changes) == 1 { // and it is cut off
			b = b[:len(b)-min(len(b), int(changes[0])*512)]
		}
		_, _ = inspect(bytes.NewReader(b), int64(len(b)), nil)
	})
}
