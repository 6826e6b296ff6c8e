package memstore

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/dedup"
)

var policy = &dedup.Policy{Failures: 3, Lone: 2, Window: time.Hour}

func key(id string) dedup.Key { return dedup.Key{Consumer: "billing", Scope: "order.create", ID: id} }

func claim(id string, token byte) dedup.Op {
	return dedup.Op{Kind: dedup.Claim, Key: key(id), Token: dedup.Token{token}, Policy: policy, Lease: time.Minute}
}

func success(id string, fence uint64, token byte) dedup.Op {
	return dedup.Op{
		Kind: dedup.End, Key: key(id), Fence: fence, Token: dedup.Token{token}, Policy: policy, Outcome: dedup.Success,
	}
}

func one(t *testing.T, s *Store, op dedup.Op) dedup.Answer {
	t.Helper()
	a, err := s.Apply(t.Context(), []dedup.Op{op})
	if err != nil {
		t.Fatal(err)
	}
	return a[0]
}

func TestAWindowThatIsOverIsSwept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		first := one(t, s, claim("a", 1))
		one(t, s, success("a", first.Fence, 1))
		time.Sleep(time.Hour - time.Second)
		if swept, _ := s.Sweep(t.Context(), 10); swept != (dedup.Swept{}) {
			t.Errorf("swept %+v before the window was over", swept)
		}
		time.Sleep(time.Second)
		if swept, _ := s.Sweep(t.Context(), 10); swept != (dedup.Swept{Records: 1}) {
			t.Errorf("swept %+v", swept)
		}
		if again := one(t, s, claim("a", 2)); again.Kind != dedup.Acquired || again.Fence <= first.Fence {
			t.Errorf("claim after the sweep: %+v, the fence was %d", again, first.Fence)
		}
	})
}

func TestWorkThatFailsTakesTheCompletionWithIt(t *testing.T) {
	s := New()
	a := one(t, s, claim("a", 1))
	broken := errors.New("no such account")
	end := success("a", a.Fence, 1)
	end.Enlisted = []any{func() error { return broken }}
	if a := one(t, s, end); !errors.Is(a.Err, broken) {
		t.Errorf("answer %+v", a)
	}
	end.Enlisted = []any{"work of another store"}
	if a := one(t, s, end); !errors.Is(a.Err, dedup.ErrInvalidOp) {
		t.Errorf("answer %+v", a)
	}
	ran := 0
	end.Enlisted = []any{func() error { ran++; return nil }}
	if a := one(t, s, end); a.Kind != dedup.Done || a.State != dedup.Succeeded || ran != 1 {
		t.Errorf("answer %+v after %d runs", a, ran)
	}
	if one(t, s, end); ran != 1 {
		t.Errorf("ran again for a completion that changed nothing")
	}
}

func TestAFullStoreTakesNoNewKeys(t *testing.T) {
	s := New()
	s.Bound(1)
	a := one(t, s, claim("a", 1))
	if b := one(t, s, claim("b", 2)); !errors.Is(b.Err, dedup.ErrFull) {
		t.Errorf("second key: %+v", b)
	}
	if end := one(t, s, success("a", a.Fence, 1)); end.Kind != dedup.Done {
		t.Errorf("the first goes on: %+v", end)
	}
	if full := s.Info().Full; full != 1 {
		t.Errorf("full: %v", full)
	}
}

func TestWhatIsKeptIsNotTheCallers(t *testing.T) {
	s := New()
	a := one(t, s, claim("a", 1))
	end := success("a", a.Fence, 1)
	end.Result = []byte("receipt")
	one(t, s, end)
	copy(end.Result, "garbage")
	got, _ := s.Lookup(t.Context(), []dedup.Key{key("a")})
	copy(got[0].Result, "garbage")
	if got := one(t, s, claim("a", 2)); string(got.Record.Result) != "receipt" {
		t.Errorf("result %q", got.Record.Result)
	}
}

func BenchmarkPair(b *testing.B) {
	s, ctx := New(), context.Background()
	ids := make([]string, b.N)
	for i := range ids {
		ids[i] = string([]byte{byte(i), byte(i >> 8), byte(i >> 16), byte(i >> 24), 'x'})
	}
	b.ReportAllocs()
	ops := make([]dedup.Op, 0, 100)
	for start := 0; start < b.N; start += 100 {
		n := min(100, b.N-start)
		ops = ops[:0]
		for i := range n {
			ops = append(ops, claim(ids[start+i], 1))
		}
		answers, err := s.Apply(ctx, ops)
		if err != nil {
			b.Fatal(err)
		}
		for i := range n {
			ops[i] = success(ids[start+i], answers[i].Fence, 1)
		}
		if _, err := s.Apply(ctx, ops); err != nil {
			b.Fatal(err)
		}
	}
}
