package consumer_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup"
)

// places are the functions of a configuration that run outside of handlers, by
// name; each calls act when it meets the message "bad".
var places = map[string]func(cfg *consumer.Config, r *consumer.Route, act func()){
	"Match": func(_ *consumer.Config, r *consumer.Route, act func()) {
		r.Match = consumer.Match{Rule: "all", Is: func(d *consumer.Delivery) bool { onBad(d, act); return true }}
	},
	"Decode": func(_ *consumer.Config, r *consumer.Route, act func()) {
		r.Decode = func(d *consumer.Delivery) (any, error) { onBad(d, act); return order{}, nil }
	},
	"ID": func(_ *consumer.Config, r *consumer.Route, act func()) {
		r.ID = consumer.Extract{Rule: "value", From: func(d *consumer.Delivery) (string, error) { onBad(d, act); return string(d.Value), nil }}
	},
	"Order": func(_ *consumer.Config, r *consumer.Route, act func()) {
		r.Order = consumer.Extract{Rule: "value", From: func(d *consumer.Delivery) (string, error) { onBad(d, act); return string(d.Value), nil }}
	},
	"Fingerprint": func(_ *consumer.Config, r *consumer.Route, act func()) {
		r.Fingerprint = consumer.Digest{Rule: "none", Sum: func(d *consumer.Delivery) ([32]byte, error) { onBad(d, act); return [32]byte{}, nil }}
	},
	"Classify": func(_ *consumer.Config, r *consumer.Route, act func()) {
		r.Classify = func(error) consumer.Class { act(); return consumer.ClassRetryable }
	},
	"OnDuplicate": func(_ *consumer.Config, r *consumer.Route, act func()) {
		r.OnDuplicate = func(context.Context, *consumer.Delivery, consumer.Result) { act() }
	},
	"Observer": func(cfg *consumer.Config, _ *consumer.Route, act func()) {
		cfg.Observer = func(ds []consumer.Decision) {
			if slices.ContainsFunc(ds, func(d consumer.Decision) bool { return d.Verdict == consumer.Retried }) {
				act()
			}
		}
	},
	"Redact": func(cfg *consumer.Config, _ *consumer.Route, act func()) {
		cfg.Redact = func(s string) string { act(); return s }
	},
}

const drain = 25 * time.Second // the default

func onBad(d *consumer.Delivery, act func()) {
	if strings.Contains(string(d.Value), "bad") {
		act()
	}
}

// meet starts a consumer and has it meet what the function stumbles over.
func (r *rig) meet(where string, act func()) {
	route := consumer.JSON("order.create", order.ID, func(_ context.Context, o order) error {
		if o.No == "bad" {
			return errors.New("refused")
		}
		return nil
	})
	places[where](&r.cfg, &route, act)
	r.run(route)
	settle()
	r.send(orderJSON("good", 1), orderJSON("bad", 1))
	pass(time.Second)
	r.send(orderJSON("good", 1)) // a duplicate
	pass(time.Second)
}

func TestAFunctionThatTakesItsGoroutineAlongEndsTheConsumer(t *testing.T) {
	for where := range places {
		t.Run(where, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, 1)
				r.meet(where, runtime.Goexit)
				select {
				case err := <-r.ended:
					if err == nil || !strings.Contains(err.Error(), where) || !strings.Contains(err.Error(), "Goexit") {
						t.Errorf("Run returned %v", err)
					}
				case <-time.After(2 * drain):
					t.Error("the consumer stands still and says nothing")
					r.end()
				}
			})
		})
	}
}

// Enlisted work runs where commits are written.
func TestEnlistedWorkThatTakesItsGoroutineAlongEndsTheConsumer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.run(consumer.JSON("order.create", order.ID, func(ctx context.Context, _ order) error {
			return dedup.Enlist(ctx, func() error { runtime.Goexit(); return nil })
		}))
		settle()
		r.send(orderJSON("o-1", 1))
		select {
		case err := <-r.ended:
			if err == nil || !strings.Contains(err.Error(), "enlisted") || !strings.Contains(err.Error(), "Goexit") {
				t.Errorf("Run returned %v", err)
			}
		case <-time.After(2 * drain):
			t.Error("the consumer stands still and says nothing")
			r.end()
		}
		r.wantUnsettled(1)
	})
}

func TestAFunctionThatBlocksHoldsNoProcessBack(t *testing.T) {
	for where := range places {
		t.Run(where, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, 1)
				release := make(chan struct{})
				defer func() { close(release); settle() }()
				r.meet(where, func() { <-release })
				pass(2 * time.Minute)
				if r.c.Status().Live {
					t.Error("it is live, and nothing goes on")
				}
				r.stop()
				stopped := time.Now()
				select {
				case err := <-r.ended:
					if err == nil || !strings.Contains(err.Error(), where) {
						t.Errorf("Run returned %v", err)
					}
				case <-time.After(2 * drain):
					t.Error("Run does not return")
				}
				if took := time.Since(stopped); took > drain+5*time.Second {
					t.Errorf("Run took %v", took)
				}
			})
		})
	}
}

func TestAMiddlewareThatGivesNothingIsRefused(t *testing.T) {
	r := newRig(t, 1)
	r.cfg.Middleware = []consumer.Middleware{
		func(h consumer.Handler) consumer.Handler { return h },
		func(consumer.Handler) consumer.Handler { return nil },
	}
	_, err := consumer.New(r.cfg, consumer.JSON("order.create", order.ID, func(context.Context, order) error { return nil }))
	var config *consumer.ConfigError
	if !errors.As(err, &config) || config.Faults[0].Field != "Config.Middleware[1]" {
		t.Errorf("New: %v", err)
	}
}

// What heals by itself is waited for; a store that is closed or damaged does
// not.
func TestAStoreThatWorksNoMoreEndsTheConsumer(t *testing.T) {
	for _, final := range []error{dedup.ErrClosed, &dedup.DamagedError{Where: "billing.db", What: "it is cut off"}, nil} {
		t.Run(fmt.Sprint(final), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, 1)
				r.cfg.Store = &endedStore{faultyStore: r.store, err: final}
				r.run(consumer.JSON("order.create", order.ID, func(context.Context, order) error { return nil }))
				r.send(orderJSON("o-1", 1))
				select {
				case err := <-r.ended:
					if final == nil || !errors.Is(err, final) {
						t.Errorf("Run returned %v", err)
					}
				case <-time.After(2 * drain):
					if final != nil {
						t.Error("the consumer waits for ever")
					}
					r.end()
				}
			})
		})
	}
}

// endedStore has found out that it is closed or damaged; without err it only
// fails.
type endedStore struct {
	*faultyStore
	err error
}

func (s *endedStore) Apply(context.Context, []dedup.Op) ([]dedup.Answer, error) {
	return nil, cmp.Or(s.err, errDiskFull)
}

func (s *endedStore) Sweep(context.Context, int) (dedup.Swept, error) {
	return dedup.Swept{}, cmp.Or(s.err, errDiskFull)
}
