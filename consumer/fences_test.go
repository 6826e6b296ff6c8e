package consumer_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/boltstore"
)

func TestFencesRiseOverCrashesExpiryAndDeletion(t *testing.T) {
	file := filepath.Join(t.TempDir(), "billing.db")
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		var fences []uint64
		var key dedup.Key
		crashing := true
		begun := make(chan struct{}, 1)
		route := consumer.JSON("order.create", order.ID, func(ctx context.Context, _ order) error {
			op := consumer.Info(ctx)
			key = op.Key
			fences = append(fences, op.Fence)
			begun <- struct{}{}
			if crashing {
				<-ctx.Done()
			}
			return ctx.Err()
		})
		route.Window, route.Retry.MaxLoneCrashes = 2*time.Hour, 100
		open := func() *boltstore.Store {
			s, err := boltstore.Open(file, boltstore.Options{Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			r.cfg.Store = s
			return s
		}
		r.send(orderJSON("o-1", 1))
		for range 50 {
			s := open()
			r.run(route)
			<-begun
			settle()
			if err := s.Close(); err != nil { // nothing that follows is written
				t.Fatal(err)
			}
			r.broker.Crash("billing")
			_ = r.end()
		}
		crashing = false
		s := open()
		defer s.Close() //nolint:errcheck // the folder goes with the test
		r.run(route)
		<-begun
		pass(5 * time.Hour) // its window is over, and it is swept
		if records, err := s.Lookup(t.Context(), []dedup.Key{key}); err != nil || records[0].State != dedup.Absent {
			t.Fatalf("%v, %v: not expired", records, err)
		}
		r.send(orderJSON("o-1", 1))
		<-begun
		pass(time.Minute)
		records, err := s.Lookup(t.Context(), []dedup.Key{key})
		if err != nil {
			t.Fatal(err)
		}
		a, err := s.Apply(t.Context(), []dedup.Op{{Kind: dedup.Delete, Key: key, Operator: &dedup.OperatorOp{
			Seen: dedup.Seen{State: records[0].State, Run: records[0].Run, Fence: records[0].Fence}, Who: "me", Why: "test",
		}}})
		if err != nil || a[0].Kind != dedup.Done {
			t.Fatal(a, err)
		}
		r.send(orderJSON("o-1", 1))
		<-begun
		pass(time.Minute)
		if len(fences) != 53 {
			t.Errorf("%d runs, want 50 that crashed and 3", len(fences))
		}
		for i := 1; i < len(fences); i++ {
			if fences[i] <= fences[i-1] {
				t.Errorf("fence %d after %d", fences[i], fences[i-1])
			}
		}
		r.wantReasons()
		r.wantUnsettled(0)
		if err := r.end(); err != nil {
			t.Error(err)
		}
	})
}
