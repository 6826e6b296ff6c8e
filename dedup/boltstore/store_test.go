package boltstore

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/onceward/onceward/dedup"
)

var (
	quiet  = slog.New(slog.DiscardHandler)
	policy = &dedup.Policy{Failures: 3, Lone: 2, Window: time.Hour}
)

func openAt(t testing.TB, path string, change ...func(*Options)) *Store {
	t.Helper()
	o := Options{Logger: quiet}
	for _, c := range change {
		c(&o)
	}
	s, err := Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func newStore(t testing.TB, change ...func(*Options)) *Store {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "billing.db"), change...)
}

// again closes s and opens its file.
func again(t testing.TB, s *Store, change ...func(*Options)) *Store {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return openAt(t, s.path, change...)
}

func key(id string) dedup.Key { return dedup.Key{Consumer: "billing", Scope: "order.create", ID: id} }

func claim(id string, token uint64) dedup.Op {
	op := dedup.Op{
		Kind: dedup.Claim, Key: key(id), Policy: policy, Lease: time.Minute,
		Fingerprint: dedup.Fingerprint{Sum: [32]byte{1, 2, 3}, Rule: 1},
		Position:    dedup.Position{Source: "orders@1", Partition: 3, Offset: int64(token)},
	}
	binary.BigEndian.PutUint64(op.Token[8:], token)
	return op
}

// success completes what op claimed.
func success(op dedup.Op, a dedup.Answer) dedup.Op {
	return dedup.Op{
		Kind: dedup.End, Key: op.Key, Fence: a.Fence, Token: op.Token, Policy: op.Policy, Outcome: dedup.Success,
	}
}

func apply(t testing.TB, s *Store, ops ...dedup.Op) []dedup.Answer {
	t.Helper()
	a, err := s.Apply(t.Context(), ops)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// complete claims and completes n ids from first on, in one batch each.
func complete(t testing.TB, s *Store, first, n int) {
	t.Helper()
	ops := make([]dedup.Op, n)
	for i := range ops {
		ops[i] = claim(fmt.Sprint(first+i), uint64(first+i+1))
	}
	answers := apply(t, s, ops...)
	for i := range ops {
		if answers[i].Kind != dedup.Acquired {
			t.Fatalf("claim of %v: %v %v", ops[i].Key, answers[i].Kind, answers[i].Err)
		}
		ops[i] = success(ops[i], answers[i])
	}
	for i, a := range apply(t, s, ops...) {
		if a.Kind != dedup.Done {
			t.Fatalf("end of %v: %v %v", ops[i].Key, a.Kind, a.Err)
		}
	}
}

func lookup(t testing.TB, s *Store, id string) dedup.Record {
	t.Helper()
	r, err := s.Lookup(t.Context(), []dedup.Key{key(id)})
	if err != nil {
		t.Fatal(err)
	}
	return r[0]
}

func TestWhatWasCompletedIsThereAfterOpeningAgain(t *testing.T) {
	s := newStore(t)
	complete(t, s, 0, 1000)
	apply(t, s, claim("open", 5000))
	before := s.Info()
	s = again(t, s)
	after := s.Info()
	if after.ID != before.ID || after.Sequence < before.Sequence || after.Records != 1001 {
		t.Errorf("info %+v, then %+v", before, after)
	}
	for i := range 1000 {
		if r := lookup(t, s, fmt.Sprint(i)); r.State != dedup.Succeeded || r.Token[15] == 0 && r.Token[14] == 0 {
			t.Fatalf("record %+v", r)
		}
	}
	if r := lookup(t, s, "open"); r.State != dedup.InProgress || r.Live {
		t.Errorf("record %+v", r)
	}
	n := 0
	for r, err := range s.Scan(t.Context(), "billing") {
		if err != nil || r.Key.Scope != "order.create" {
			t.Fatal(r, err)
		}
		n++
	}
	if n != 1001 {
		t.Errorf("scan saw %d", n)
	}
	if a := apply(t, s, claim("7", 9999)); a[0].Kind != dedup.DuplicateSucceeded {
		t.Errorf("answer %+v", a[0])
	}
}
