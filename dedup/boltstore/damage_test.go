package boltstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/dedup"
	bolt "go.etcd.io/bbolt"
)

// sound is a file with a bit of everything, and what must be right about it.
type sound struct {
	file []byte
	keys []dedup.Key // all are completed
	mark uint64      // the sequence that the consumer has seen last
	page int
}

func soundFile(t *testing.T) *sound {
	t.Helper()
	fast := func(o *Options) { o.noSync, o.entries = true, 100 }
	s := newStore(t, fast)
	f := new(sound)
	for n := 0; n < 400; n += 50 {
		complete(t, s, n, 50)
	}
	for n := range 400 {
		f.keys = append(f.keys, key(fmt.Sprint(n)))
	}
	for n := range 20 {
		id := fmt.Sprint("letter ", n)
		k := key(fmt.Sprint(n))
		apply(t, s,
			dedup.Op{Kind: dedup.NoteLetter, Key: k, Letter: &dedup.LetterOp{Letter: dedup.Letter{ID: id, Reason: "terminal"}}},
			dedup.Op{Kind: dedup.MoveLetter, Key: k, Letter: &dedup.LetterOp{
				Letter: dedup.Letter{ID: id, Token: id, Job: "job"}, From: dedup.LetterOpen, To: dedup.LetterSent,
			}},
			dedup.Op{Kind: dedup.Advance, Key: k, Position: dedup.Position{Source: "orders@1", Partition: int32(n), Offset: 1}},
		)
	}
	a := apply(t, s, claim("skipped", 7777))
	skip := success(claim("skipped", 7777), a[0])
	skip.Outcome = dedup.Skip
	apply(t, s, skip)
	work := success(claim("open", 8888), apply(t, s, claim("open", 8888))[0])
	work.Enlisted = []any{func(tx *bolt.Tx) error {
		b, err := tx.CreateBucket([]byte("accounts"))
		if err != nil {
			return err
		}
		for i := range 300 {
			if err := b.Put(fmt.Appendf(nil, "%04d", i), make([]byte, 30)); err != nil {
				return err
			}
		}
		return nil
	}}
	apply(t, s, work)
	f.keys = append(f.keys, work.Key)
	f.mark = s.Info().Sequence
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	f.file = readFile(t, s.path)
	metas := readMetas(bytes.NewReader(f.file), int64(len(f.file)))
	f.page = int(metas[0].page)
	f.file = used(f.file)
	return f
}

// opens opens a copy as a consumer does and returns why it was refused, if it
// was. Whatever it is not refused is right.
func (f *sound) opens(t *testing.T, file []byte) error {
	t.Helper()
	s, err := Open(writeFile(t, file), Options{Logger: quiet, noSync: true})
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.Confirm(f.mark); err != nil {
		return err
	}
	records, err := s.Lookup(context.Background(), f.keys)
	if err != nil {
		return err
	}
	for i := range records {
		if records[i].State != dedup.Succeeded {
			t.Errorf("%v was completed and is %s", f.keys[i], records[i].State)
		}
	}
	ops := []dedup.Op{claim("new", 999_999)}
	for i, k := range f.keys {
		op := claim(k.ID, uint64(i+1_000_000))
		ops = append(ops, op)
	}
	answers, err := s.Apply(context.Background(), ops)
	if err != nil {
		return err
	}
	for i, a := range answers[1:] {
		if a.Kind != dedup.DuplicateSucceeded {
			t.Errorf("%v was completed, and a claim is answered %s", f.keys[i], a.Kind)
		}
	}
	if _, err := s.Sweep(context.Background(), 100); err != nil {
		return err
	}
	return nil
}

// damages are what happens to files. Each changes b in place or returns a
// shorter one.
var damages = []struct {
	name string
	do   func(b []byte, page int, r *rand.Rand) []byte
}{
	{"a bit is flipped", func(b []byte, _ int, r *rand.Rand) []byte {
		b[r.IntN(len(b))] ^= 1 << r.IntN(8)
		return b
	}},
	{"a bit in the head of a page is flipped", func(b []byte, page int, r *rand.Rand) []byte {
		b[r.IntN(len(b)/page)*page+r.IntN(80)] ^= 1 << r.IntN(8)
		return b
	}},
	{"a page is zeroed", func(b []byte, page int, r *rand.Rand) []byte {
		at := r.IntN(len(b)/page) * page
		clear(b[at : at+page])
		return b
	}},
	{"a sector is zeroed", func(b []byte, _ int, r *rand.Rand) []byte {
		at := r.IntN(len(b)/512) * 512
		clear(b[at : at+512])
		return b
	}},
	{"it is cut off", func(b []byte, _ int, r *rand.Rand) []byte { return b[:r.IntN(len(b))] }},
	{"two pages are swapped", func(b []byte, page int, r *rand.Rand) []byte {
		x, y := r.IntN(len(b)/page)*page, r.IntN(len(b)/page)*page
		keep := append([]byte(nil), b[x:x+page]...)
		copy(b[x:x+page], b[y:y+page])
		copy(b[y:y+page], keep)
		return b
	}},
	{"a page is another", func(b []byte, page int, r *rand.Rand) []byte {
		x, y := r.IntN(len(b)/page)*page, r.IntN(len(b)/page)*page
		copy(b[x:x+page], b[y:y+page])
		return b
	}},
	{"a meta page has a flipped bit", func(b []byte, page int, r *rand.Rand) []byte {
		b[r.IntN(2)*page+16+r.IntN(64)] ^= 1 << r.IntN(8)
		return b
	}},
}

