package boltstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/onceward/onceward/dedup"
	bolt "go.etcd.io/bbolt"
)

var accounts = []byte("accounts")

// book adds one to a row of the user's own.
func book(id string) func(*bolt.Tx) error {
	return func(tx *bolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists(accounts)
		if err != nil {
			return err
		}
		return b.Put([]byte(id), append(b.Get([]byte(id)), '+'))
	}
}

func booked(t *testing.T, s *Store, id string) string {
	t.Helper()
	var v string
	if err := s.db.View(func(tx *bolt.Tx) error {
		if b := tx.Bucket(accounts); b != nil {
			v = string(b.Get([]byte(id)))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return v
}

// claimed claims n ids and returns the operations that end them.
func claimed(t *testing.T, s *Store, n int) []dedup.Op {
	t.Helper()
	ops := make([]dedup.Op, n)
	for i := range ops {
		ops[i] = claim(fmt.Sprint(i), uint64(i+1))
	}
	for i, a := range apply(t, s, ops...) {
		ops[i] = success(ops[i], a)
	}
	return ops
}

func TestWorkIsWrittenWithTheRecord(t *testing.T) {
	s := newStore(t)
	ends := claimed(t, s, 3)
	for i := range ends {
		e := dedup.NewEnlistment(s)
		ctx := dedup.WithEnlistment(context.Background(), e)
		if err := InTx(ctx, book(ends[i].Key.ID)); err != nil {
			t.Fatal(err)
		}
		ends[i].Enlisted = e.Work()
	}
	ends[2].Outcome = dedup.Failure // the handler failed: its work is dropped
	apply(t, s, ends...)
	apply(t, s, ends...) // the answer was lost: again
	for i, want := range []string{"+", "+", ""} {
		if got := booked(t, s, fmt.Sprint(i)); got != want {
			t.Errorf("row %d is %q, want %q", i, got, want)
		}
	}
	if err := InTx(context.Background(), book("x")); !errors.Is(err, dedup.ErrNotEnlisted) {
		t.Errorf("work of nobody's: %v", err)
	}
}

func TestFailedWorkTakesOnlyItsOwnCompletionWithIt(t *testing.T) {
	for _, every := range []int{1, 2, 7, 50} {
		t.Run(fmt.Sprint("every ", every), func(t *testing.T) {
			s := newStore(t, func(o *Options) { o.noSync = true })
			ends := claimed(t, s, 100)
			broken := errors.New("no such account")
			for i := range ends {
				ends[i].Enlisted = []any{book(ends[i].Key.ID)}
				switch {
				case i%every != 0:
				case i%3 == 0:
					ends[i].Enlisted = append(ends[i].Enlisted, func(*bolt.Tx) error { return broken })
				case i%3 == 1:
					ends[i].Enlisted = append(ends[i].Enlisted, func(*bolt.Tx) error { panic("index out of range") })
				default:
					ends[i].Enlisted = append(ends[i].Enlisted, func(tx *bolt.Tx) error { return tx.Commit() })
				}
			}
			for i, a := range apply(t, s, ends...) {
				r, row := lookup(t, s, fmt.Sprint(i)), booked(t, s, fmt.Sprint(i))
				if i%every != 0 {
					if a.Kind != dedup.Done || r.State != dedup.Succeeded || row != "+" {
						t.Errorf("neighbour %d: %v %v, %s, row %q", i, a.Kind, a.Err, r.State, row)
					}
					continue
				}
				if a.Kind != dedup.Invalid || a.Err == nil || r.State != dedup.InProgress || !r.Live || row != "" {
					t.Errorf("failed %d: %v %v, %s, row %q", i, a.Kind, a.Err, r.State, row)
				}
				if i%3 == 0 && !errors.Is(a.Err, broken) || i%3 == 1 && !strings.Contains(a.Err.Error(), "index out of range") {
					t.Errorf("failed %d: %v", i, a.Err)
				}
			}
			again(t, s)
		})
	}
}
