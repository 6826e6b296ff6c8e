package deadletter_test

import (
	"testing"
	"testing/synctest"
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
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.digest() // so that the retry topic is there
		d.broker.Produce(d.broker.Destinations("billing", "orders").Retry, brokers.Outgoing{Value: []byte("v2 {}")})
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
