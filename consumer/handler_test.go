package consumer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup"
)

func TestMiddlewareRunsInsideTheClaimAndNeverForDuplicates(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		var ran trace
		wrap := func(name string) consumer.Middleware {
			return func(next consumer.Handler) consumer.Handler {
				return func(ctx context.Context, d *consumer.Delivery) (consumer.Result, error) {
					if consumer.Info(ctx).Fence == 0 {
						t.Error("no fence in the middleware's context")
					}
					ran.add(name)
					return next(ctx, d)
				}
			}
		}
		r.cfg.Middleware = []consumer.Middleware{wrap("outer"), wrap("inner")}
		r.run(consumer.JSON("order.create", order.ID, func(context.Context, order) error {
			ran.add("handler")
			return nil
		}))
		r.send(orderJSON("o-1", 1), orderJSON("o-1", 1), orderJSON("o-1", 1))
		pass(time.Second)
		if got := fmt.Sprint(ran.all()); got != "[outer inner handler]" {
			t.Errorf("ran %s", got)
		}
		r.end()
	})
}

func TestARepeatIsAnsweredWithTheFirstResult(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		type receipt struct{ No string }
		var seen trace
		route := consumer.JSONResult("order.pay", order.ID, func(_ context.Context, o order) (receipt, error) {
			return receipt{No: "r-" + o.No}, nil
		})
		route.OnDuplicate = func(_ context.Context, d *consumer.Delivery, stored consumer.Result) {
			seen.add(d.Key.ID + " " + string(stored))
		}
		r.run(route)
		r.send(orderJSON("o-1", 1), orderJSON("o-1", 1))
		pass(time.Second)
		if got := fmt.Sprint(seen.all()); got != `[o-1 {"No":"r-o-1"}]` {
			t.Errorf("seen %s", got)
		}
		r.end()
	})
}

func TestOutputIDsAreStableOverAttemptsAndDifferWithinOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		var ids trace
		r.run(consumer.JSON("order.create", order.ID, func(ctx context.Context, o order) error {
			op := consumer.Info(ctx)
			ids.add(op.OutputID(1) + " " + op.OutputID(2))
			if op.Failures == 0 {
				return errors.New("once more")
			}
			return nil
		}))
		r.send(orderJSON("o-1", 1), orderJSON("o-2", 1))
		pass(time.Minute)
		got := ids.all()
		if len(got) != 4 {
			t.Fatalf("%d attempts", len(got))
		}
		distinct := map[string]int{}
		for _, both := range got {
			one, two, _ := strings.Cut(both, " ")
			if one == two {
				t.Error("two outputs of one attempt share an id")
			}
			distinct[both]++
		}
		if len(distinct) != 2 {
			t.Errorf("ids of two operations over two attempts: %v", got)
		}
		r.end()
	})
}

func TestTheFirstMatchingRouteTakesADeliveryAndNoneIsAKeyLetter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		var ran trace
		route := func(kind string) consumer.Route {
			return consumer.Route{
				Scope: kind + ".sent",
				Match: consumer.HeaderIs("type", kind),
				ID:    consumer.Join(consumer.Header("tenant"), consumer.Field("no")),
				Run: func(_ context.Context, d *consumer.Delivery) (consumer.Result, error) {
					ran.add(d.Key.Scope)
					return nil, nil
				},
			}
		}
		r.run(route("invoice"), route("reminder"))
		for _, kind := range []string{"invoice", "reminder", "invoice", "other"} {
			r.broker.Produce(topic, brokers.Outgoing{Value: []byte(`{"no":1}`), Headers: []brokers.Header{
				{Key: "type", Value: []byte(kind)}, {Key: "tenant", Value: []byte("t-1")},
			}})
		}
		pass(time.Second)
		if got := len(ran.all()); got != 2 {
			t.Errorf("ran %v", ran.all())
		}
		r.wantReasons("key")
		r.end()
	})
}

func TestAHandlerThatEndsItsGoroutineIsAFailure(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.cfg.Workers = 2
		var runs counter
		route := consumer.JSON("order.create", order.ID, func(_ context.Context, o order) error {
			if runs.add(o.No) < 4 {
				runtime.Goexit()
			}
			return nil
		})
		r.run(route)
		for i := range 5 {
			r.send(orderJSON(fmt.Sprint("o-", i), 1))
		}
		pass(time.Minute)
		if runs.total() != 20 {
			t.Errorf("%d runs, want 20", runs.total())
		}
		r.wantUnsettled(0)
		if err := r.end(); err != nil {
			t.Error(err)
		}
	})
}

