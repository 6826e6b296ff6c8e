package via

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/membroker"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/memstore"
)

// bookings counts what a handler has done, or refuses to.
type bookings struct {
	mu     sync.Mutex
	done   map[string]int
	broken bool
}

func (b *bookings) book(_ context.Context, d *consumer.Delivery) (consumer.Result, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken {
		return nil, consumer.Terminal(errors.New("no such customer"))
	}
	b.done[d.Key.ID]++
	return nil, nil
}

func (b *bookings) mend(broken bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.broken = broken
}

// A whole replay while the consumer runs: who only looks can plan it, the role
// replay does it, and what is held takes an approval.
func TestAReplayTakesItsRoleAndNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		known := slices.Concat(someTokens, []consumer.AdminToken{{Name: "ada", Token: "token-of-ada--0123456789", Role: consumer.AdminApprove}})
		o := &other{store: memstore.New(), broker: membroker.New(membroker.Config{Topics: map[string]int{topic: 2}})}
		b := &bookings{done: map[string]int{}, broken: true}
		c, err := consumer.New(consumer.Config{
			Name: "billing", Broker: o.broker, Topics: []string{topic}, StartFrom: consumer.Earliest, Store: o.store, Logger: slog.New(slog.DiscardHandler),
		}, consumer.Route{Scope: "order.create", ID: consumer.Field("no"), Run: b.book})
		if err != nil {
			t.Fatal(err)
		}
		if o.handler, err = c.Admin(consumer.AdminConfig{Tokens: known}); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		defer func() {
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}()
		const n = 40
		for i := range n {
			o.broker.Produce(topic, brokers.Outgoing{Value: fmt.Appendf(nil, `{"no":"A-%d"}`, i)})
		}
		time.Sleep(time.Minute)

		queue := func(token consumer.AdminToken) *deadletter.Queue {
			client := wired(t, o.handler, Options{Token: token.Token})
			return &deadletter.Queue{Topic: client.Destinations("billing", topic).DeadLetter, Consumer: client.Name(), Broker: client, Store: client}
		}
		vera, rick, ada := queue(known[0]), queue(known[1]), queue(known[2])
		plan := func(q *deadletter.Queue, approved ...string) *deadletter.PlanFile {
			t.Helper()
			var text bytes.Buffer
			if _, err := q.Plan(t.Context(), deadletter.Selection{Who: "somebody", Why: "mended", Approved: approved}, &text); err != nil {
				t.Fatal(err)
			}
			file, err := deadletter.ReadPlan(bytes.NewReader(text.Bytes()))
			if err != nil {
				t.Fatal(err)
			}
			return file
		}
		apply := func(q *deadletter.Queue, file *deadletter.PlanFile) (deadletter.Report, error) {
			r, err := q.Apply(t.Context(), file, deadletter.ApplyConfig{})
			time.Sleep(time.Minute)
			return r, err
		}
		if _, err := apply(vera, plan(vera)); !errors.Is(err, ErrRole) || len(o.broker.Messages(retry)) > 0 {
			t.Fatalf("who only looks replays: %v", err)
		}
		for round := range 2 { // once more in vain, twice
			if r, err := apply(rick, plan(vera)); err != nil || r.Counts[deadletter.DidSend] != n {
				t.Fatalf("round %d: %+v, %v", round, r, err)
			}
		}
		var held []string
		for l, err := range o.store.ScanLetters(t.Context(), "billing") {
			if err != nil {
				t.Fatal(err)
			}
			if l.State == dedup.LetterHeld {
				held = append(held, l.ID)
			}
		}
		if len(held) != n {
			t.Fatalf("%d letters are held", len(held))
		}
		b.mend(false)
		approved := plan(vera, held...)
		if r, err := apply(rick, approved); !errors.Is(err, ErrRole) || r.Counts[deadletter.DidSend] > 0 {
			t.Fatalf("held letters are sent by the role replay: %+v, %v", r, err)
		}
		if r, err := apply(ada, approved); err != nil || r.Counts[deadletter.DidSend] != n {
			t.Fatalf("%+v, %v", r, err)
		}
		for l, err := range ada.Store.ScanLetters(t.Context(), "billing") {
			if err != nil {
				t.Fatal(err)
			}
			if l.State != dedup.LetterResolved || l.Run == 3 && l.Answer != dedup.Succeeded {
				t.Errorf("%+v", l)
			}
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		for i := range n {
			if got := b.done[fmt.Sprintf("A-%d", i)]; got != 1 {
				t.Errorf("A-%d was booked %d times", i, got)
			}
		}
	})
}
