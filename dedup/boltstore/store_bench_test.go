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
