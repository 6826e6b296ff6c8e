package deadletter_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
)

// What went wrong with replays elsewhere, and the test that shows it cannot here;
// where it is in no other file, it is in this one.
//
//	what fails again is sent again and again     TestWhatFailsAgainDoesNotJoinTheJob
//	two jobs on one letter                        TestTwoOperatorsAtOnceSendEachLetterOnceAndTheSecondIsTold
//	killed between send and mark                  TestAnApplicationThatDiesAtAnyStepIsContinued
//	an old Nats-Msg-Id makes the copy a nothing   TestTheCopyIsTheOriginalWithoutWhatCommandsTheBroker
//	a failed send counts as sent                  TestACopyThatIsNotConfirmedIsNotCountedAsSent
//	other groups see the copy                     TestOthersWhoReadTheSourceDoNotSeeAReplay
//	the older message runs behind the newer one   TestWhatRanAfterALettersMessageIsSaidBeforeItIsSent,
//	                                              TestOfOneOrderingKeyTheOlderMessageGoesFirst
//	the partition of once                         TestAMessageWithoutAKeyGoesToItsPartitionWhereThereIsOne
//	endless rounds                                TestALetterWhoseThirdRunFailedIsHeldUntilItIsApproved
//	headers that grow                             TestTwentyRoundsLeaveTheHeadersAsTheyWere
//	a record that expires under its letter        TestAKeyedOpenLetterKeepsItsRecordFromTheSweeper
//	bytes that change on the way                  TestTheCopyIsTheOriginalWithoutWhatCommandsTheBroker
//	a payload at the limit, endless stacks        TestAPointerLetterSendsTheMessageThatItPointsTo, and the letter's own tests
//	markup on a terminal                          the command's tests of hostile letters
//	fifty or everything                           TestARateIsKept, TestACanaryThatFailsStopsTheRest
//	a stream that reading empties                 the adapter refuses one as a dead-letter stream
//	fewer partitions than the source              partition numbers are never copied: a letter goes where its key belongs

func TestACopyThatIsNotConfirmedIsNotCountedAsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, fault := range []error{brokers.ErrTooLarge, brokers.ErrNoDestination, brokers.ErrUnauthorized} {
			d := newDesk(t)
			d.handleBy(terminal)
			d.digest(`{"order_id":"a"}`)
			d.mend(nil)
			f := d.plan(deadletter.Selection{})
			d.mem.FailPublish("orders.billing.retry", fault)
			r, err := d.q.Apply(t.Context(), f, deadletter.ApplyConfig{})
			if r.Counts[deadletter.DidSend] != 0 || r.Counts[deadletter.DidFail] != 1 || (err != nil) == (fault == brokers.ErrTooLarge) {
				t.Errorf("%v: %+v, %v", fault, r, err)
			}
			want(t, "outcome", d.outcomes(f), map[deadletter.Outcome]int{deadletter.NotSent: 1})
			d.mem.FailPublish("orders.billing.retry", nil)
			want(t, "again", d.apply(f, deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidSend: 1})
			d.digest()
			d.once("a")
		}
	})
}

func TestACopyWhoseConfirmationIsLostIsSentAgainAndRunsOnce(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.handleBy(terminal)
		d.digest(`{"order_id":"a"}`, `v2 {"order_id":"b"}`)
		d.mend(nil)
		f := d.plan(deadletter.Selection{})
		d.mem.LoseConfirmations("orders.billing.retry", 3)
		want(t, "applied", d.apply(f, deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidSend: 2})
		d.digest()
		d.once("a", "b")
		want(t, "outcome", d.outcomes(f), map[deadletter.Outcome]int{deadletter.Succeeded: 2})
	})
}

// miscounting is a broker that does not know whether it has stored a message
// and, asked again, answers for one more than there are.
type miscounting struct {
	browsing
	asked int
}

func (m *miscounting) Publish(_ context.Context, messages []brokers.Outgoing) []error {
	n := len(messages)
	if m.asked++; m.asked > 1 {
		n++
	}
	return slices.Repeat([]error{brokers.ErrUnknownOutcome}, n)
}

