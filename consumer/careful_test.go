package consumer_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup"
)

// claimCounter knows how many claims are held.
type claimCounter struct {
	dedup.Store
	held, most int
}

func (s *claimCounter) Apply(ctx context.Context, ops []dedup.Op) ([]dedup.Answer, error) {
	answers, err := s.Store.Apply(ctx, ops)
	for i := range answers {
		switch {
		case ops[i].Kind == dedup.Claim && answers[i].Kind.Acquired():
			s.held++
		case ops[i].Kind == dedup.End && answers[i].Kind == dedup.Done:
			s.held--
		}
	}
	s.most = max(s.most, s.held)
	return answers, err
}

// What has killed a process may kill the next one: with two crashes a claim runs
// alone, so that few may be held meanwhile.
func TestAfterACrashFewClaimsAreHeldAtOnce(t *testing.T) {
	const messages, workers = 3000, 4
	for _, crashed := range []bool{false, true} {
		t.Run(fmt.Sprint("crashed ", crashed), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, 1)
				store := &claimCounter{Store: r.store}
				r.cfg.Store, r.cfg.Workers = store, workers
				route := consumer.JSON("order.create", order.ID, func(context.Context, order) error { return nil })
				route.Fingerprint = consumer.Fields("no")
				for i := range messages {
					r.send(orderJSON(fmt.Sprint("o-", i), 1))
				}
				if crashed {
					var ops []dedup.Op
					for i := range messages {
						ops = append(ops, dedup.Op{
							Kind: dedup.Claim, Key: dedup.Key{Consumer: "billing", Scope: "order.create", ID: fmt.Sprint("o-", i)},
							Token: dedup.Token{1, byte(i), byte(i >> 8)}, Lease: time.Second, Fingerprint: dedup.Fingerprint{Rule: 99},
							Policy: &dedup.Policy{Failures: 10, Lone: 3, Window: time.Hour},
						})
					}
					if _, err := r.store.Apply(t.Context(), ops); err != nil {
						t.Fatal(err)
					}
					pass(2 * time.Second)
				}
				r.run(route)
				pass(time.Minute)
				r.wantUnsettled(0)
				if few := store.most <= 4*workers; few != crashed {
					t.Errorf("%d claims were held at once by %d workers", store.most, workers)
				}
				if err := r.end(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
