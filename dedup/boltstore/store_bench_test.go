package boltstore

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/onceward/onceward/dedup"
)

// benchOps makes claims of new ids as real traffic has them.
func benchOps(r *rand.Rand, n int) []dedup.Op {
	ops := make([]dedup.Op, n)
	for i := range ops {
		var b [18]byte
		for j := range b {
			b[j] = byte(r.Uint32())
		}
		ops[i] = claim(hex.EncodeToString(b[:]), r.Uint64()>>1)
		for j := range ops[i].Fingerprint.Sum {
			ops[i].Fingerprint.Sum[j] = b[j%len(b)]
		}
	}
	return ops
}

func benchPairs(b *testing.B, s *Store, claims, ends []dedup.Op) {
	for i, a := range apply(b, s, claims...) {
		if a.Kind != dedup.Acquired {
			b.Fatal(a.Kind)
		}
		ends[i] = success(claims[i], a)
	}
	apply(b, s, ends...)
}

// BenchmarkPairs claims and completes in batches; with sync off, it shows what
// the processor does.
func BenchmarkPairs(b *testing.B) {
	for _, batch := range []int{10, 100, 1000} {
		for _, noSync := range []bool{false, true} {
			b.Run(fmt.Sprintf("batch=%d/sync=%v", batch, !noSync), func(b *testing.B) {
				s := newStore(b, func(o *Options) { o.noSync = noSync })
				r := rand.New(rand.NewPCG(1, 1))
				ends := make([]dedup.Op, batch)
				b.ReportAllocs()
				b.ResetTimer()
				for i := 0; i < b.N; i += batch {
					b.StopTimer()
					claims := benchOps(r, batch)
					b.StartTimer()
					benchPairs(b, s, claims, ends)
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
			})
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	const ids = 1_000_000
	path := filepath.Join(b.TempDir(), "billing.db")
	s := openAt(b, path, func(o *Options) { o.noSync = true })
	r := rand.New(rand.NewPCG(1, 1))
	const batch = 10_000
	ends := make([]dedup.Op, batch)
	for range ids / batch {
		benchPairs(b, s, benchOps(r, batch), ends)
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s, err := Open(path, Options{Logger: quiet})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if s.Info().Records != ids {
			b.Fatal(s.Info())
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// BenchmarkExpire sweeps 100,000 ids, one after another in time.
func BenchmarkExpire(b *testing.B) {
	const ids = 100_000
	for b.Loop() {
		b.StopTimer()
		s := newStore(b, func(o *Options) { o.noSync = true })
		p := *policy
		p.Window = 1
		r := rand.New(rand.NewPCG(1, 1))
		const batch = 10_000
		ends := make([]dedup.Op, batch)
		for range ids / batch {
			claims := benchOps(r, batch)
			for i := range claims {
				claims[i].Policy, claims[i].Position = &p, dedup.Position{}
			}
			benchPairs(b, s, claims, ends)
		}
		b.StartTimer()
		swept := 0
		for more := true; more; {
			step, err := s.Sweep(b.Context(), 1000)
			if err != nil {
				b.Fatal(err)
			}
			swept, more = swept+step.Records, step.More
		}
		if swept != ids {
			b.Fatalf("swept %d", swept)
		}
		b.StopTimer()
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(b.N)*ids/b.Elapsed().Seconds(), "ids/s")
}