func TestASecretInAnErrorReachesNoLogRecordOrLetter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const secret = "s3cr3t"
		r := newRig(t, 1)
		var logged bytes.Buffer
		r.cfg.Logger = slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
		r.cfg.Redact = func(s string) string { return strings.ReplaceAll(s, secret, "***") }
		route := consumer.JSON("order.create", order.ID, func(_ context.Context, o order) error {
			switch o.No {
			case "panics":
				panic("token " + secret)
			case "retried":
				return errors.New("token " + secret)
			}
			return consumer.Terminal(errors.New("token " + secret))
		})
		route.Retry.MaxFailures = 2
		r.run(route)
		r.send(orderJSON("refused", 1), orderJSON("panics", 1), orderJSON("retried", 1))
		pass(time.Minute)
		r.wantReasons("exhausted", "exhausted", "terminal")
		for _, l := range r.broker.Letters("billing", topic) {
			for _, h := range l.Headers {
				if bytes.Contains(h.Value, []byte(secret)) {
					t.Errorf("letter's %s has the secret", h.Key)
				}
			}
			if header(l, "dl-error") == "" {
				t.Error("letter has no error")
			}
		}
		records, err := r.store.Lookup(t.Context(), []dedup.Key{
			{Consumer: "billing", Scope: "order.create", ID: "refused"}, {Consumer: "billing", Scope: "order.create", ID: "panics"},
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, rec := range records {
			if strings.Contains(rec.Error+rec.Stack, secret) {
				t.Errorf("record of %s has the secret", rec.Key.ID)
			}
		}
		r.end()
		if strings.Contains(logged.String(), secret) {
			t.Error("the log has the secret")
		}
	})
}

func TestTheFirstLineOfALogSaysWhatTheConsumerDoes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		var logged bytes.Buffer
		r.cfg.Logger = slog.New(slog.NewTextHandler(&logged, nil))
		r.send(orderJSON("o-1", 1))
		r.run(consumer.Route{Scope: "order.create", ID: consumer.Field("no"), Run: func(context.Context, *consumer.Delivery) (consumer.Result, error) {
			return nil, nil
		}})
		pass(2 * time.Second)
		r.end()
		for _, want := range []string{
			"consumer=billing", "start=earliest", "backlog=1", "order.create=", "billing/order.create/o-1", "336h", "memstore",
			"orders.billing.dlq", "orders.billing.retry", "workers=16", "unfinished=6000",
		} {
			if !strings.Contains(logged.String(), want) {
				t.Errorf("log does not say %q:\n%s", want, logged.String())
			}
		}
	})
}

// From an alarm on the log to the letter: "onceward dlq show" takes its dl-id.
func TestTheLogNamesTheLetter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		var logged bytes.Buffer
		r.cfg.Logger = slog.New(slog.NewTextHandler(&logged, nil))
		r.send(orderJSON("o-1", 1), `{"no":`)
		r.run(consumer.JSON("order.create", order.ID, func(context.Context, order) error { return consumer.Terminal(errors.New("no")) }))
		pass(2 * time.Second)
		r.wantReasons("decode", "terminal")
		r.end()
		for _, m := range r.broker.Letters("billing", topic) {
			if id := header(m, "dl-id"); !strings.Contains(logged.String(), " dl_id="+id+"\n") {
				t.Errorf("log does not name letter %s:\n%s", id, logged.String())
			}
		}
	})
}

func TestTheSameKeyWithOtherContentIsAConflictWhateverTheState(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 8)
		finish := make(chan struct{})
		var runs counter
		route := consumer.JSON("order.create", order.ID, func(_ context.Context, o order) error {
			runs.add(fmt.Sprint(o.No, " ", o.Cents))
			switch o.No {
			case "running":
				<-finish
			case "failed":
				return consumer.Terminal(errors.New("no"))
			}
			return nil
		})
		route.Order = consumer.Extract{Rule: "cents", From: func(d *consumer.Delivery) (string, error) {
			return fmt.Sprint(d.Decoded), nil
		}}
		r.run(route)
		for _, no := range []string{"done", "failed", "running"} {
			r.send(orderJSON(no, 1))
		}
		pass(time.Minute)
		for _, no := range []string{"done", "failed", "running"} {
			r.send(orderJSON(no, 2), orderJSON(no, 2))
		}
		pass(time.Minute)
		close(finish)
		pass(time.Minute)
		ids := map[string]bool{}
		for _, l := range r.broker.Letters("billing", topic) {
			if header(l, "dl-reason") == "conflict" {
				ids[header(l, "dl-id")] = true
			}
		}
		if len(ids) != 3 {
			t.Errorf("%d incidents of conflict, want 3", len(ids))
		}
		if runs.total() != 3 {
			t.Errorf("runs: %v", runs.runs)
		}
		r.wantUnsettled(0)
		r.end()
	})
}
