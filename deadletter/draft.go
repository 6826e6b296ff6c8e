package deadletter

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"hash/maphash"
	"io"
	"os"
	"slices"

	"github.com/onceward/onceward/dedup"
)

// draft is a plan that is being written.
type draft struct {
	file  *os.File
	buf   *bufio.Writer
	lines []draftLine
	at    int64
	count map[Action]int
}

// draftLine is where one item of a draft is, and what it is put in order by.
type draftLine struct {
	at     int64
	order  uint64 // of the ordering key; 0 for what has none
	source int64  // offset in the source
	n      uint32 // bytes
	place  uint32 // in the plan
}

func newDraft() (*draft, error) {
	f, err := os.CreateTemp("", "onceward-plan-")
	if err != nil {
		return nil, err
	}
	return &draft{file: f, buf: bufio.NewWriterSize(f, 1<<16), count: map[Action]int{}}, nil
}

func (d *draft) remove() {
	_ = d.file.Close()
	_ = os.Remove(d.file.Name())
}

// add writes the item of one letter.
func (d *draft) add(e *Entry, r *dedup.Record, decision Decision) error {
	l := &e.Letter
	it := item{
		ID: l.ID, At: &e.At, Scope: l.Key.Scope, Key: l.Key.ID, Reason: l.Reason, Decision: decision,
		Record: seenOf(r),
		Letter: noteSeenOf(e),
	}
	if l.Fingerprint.Rule != 0 {
		it.Fingerprint = formatFingerprint(l.Fingerprint)
	}
	return d.put(&it, orderOf(l), l.Source.Offset)
}

var planSeed = maphash.MakeSeed()

// orderOf is the ordering key of a letter's message, as a hash.
func orderOf(l *Letter) uint64 {
	switch {
	case l.BrokerKey != nil:
		return maphash.Bytes(planSeed, l.BrokerKey) | 1
	case l.Key.ID != "":
		return maphash.String(planSeed, l.Key.ID) | 1
	}
	return 0
}

func (d *draft) put(it *item, order uint64, source int64) error {
	text, err := json.Marshal(it)
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if _, err := d.buf.Write(text); err != nil {
		return err
	}
	d.lines = append(d.lines, draftLine{at: d.at, order: order, source: source, n: uint32(len(text)), place: uint32(len(d.lines))})
	d.at += int64(len(text))
	d.count[it.Decision.Action]++
	return nil
}

// arrange gives the letters of one ordering key the order of their messages,
// in the places that they have among the others: a message that was tried for
// long has died after those behind it.
func (d *draft) arrange() {
	slices.SortFunc(d.lines, func(a, b draftLine) int { return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.place, b.place)) })
	for from := 0; from < len(d.lines); {
		to := from + 1
		for to < len(d.lines) && d.lines[to].order == d.lines[from].order {
			to++
		}
		if group := d.lines[from:to]; len(group) > 1 && group[0].order != 0 {
			places := make([]uint32, len(group))
			for i := range group {
				places[i] = group[i].place
			}
			slices.SortStableFunc(group, func(a, b draftLine) int { return cmp.Compare(a.source, b.source) })
			for i := range group {
				group[i].place = places[i]
			}
		}
		from = to
	}
	slices.SortFunc(d.lines, func(a, b draftLine) int { return cmp.Compare(a.place, b.place) })
}

// write puts the plan together.
func (d *draft) write(p *Plan, w io.Writer) error {
	if err := d.buf.Flush(); err != nil {
		return err
	}
	d.arrange()
	sum := sha256.New()
	p.Letters, p.Counts, p.Seen = len(d.lines), d.count, ""
	head, err := json.Marshal(p)
	if err != nil {
		return err
	}
	_, _ = sum.Write(append(head, '\n')) // never fails
	if err := d.copy(sum); err != nil {
		return err
	}
	p.Seen = hex.EncodeToString(sum.Sum(nil))
	out := bufio.NewWriterSize(w, 1<<16)
	if err := json.NewEncoder(out).Encode(p); err != nil {
		return err
	}
	if err := d.copy(out); err != nil {
		return err
	}
	return out.Flush()
}

// copy writes all lines in order.
func (d *draft) copy(w io.Writer) error {
	var buf []byte
	in := bufio.NewReaderSize(d.file, 1<<16)
	at := int64(-1)
	for _, l := range d.lines {
		if l.at != at {
			if _, err := d.file.Seek(l.at, io.SeekStart); err != nil {
				return err
			}
			in.Reset(d.file)
		}
		buf = slices.Grow(buf[:0], int(l.n))[:l.n]
		if _, err := io.ReadFull(in, buf); err != nil {
			return err
		}
		if _, err := w.Write(buf); err != nil {
			return err
		}
		at = l.at + int64(l.n)
	}
	return nil
}