func TestABrokerThatMiscountsHasSentNothing(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.handleBy(terminal)
		d.digest(`{"order_id":"a"}`)
		d.mend(nil)
		f := d.plan(deadletter.Selection{})
		d.q.Broker = &miscounting{browsing: d.broker}
		r, err := d.q.Apply(t.Context(), f, deadletter.ApplyConfig{})
		if !errors.Is(err, brokers.ErrUnknownOutcome) || r.Counts[deadletter.DidSend] != 0 || r.Counts[deadletter.DidFail] != 1 {
			t.Errorf("%+v, %v", r, err)
		}
		d.q.Broker = d.broker
		want(t, "again", d.apply(f, deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidSend: 1})
		d.digest()
		d.once("a")
	})
}

func TestOthersWhoReadTheSourceDoNotSeeAReplay(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.handleBy(terminal)
		d.digest(`{"order_id":"a"}`)
		d.apply(d.plan(deadletter.Selection{}), deadletter.ApplyConfig{})
		if n := len(d.mem.Messages("orders")); n != 1 {
			t.Errorf("the source has %d messages", n)
		}
	})
}

func TestWhatRanAfterALettersMessageIsSaidBeforeItIsSent(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.handleBy(terminal)
		policy := &dedup.Policy{Failures: 1, Lone: 1, Window: time.Hour}
		token := dedup.Token{1}
		change := func(kind dedup.Kind, id string, fence uint64) uint64 {
			answers, err := dedup.Apply(t.Context(), d.store, []dedup.Op{{
				Kind: kind, Key: dedup.Key{Consumer: "billing", Scope: "order.cancel", ID: id}, Token: token, Fence: fence,
				Policy: policy, Lease: time.Hour, Outcome: dedup.Success,
			}})
			if err != nil {
				t.Fatal(err)
			}
			return answers[0].Fence
		}
		// Another action on order a is claimed already when that order fails,
		// and runs behind it; that on order b is over.
		fence := change(dedup.Claim, "a", 0)
		change(dedup.End, "b", change(dedup.Claim, "b", 0))
		time.Sleep(time.Second)
		d.digest(`{"order_id":"a"}`, `{"order_id":"b"}`)
		change(dedup.End, "a", fence)
		f := d.plan(deadletter.Selection{})
		if f.LaterCount != 1 || len(f.Later) != 1 || f.Later[0].Scope != "order.cancel" || f.Later[0].ID != "a" || f.Later[0].State != "succeeded" {
			t.Errorf("later: %+v", f.Later)
		}
		for _, e := range d.letters(deadletter.Filter{}) {
			later, err := d.q.Later(t.Context(), &e)
			if err != nil || len(later) != map[string]int{"a": 1}[e.Letter.Key.ID] {
				t.Errorf("later than %v: %+v, %v", e.Letter.Key, later, err)
			}
		}
	})
}

// Today's partitions decide where a copy goes that is sent to the source.
func TestAMessageWithoutAKeyGoesToItsPartitionWhereThereIsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for partition, want := range map[int32]bool{1: true, 7: false} {
			d := newDesk(t)
			at := int32(1)
			d.mem.Produce("orders", brokers.Outgoing{Partition: &at, Value: []byte("no json")})
			d.digest()
			d.q.Read = func(m *brokers.Delivery) (deadletter.Letter, error) {
				l, err := deadletter.Decode(m)
				l.Source.Partition = partition
				return l, err
			}
			d.apply(d.plan(deadletter.Selection{To: deadletter.ToSource}), deadletter.ApplyConfig{})
			all := d.mem.Messages("orders")
			if len(all) != 2 || want && all[1].Partition != 1 {
				t.Errorf("partition %d of once: %+v", partition, all)
			}
		}
	})
}

