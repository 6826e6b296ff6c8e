package boltstore

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/dedup"
)

var update = flag.Bool("update", false, "write a new golden file for a new format; those of released formats stay for ever")

const golden = "../../testdata/wire/boltstore/v1"

// A file of each released format opens, and says what it said when it was
// written.
func TestFilesOfReleasedFormatsOpen(t *testing.T) {
	if *update {
		writeGolden(t)
	}
	s := openAt(t, writeFile(t, readFile(t, golden+".db")))
	want := string(readFile(t, golden+".txt"))
	if got := describe(t, s); got != want {
		t.Errorf("the file says\n%s\nwant\n%s", got, want)
	}
	// It is written to as well.
	complete(t, s, 1000, 10)
	if a := apply(t, s, claim("succeeded", 99)); a[0].Kind != dedup.DuplicateSucceeded || string(a[0].Record.Result) != `{"receipt":7}` {
		t.Errorf("claim of what was completed: %+v", a[0])
	}
	if got := booked(t, s, "succeeded"); got != "+" {
		t.Errorf("the user's row is %q", got)
	}
	again(t, s)
}

// describe is all that a store says, in order.
func describe(t *testing.T, s *Store) string {
	t.Helper()
	var lines []string
	for r, err := range s.Scan(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, "record "+fields(r))
	}
	for l, err := range s.ScanLetters(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, "letter "+fields(l))
	}
	prefixes, err := s.Prefixes(t.Context(), "billing")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range prefixes {
		lines = append(lines, "prefix "+fields(p))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

// fields is what is not zero, so that fields to come change nothing here.
func fields(v any) string {
	var b strings.Builder
	r := reflect.ValueOf(v)
	for i := range r.NumField() {
		if f := r.Field(i); !f.IsZero() {
			fmt.Fprintf(&b, "%s=%+v ", r.Type().Field(i).Name, f.Interface())
		}
	}
	return b.String()
}

// writeGolden writes records in every state, with every field.
func writeGolden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, func(o *Options) { o.entries = 10 })
		own := func(id string, token uint64) (dedup.Op, dedup.Answer) {
			c := claim(id, token)
			return c, apply(t, s, c)[0]
		}
		ended := func(id string, token uint64, change func(*dedup.Op)) {
			c, a := own(id, token)
			op := success(c, a)
			change(&op)
			apply(t, s, op)
		}
		ended("succeeded", 1, func(op *dedup.Op) {
			op.Result, op.Enlisted = []byte(`{"receipt":7}`), []any{book("succeeded")}
		})
		ended("failed", 2, func(op *dedup.Op) {
			op.Outcome, op.Reason, op.Error, op.ErrorType, op.Stack = dedup.Terminal, "terminal", "no such customer", "*main.Error", "main.go:1"
		})
		ended("retryable", 3, func(op *dedup.Op) { op.Outcome, op.Wait, op.Error = dedup.Failure, time.Hour, "timeout" })
		ended("in doubt", 4, func(op *dedup.Op) { op.Outcome = dedup.Doubt })
		ended("skipped", 5, func(op *dedup.Op) { op.Outcome = dedup.Skip })
		ended("for ever", 6, func(op *dedup.Op) { p := *policy; p.Window, p.Archive = 0, true; op.Policy = &p })
		c, a := own("effects", 7)
		dispatch := func(name string) dedup.Op {
			return dedup.Op{Kind: dedup.Dispatch, Key: c.Key, Fence: a.Fence, Effect: &dedup.EffectOp{Name: name, QuietFor: time.Minute}}
		}
		apply(t, s, dispatch("charge"), dispatch("ship"), dedup.Op{Kind: dedup.Confirm, Key: c.Key, Fence: a.Fence, Effect: &dedup.EffectOp{
			Name: "charge", External: "ch_1", Outcome: []byte("paid"),
		}}, dedup.Op{Kind: dedup.Alone, Key: c.Key, Fence: a.Fence})
		c, a = own("taken over", 8)
		time.Sleep(2 * time.Minute)
		own("taken over", 9)
		late := success(c, a)
		late.Result = []byte("late")
		apply(t, s, late)
		note := dedup.Letter{
			ID: "letter-1", Reason: "terminal", Run: 1, Opened: 3, Source: dedup.Position{Source: "orders@1", Partition: 3, Offset: 2},
			Time: time.Date(1999, 12, 31, 23, 0, 0, 1, time.UTC),
		}
		apply(t, s,
			dedup.Op{Kind: dedup.NoteLetter, Key: key("failed"), Letter: &dedup.LetterOp{Letter: note}},
			dedup.Op{Kind: dedup.MoveLetter, Key: key("failed"), Letter: &dedup.LetterOp{
				Letter: dedup.Letter{ID: "letter-1", Token: "secret", Job: "job-1", Who: "ann", Why: "fixed"},
				From:   dedup.LetterOpen, To: dedup.LetterSent,
			}},
			dedup.Op{Kind: dedup.Advance, Key: dedup.Key{Consumer: "billing"}, Position: dedup.Position{Source: "orders@1", Partition: 3, Offset: 9}},
		)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openAt(t, s.path)
		text := describe(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		for name, b := range map[string][]byte{".db": used(readFile(t, s.path)), ".txt": []byte(text)} {
			if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(golden+name, b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	})
}
