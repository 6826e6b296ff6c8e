package main

import (
	"crypto/rand"
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/boltstore"
)

func init() {
	cases["store-onceward"] = storePairs
	cases["store-open"] = storeOpen
	cases["store-expiry"] = storeExpiry
}

const expired = 100_000 // ids that expire in store-expiry

var (
	kept  = &dedup.Policy{Failures: 10, Lone: 3, Window: 14 * 24 * time.Hour}
	short = &dedup.Policy{Failures: 10, Lone: 3, Window: time.Second}
)

func openStore(path string) *boltstore.Store {
	s, err := boltstore.Open(path, boltstore.Options{})
	must(err)
	return s
}

func claim(id string, p *dedup.Policy) dedup.Op {
	op := dedup.Op{Kind: dedup.Claim, Key: dedup.Key{Consumer: "billing", Scope: "order.create", ID: id}, Policy: p, Lease: 30 * time.Second}
	_, _ = rand.Read(op.Token[:])
	return op
}

func complete(c *dedup.Op, a dedup.Answer) dedup.Op {
	if a.Kind != dedup.Acquired {
		panic(fmt.Sprintf("claim of %s: %v %v", c.Key, a.Kind, a.Err))
	}
	return dedup.Op{Kind: dedup.End, Key: c.Key, Token: c.Token, Fence: a.Fence, Outcome: dedup.Success, Policy: c.Policy}
}

func done(answers []dedup.Answer) {
	for _, a := range answers {
		if a.Kind != dedup.Done {
			panic(fmt.Sprintf("completion: %v %v", a.Kind, a.Err))
		}
	}
}

// fill claims and completes ids from..to as a consumer would, in batches.
func fill(s dedup.Store, from, to int, p *dedup.Policy) {
	const batch = 1000
	for i := from; i < to; i += batch {
		var ops []dedup.Op
		for j := i; j < min(i+batch, to); j++ {
			ops = append(ops, claim(orderID(j), p))
		}
		answers, err := s.Apply(ctx, ops)
		must(err)
		ends := make([]dedup.Op, len(ops))
		for k := range ops {
			ends[k] = complete(&ops[k], answers[k])
		}
		answers, err = s.Apply(ctx, ends)
		must(err)
		done(answers)
	}
}

// storePairs is claim and complete, each durable before the next step, by many
// callers through the Batcher.
func storePairs(m *meter) {
	s := openStore(filepath.Join(*dir, "store.db"))
	fill(s, 0, *pre, kept)
	b := dedup.NewBatcher(s, 0)
	names := make([]string, *n) // made outside the measured time, as for the other side
	for i := range names {
		names[i] = orderID(*pre + i)
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	m.first()
	for range *callers {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(names) {
					return
				}
				ops := []dedup.Op{claim(names[i], kept)}
				answers, err := b.Apply(ctx, ops)
				must(err)
				answers, err = b.Apply(ctx, []dedup.Op{complete(&ops[0], answers[0])})
				must(err)
				done(answers)
			}
		})
	}
	wg.Wait()
	m.last(*n)
	must(b.Close())
}

// inUse is the heap in use after two collections.
func inUse() float64 {
	runtime.GC()
	runtime.GC()
	var ms runtime.MemStats
	runtime.ReadMemStats(&ms)
	return float64(ms.HeapInuse)
}

// storeOpen opens a file of *pre finished ids whose pages are in the cache,
// and takes the memory both as the pairs left it and as opening builds it.
func storeOpen(m *meter) {
	path := filepath.Join(*dir, "store.db")
	before := inUse()
	s := openStore(path)
	fill(s, 0, *pre, kept)
	grown := inUse() - before
	must(s.Close())
	s = nil
	before = inUse()
	m.first()
	t := time.Now()
	s = openStore(path)
	m.Opened = time.Since(t).Seconds()
	m.last(*pre)
	m.Bytes = max(grown, inUse()-before) / float64(*pre)
	if have := s.Info().Records; have != int64(*pre) {
		panic(fmt.Sprintf("%d records", have))
	}
	must(s.Close())
}

// storeExpiry lets some ids expire beside *pre that stay, and takes the time
// that sweeping needs.
func storeExpiry(m *meter) {
	s := openStore(filepath.Join(*dir, "store.db"))
	fill(s, 0, *pre, kept)
	fill(s, *pre, *pre+expired, short)
	time.Sleep(2 * short.Window)
	m.first()
	var took time.Duration
	for gone := 0; gone < expired; {
		t := time.Now()
		swept, err := s.Sweep(ctx, 1000)
		must(err)
		took += time.Since(t)
		gone += swept.Records
		if swept.Records == 0 && !swept.More {
			time.Sleep(100 * time.Millisecond) // not due yet
		}
	}
	m.last(expired)
	m.Seconds, m.PerSecond = took.Seconds(), expired/took.Seconds()
	if have := s.Info().Records; have != int64(*pre) {
		panic(fmt.Sprintf("%d records are left of %d", have, *pre))
	}
	must(s.Close())
}

func driveStore() error {
	const present, pairs, naive = 1_000_000, 500_000, 5_000
	s, clean, err := newSuite()
	if err != nil {
		return err
	}
	defer clean()
	one, five := []string{"-pre", strconv.Itoa(scaled(present))}, []string{"-pre", strconv.Itoa(scaled(5 * present))}
	if err := s.rounds(*rounds,
		at("store-onceward", pairs, one...),
		at("store-naive", naive, one...),
		at("store-open", present, one...),
		at("store-expiry", expired, one...).named("expiry, 1 million kept"),
		at("store-expiry", expired, five...).named("expiry, 5 million kept"),
	); err != nil {
		return err
	}
	report([]figure{
		{"pairs_ratio", s.ratio("store-onceward", "store-naive", perSecond)},
		{"bytes_per_id", s.median("store-open", func(r result) float64 { return r.Bytes })},
		{"open_1m_seconds", s.median("store-open", func(r result) float64 { return r.Opened })},
		{"expiry_ratio", s.ratio("expiry, 5 million kept", "expiry, 1 million kept", seconds)},
	}, map[string]string{
		"pairs_ratio":     "of two bbolt transactions a message; at least 60, target 120",
		"bytes_per_id":    "of heap in use; at most 50",
		"open_1m_seconds": "to open with a million ids; under 1.5",
		"expiry_ratio":    "of the time to expire 100,000 ids, 5 million kept to 1 million; under 1.5",
	})
	return nil
}