func TestTwentyRoundsLeaveTheHeadersAsTheyWere(t *testing.T) {
	for name, payload := range map[string]string{"with a key": `{"order_id":"a"}`, "without a key": `{"no":"id"}`} {
		t.Run(name, func(t *testing.T) {
			atDesk(t, func(t *testing.T, d *desk) {
				d.handleBy(func(o order) error {
					return consumer.Terminal(fmt.Errorf("no such customer"))
				})
				d.digest(payload)
				var first int
				for round := range 20 {
					for _, e := range d.letters(deadletter.Filter{States: []dedup.LetterState{dedup.LetterHeld}}) {
						if err := d.q.Move(t.Context(), e.Letter.ID, dedup.LetterOpen, "ann", "once more"); err != nil {
							t.Fatal(err)
						}
					}
					d.apply(d.plan(deadletter.Selection{}), deadletter.ApplyConfig{})
					d.digest()
					copies, size, traces := d.mem.Messages("orders.billing.retry"), 0, 0
					if len(copies) != round+1 {
						t.Fatalf("%d copies in round %d", len(copies), round)
					}
					for _, h := range copies[round].Headers {
						size += len(h.Key) + len(h.Value)
						if h.Key == "traceparent" {
							traces++
						}
					}
					if round == 0 {
						first = size
					}
					if size > first+1 || traces != 1 { // the count has a second digit in the end
						t.Errorf("round %d: %d bytes of headers, first %d; %d traces", round, size, first, traces)
					}
				}
				if open := d.letters(deadletter.Filter{}); len(open) != 1 || open[0].Letter.ReplayCount != 20 {
					t.Errorf("%d letters, sent %d times", len(open), open[0].Letter.ReplayCount)
				}
			})
		})
	}
}

func TestAForgedLetterOfAnotherConsumerHoldsUpNobody(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.handleBy(terminal)
		d.digest(`{"order_id":"a"}`, `{"order_id":"b"}`)
		forged := deadletter.Encode(deadletter.Letter{ID: "forged", Consumer: "shipping", Reason: deadletter.ReasonTerminal, Source: deadletter.Source{Topic: "orders"}}, d.q.Topic)
		for _, partition := range []int32{0, 1} {
			forged.Partition = &partition
			d.mem.Produce(d.q.Topic, forged)
		}
		d.mend(nil)
		f := d.plan(deadletter.Selection{})
		if f.Counts[deadletter.Reopen] != 2 || f.Counts[deadletter.Send] != 0 {
			t.Errorf("planned %v", f.Counts)
		}
		d.apply(f, deadletter.ApplyConfig{})
		d.digest()
		d.once("a", "b")
	})
}

func TestLettersThatRetentionRemovedUnseenAreMissedByAPlanOfAll(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.handleBy(terminal)
		d.digest(orders(12)...)
		d.mem.DropBelow(d.q.Topic, 0, 100)
		left := len(d.letters(deadletter.Filter{}))
		if p := d.plan(deadletter.Selection{}); p.Letters != left {
			t.Errorf("too early to miss any: %v", p.Counts)
		}
		time.Sleep(2 * time.Hour)
		if p := d.plan(deadletter.Selection{Filter: deadletter.Filter{Reasons: []deadletter.Reason{deadletter.ReasonTerminal}}}); p.Letters != left {
			t.Errorf("missed by a plan of some: %v", p.Counts)
		}
		f := d.plan(deadletter.Selection{})
		want(t, "planned", f.Counts, map[deadletter.Action]int{deadletter.Reopen: left, deadletter.Miss: 12 - left})
		for range 2 {
			if got := d.apply(f, deadletter.ApplyConfig{})[deadletter.DidMiss]; got != 12-left {
				t.Errorf("%d are gone, want %d", got, 12-left)
			}
		}
		if got := d.outcomes(f)[deadletter.Gone]; got != 12-left {
			t.Errorf("outcome: %d are gone", got)
		}
		open := 0
		for l, err := range d.store.ScanLetters(t.Context(), "billing") {
			if err != nil {
				t.Fatal(err)
			}
			if l.State == dedup.LetterOpen {
				open++
			}
		}
		if open > 0 {
			t.Errorf("%d are still counted as open", open)
		}
	})
}
