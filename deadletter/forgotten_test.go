package deadletter_test

import (
	"testing"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
)

// The corrected message has run and is forgotten by the time when the plan,
// made a moment before, is applied.
func TestALetterThatExpiresBetweenPlanAndApplyIsRefused(t *testing.T) {
	atEveryDesk(t, func(t *testing.T, d *desk) {
		d.remember(day)
		d.digest(`v2 {"order_id":"a"}`)
		d.digest(`{"order_id":"a"}`)
		d.wait(day - 10*time.Minute)
		d.mend(nil)
		f := d.plan(deadletter.Selection{})
		want(t, "planned", f.Counts, map[deadletter.Action]int{deadletter.Reopen: 1})
		d.wait(20 * time.Hour)
		d.digest()
		want(t, "applied", d.apply(f, deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidRefuse: 1})
		d.digest()
		d.once("a")
	})
}

// The letter was sent in time, its copy is read after the window, and what has
// been done under its key in between is forgotten.
func TestACopyThatIsReadTooLateRunsOnlyWhenSomebodySaysThatItMay(t *testing.T) {
	atEveryDesk(t, func(t *testing.T, d *desk) {
		d.remember(day)
		d.digest(`v2 {"order_id":"a"}`)
		d.digest(`{"order_id":"a"}`)
		d.mend(nil)
		d.apply(d.plan(deadletter.Selection{}), deadletter.ApplyConfig{})
		d.wait(3 * day)
		if err := dedup.SweepDue(t.Context(), d.store); err != nil || d.record("a").State != dedup.Absent {
			t.Fatalf("record %+v, %v", d.record("a"), err)
		}
		d.digest()
		d.once("a")
		f := d.plan(deadletter.Selection{})
		want(t, "planned", f.Counts, map[deadletter.Action]int{deadletter.Refuse: 1})
		want(t, "applied", d.apply(f, deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidRefuse: 1})
		d.digest()
		d.once("a")
		want(t, "accepted", d.apply(f, deadletter.ApplyConfig{AcceptExpired: "the books do not have it"}), map[deadletter.Did]int{deadletter.DidSend: 1})
		d.digest()
		if d.runs["a"] != 2 {
			t.Errorf("ran %d times", d.runs["a"])
		}
		// Who calls it again need not say once more what was accepted.
		want(t, "called again", d.apply(f, deadletter.ApplyConfig{}), map[deadletter.Did]int{deadletter.DidBefore: 1})
	})
}

// As TestAnUndecodableLetterOlderThanTheWindowIsRefusedAsExpired, where nobody
// says how short the window is.
func TestAPlanFindsAShorterWindowInTheRecords(t *testing.T) {
	atEveryDesk(t, func(t *testing.T, d *desk) {
		d.window = 24 * time.Hour
		d.digest(`v2 {"order_id":"a"}`)
		d.digest(`{"order_id":"a"}`)
		d.wait(3 * day)
		d.digest(`{"order_id":"b"}`)
		if got := d.record("a"); got.State != dedup.Absent {
			t.Fatalf("not swept: %+v", got)
		}
		d.mend(nil)
		d.refused("a")
	})
}

// The corrected message has run and is forgotten, and the letter is new: that of
// a copy which has died, too.
func TestALetterIsAsOldAsTheFirstDeathOfItsMessage(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.digest(`v2 {"order_id":"a"}`)
		d.digest(`{"order_id":"a"}`)
		d.apply(d.plan(deadletter.Selection{}), deadletter.ApplyConfig{})
		time.Sleep(15 * 24 * time.Hour) // nobody reads the copy for so long
		d.digest()
		if e := d.letters(deadletter.Filter{})[0]; e.Letter.Run != 2 || time.Since(e.Stored) > time.Hour {
			t.Fatalf("the letter is %+v", e)
		}
		d.mend(nil)
		d.refused("a")
	})
}

// Others tell partition and offset, and not which life of the topic they are of.
func TestTheRecordOfALetterOfOthersIsForgottenAfterItsWindow(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.mend(nil)
		d.foreign(keyed("a"), `{"order_id":"a"}`,
			brokers.Header{Key: "kafka_dlt-original-topic", Value: []byte("orders")},
			brokers.Header{Key: "kafka_dlt-original-partition", Value: []byte{0, 0, 0, 1}},
			brokers.Header{Key: "kafka_dlt-original-offset", Value: []byte{0, 0, 0, 0, 0, 0, 0, 5}})
		d.apply(d.plan(deadletter.Selection{}), deadletter.ApplyConfig{})
		d.digest()
		d.once("a")
		time.Sleep(15 * 24 * time.Hour)
		d.digest()
		if r := d.record("a"); r.State != dedup.Absent {
			t.Errorf("still there: %+v", r)
		}
	})
}

// The note of a conflict's letter is forgotten with the record that it met, which
// had ended long before.
func TestADiscardedLetterIsNotSentOnceItsNoteIsForgotten(t *testing.T) {
	atEveryDesk(t, func(t *testing.T, d *desk) {
		d.remember(day)
		d.digest(`{"order_id":"a"}`)
		d.wait(14 * time.Hour)
		d.digest(`{"order_id":"a","cents":5}`)
		if err := d.q.Move(t.Context(), d.letters(deadletter.Filter{})[0].Letter.ID, dedup.LetterDiscarded, "ann", "a test order"); err != nil {
			t.Fatal(err)
		}
		d.wait(11 * time.Hour)
		d.digest()
		if r := d.record("a"); r.State != dedup.Absent {
			t.Fatalf("not swept: %+v", r)
		}
		d.apply(d.plan(deadletter.Selection{}), deadletter.ApplyConfig{})
		d.digest()
		d.once("a")
	})
}
