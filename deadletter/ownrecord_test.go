package deadletter_test

import (
	"errors"
	"testing"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
)

// recordOf is the record of a letter's key or, where it has none, of the letter.
func (d *desk) recordOf(e *deadletter.Entry) dedup.Record {
	d.t.Helper()
	r, err := d.q.Record(d.t.Context(), e)
	if err != nil {
		d.t.Fatal(err)
	}
	return r
}

// A retry copy died unread: the record's place is one of the retry topic.
func TestTheRecordOfALetterFromTheRetryTopicIsForgottenAfterItsWindow(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.digest() // so that the retry topic is there
		d.mem.Produce(d.broker.Destinations("billing", "orders").Retry, brokers.Outgoing{Value: []byte("v2 {}")})
		d.digest()
		e := d.letters(deadletter.Filter{})[0]
		if err := d.q.Move(t.Context(), e.Letter.ID, dedup.LetterDiscarded, "ann", "cannot be read"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(15 * 24 * time.Hour)
		d.digest()
		if r := d.recordOf(&e); r.State != dedup.Absent {
			t.Errorf("still there: %+v", r)
		}
	})
}

// The message had waited in its topic for longer than the window when it was
// first read, and died at once.
func TestALetterOfABacklogRunsThatIsSentBackAtOnce(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.remember(day)
		d.produce(`v2 {"order_id":"a"}`)
		time.Sleep(3 * d.window)
		d.digest()
		d.mend(nil)
		f := d.plan(deadletter.Selection{})
		want(t, "applied", d.apply(f, deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidSend: 1})
		d.digest()
		want(t, "outcome", d.outcomes(f), map[deadletter.Outcome]int{deadletter.Succeeded: 1})
		d.once("a")
	})
}

// Nobody tells the plan how short the window is, and no record is left to tell.
func TestADiscardedLetterWithoutAKeyDoesNotRunOnceItsNoteIsForgotten(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.window = 24 * time.Hour
		d.digest(`v2 {"order_id":"a"}`)
		if err := d.q.Move(t.Context(), d.letters(deadletter.Filter{})[0].Letter.ID, dedup.LetterDiscarded, "ann", "a test order"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * d.window)
		d.digest()
		d.mend(nil)
		d.apply(d.plan(deadletter.Selection{}), deadletter.ApplyConfig{})
		d.digest()
		if d.runs["a"] != 0 {
			t.Error("it ran")
		}
	})
}

// What others have written says where and when its message was first published.
func TestALetterOfOthersIsAsOldAsItself(t *testing.T) {
	for name, stay := range map[string]time.Duration{"read in time": time.Hour, "read too late": 25 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			atDesk(t, func(t *testing.T, d *desk) {
				d.remember(48 * time.Hour)
				d.mend(nil)
				d.foreign(deadletter.Foreign{}, `{"order_id":"a"}`)
				time.Sleep(24 * time.Hour)
				f := d.plan(deadletter.Selection{})
				want(t, "applied", d.apply(f, deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidSend: 1})
				time.Sleep(stay)
				d.digest()
				if got, ran := d.runs["a"], name == "read in time"; got != map[bool]int{true: 1}[ran] {
					t.Errorf("it ran %d times", got)
				}
			})
		})
	}
}

// A person frees a letter, and perhaps discards it, after a job has taken it and
// before the job opens its record.
func TestAJobOpensNoRecordOfALetterThatItHoldsNoMore(t *testing.T) {
	for _, payload := range []string{`{"order_id":"a"}`, `v2 {"order_id":"a"}`} {
		for _, to := range []dedup.LetterState{dedup.LetterOpen, dedup.LetterDiscarded} {
			t.Run(payload+" "+to.String(), func(t *testing.T) {
				atDesk(t, func(t *testing.T, d *desk) {
					d.handleBy(terminal)
					d.digest(payload)
					d.mend(nil)
					f := d.plan(deadletter.Selection{})
					e, ran := d.letters(deadletter.Filter{})[0], d.runs["a"]
					move := func(state dedup.LetterState) error {
						return d.q.Move(t.Context(), e.Letter.ID, state, "ann", "a test order")
					}
					m := &meddler{Store: d.store}
					m.before = func() {
						m.before = func() { // the letter is taken
							if err := move(dedup.LetterDiscarded); !errors.Is(err, deadletter.ErrRefused) {
								t.Errorf("a letter that a job holds was discarded: %v", err)
							}
							for _, state := range []dedup.LetterState{dedup.LetterOpen, to} {
								if err := move(state); err != nil {
									t.Error(err)
								}
							}
						}
					}
					r, err := d.withStore(m).Apply(t.Context(), f, deadletter.ApplyConfig{})
					if err != nil {
						t.Fatal(err)
					}
					want(t, "applied", r.Counts, map[deadletter.Did]int{deadletter.DidChange: 1})
					d.digest()
					if r := d.recordOf(&e); r.State != dedup.Failed || d.runs["a"] != ran {
						t.Errorf("the record is %v, and it ran %d times more", r.State, d.runs["a"]-ran)
					}
				})
			})
		}
	}
}