func TestADamagedFileIsRefusedOrRight(t *testing.T) {
	f := soundFile(t)
	if err := f.opens(t, append([]byte(nil), f.file...)); err != nil {
		t.Fatalf("the file as it was: %v", err)
	}
	refused := 0
	for n := range 400 {
		d := damages[n%len(damages)]
		r := rand.New(rand.NewPCG(1, uint64(n)))
		err := f.opens(t, d.do(append([]byte(nil), f.file...), f.page, r))
		if t.Failed() {
			t.Fatalf("copy %d: %s", n, d.name)
		}
		if err == nil {
			continue
		}
		refused++
		var damage *dedup.DamagedError
		if !errors.As(err, &damage) || damage.Where == "" || damage.What == "" || damage.Lost == "" || damage.Mend == "" {
			t.Errorf("copy %d: %s: %v", n, d.name, err)
		}
	}
	t.Logf("%d of 400 damaged copies refused, the others right", refused)
	if refused < 100 {
		t.Errorf("only %d of 400 damaged copies are refused: the damage misses the file", refused)
	}
}

func TestALostMetaPageIsNeverTheCommitBefore(t *testing.T) {
	f := soundFile(t)
	for page := range 2 {
		b := append([]byte(nil), f.file...)
		b[page*f.page+20] ^= 1
		// A consumer whose mark is old cannot tell; the file must.
		f := *f
		f.mark -= 10
		if err := f.opens(t, b); err != nil && !strings.Contains(err.Error(), "meta page") {
			t.Errorf("meta page %d: %v", page, err)
		}
	}
}

// The file is damaged under an open store: whoever runs into it is refused, and
// so is everybody after.
func TestDamageFoundWhileRunningEndsTheUseOfTheFile(t *testing.T) {
	for name, damage := range map[string]func(f *os.File) error{
		"cut off":     func(f *os.File) error { return f.Truncate(8192) },
		"cut to none": func(f *os.File) error { return f.Truncate(0) },
		"beheaded":    func(f *os.File) error { _, err := f.WriteAt(make([]byte, 8192), 0); return err },
		"zeroed": func(f *os.File) error {
			i, err := f.Stat()
			if err != nil {
				return err
			}
			_, err = f.WriteAt(make([]byte, i.Size()-8192), 8192)
			return err
		},
	} {
		for _, first := range []string{"lookup", "apply", "sweep"} {
			t.Run(name+", then "+first, func(t *testing.T) {
				s := newStore(t, func(o *Options) { o.noSync, o.entries = true, 100 })
				complete(t, s, 0, 500)
				whole := readFile(t, s.path)
				f, err := os.OpenFile(s.path, os.O_RDWR, 0)
				if err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(damage(f), f.Close()); err != nil {
					t.Fatal(err)
				}
				calls := map[string]func() error{
					"lookup": func() error { _, err := s.Lookup(t.Context(), []dedup.Key{key("7")}); return err },
					"apply":  func() error { _, err := s.Apply(t.Context(), []dedup.Op{claim("7", 1)}); return err },
					"sweep":  func() error { _, err := s.Sweep(t.Context(), 10); return err },
				}
				for _, call := range []string{first, "lookup", "apply", "sweep"} {
					if err := calls[call](); !errors.As(err, new(*dedup.DamagedError)) {
						t.Errorf("%s: %v", call, err)
					}
				}
				done := make(chan error)
				go func() { done <- s.Close() }()
				select {
				case <-done:
				case <-time.After(20 * time.Second):
					t.Fatal("close hangs")
				}
				if err := os.WriteFile(s.path, whole, 0o600); err != nil {
					t.Fatal(err)
				}
				restored, err := Open(s.path, Options{LockWait: -1, Logger: quiet})
				if err != nil {
					t.Fatalf("a restored copy in the same process: %v", err)
				}
				_ = restored.Close()
			})
		}
	}
}