func TestALetterFromTheRetryTopicThatRetentionHasRemovedIsGone(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.digest() // so that the retry topic is there
		d.mem.Produce(d.broker.Destinations("billing", "orders").Retry, brokers.Outgoing{Value: []byte("v2 {}")})
		d.digest()
		e := d.letters(deadletter.Filter{})[0]
		d.mem.DropBelow(d.q.Topic, e.At.Partition, e.At.Offset+1)
		d.produce("v2 {}")
		time.Sleep(2 * time.Hour)
		d.digest()
		f := d.plan(deadletter.Selection{})
		want(t, "planned", f.Counts, map[deadletter.Action]int{deadletter.Miss: 1, deadletter.Reopen: 1})
	})
}

// Whoever can write letters could name the record of another letter, or that of
// a pause, which could not be lifted while the letter is open.
func TestAForgedLetterHasNoRecordOfTheFrameworksOwn(t *testing.T) {
	for _, key := range []dedup.Key{dedup.LetterKey("billing", "another"), {Consumer: "billing", Scope: "onceward.pause", ID: "*"}} {
		atDesk(t, func(t *testing.T, d *desk) {
			d.handleBy(terminal)
			d.digest(`{"order_id":"a"}`)
			d.mem.Produce(d.q.Topic, deadletter.Encode(deadletter.Letter{
				ID: "forged", Consumer: "billing", Reason: deadletter.ReasonTerminal, Run: 1, Key: key, Value: []byte("{}"),
				Source: deadletter.Source{Topic: "orders", Offset: 1},
			}, d.q.Topic))
			d.mend(nil)
			f := d.plan(deadletter.Selection{AcceptExpired: "they may run"})
			want(t, "planned", f.Counts, map[deadletter.Action]int{deadletter.Reopen: 1, deadletter.Refuse: 1})
			want(t, "applied", d.apply(f, deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidSend: 1, deadletter.DidRefuse: 1})
			if changed, err := dedup.SetPause(t.Context(), d.store, dedup.Pause{Consumer: "billing"}); err != nil || !changed {
				t.Errorf("paused %v, %v", changed, err)
			}
			if changed, err := dedup.LiftPause(t.Context(), d.store, dedup.Pause{Consumer: "billing"}); err != nil || !changed {
				t.Errorf("lifted %v, %v", changed, err)
			}
		})
	}
}

// As TestACopyThatIsReadTooLateRunsOnlyWhenSomebodySaysThatItMay, where it is
// new in its topic, as any message.
func TestACopyInTheSourceThatIsReadTooLateDoesNotRun(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.digest(`v2 {"order_id":"a"}`)
		d.digest(`{"order_id":"a"}`)
		d.mend(nil)
		d.apply(d.plan(deadletter.Selection{To: deadletter.ToSource}), deadletter.ApplyConfig{})
		time.Sleep(16 * 24 * time.Hour)
		if err := dedup.SweepDue(t.Context(), d.store); err != nil || d.record("a").State != dedup.Absent {
			t.Fatalf("record %+v, %v", d.record("a"), err)
		}
		d.digest()
		d.once("a")
		f := d.plan(deadletter.Selection{To: deadletter.ToSource, AcceptExpired: "the books do not have it"})
		want(t, "accepted", d.apply(f, deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidSend: 1})
		d.digest()
		if d.runs["a"] != 2 {
			t.Errorf("ran %d times", d.runs["a"])
		}
	})
}

// There is no record of its key that could take the note along.
func TestTheNoteOfATooOldLetterIsForgottenAfterItsWindow(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.digest(`v2 {"order_id":"a"}`)
		d.mend(nil)
		d.apply(d.plan(deadletter.Selection{}), deadletter.ApplyConfig{})
		time.Sleep(16 * 24 * time.Hour)
		d.digest()
		id := d.letters(deadletter.Filter{Reasons: []deadletter.Reason{deadletter.ReasonTooOld}})[0].Letter.ID
		if err := d.q.Move(t.Context(), id, dedup.LetterDiscarded, "ann", "the customer came again"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(16 * 24 * time.Hour)
		d.digest()
		for n, err := range d.store.ScanLetters(t.Context(), "billing") {
			t.Errorf("there is a note: %+v, %v", n, err)
		}
	})
}
