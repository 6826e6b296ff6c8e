package via

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/internal/adminapi"
)

// end makes a record that has ended so, as a consumer does.
func (o *other) end(t *testing.T, id string, outcome dedup.Outcome) {
	t.Helper()
	claim := dedup.Op{
		Kind: dedup.Claim, Key: keyOf(id), Token: dedup.Token{1}, Policy: keptFor, Lease: time.Minute,
		Fingerprint: dedup.Fingerprint{Sum: [32]byte{7}}, Position: dedup.Position{Source: "orders#1", Offset: 7},
	}
	answers, err := o.store.Apply(t.Context(), []dedup.Op{claim})
	if err != nil {
		t.Fatal(err)
	}
	_, err = o.store.Apply(t.Context(), []dedup.Op{{
		Kind: dedup.End, Key: keyOf(id), Fence: answers[0].Fence, Token: dedup.Token{1}, Policy: keptFor, Outcome: outcome,
		Reason: "terminal", Error: "no \xff stock", Result: []byte{0, 0xff},
	}})
	if err != nil {
		t.Fatal(err)
	}
}

// replay is what an operator and a replay do, with everything that they learn.
func replay(t *testing.T, store deadletter.Store, broker deadletter.Broker) (learnt []string) {
	learn := func(what any, err error) {
		t.Helper()
		if err != nil {
			what = err.Error()
		}
		// As JSON, so that where a pointer points and a clock's zone do not count.
		text, err := adminapi.Encode(what)
		if err != nil {
			t.Fatal(err)
		}
		learnt = append(learnt, string(text))
	}
	records := func(records []dedup.Record, err error) {
		for i := range records {
			learn(adminapi.OfRecord(&records[i]), nil)
		}
		learn(len(records), err)
	}
	look := func(ids ...string) []dedup.Record {
		var keys []dedup.Key
		for _, id := range ids {
			keys = append(keys, keyOf(id))
		}
		found, err := store.Lookup(t.Context(), keys)
		records(found, err)
		return found
	}
	apply := func(ops ...dedup.Op) {
		for i := range ops {
			if ops[i].Operator != nil {
				ops[i].Operator.Who = "local:ann"
			}
			if ops[i].Letter != nil {
				ops[i].Letter.Letter.Who = "local:ann"
			}
		}
		answers, err := store.Apply(t.Context(), ops)
		learn(len(answers), err)
		for i := range answers {
			learn(adminapi.OfAnswer(&answers[i]), nil)
		}
		letters, err := store.Letters(t.Context(), []string{"l1", "none", "l\xff"})
		learn(len(letters), err)
		for i := range letters {
			learn(adminapi.OfLetter(&letters[i]), nil)
		}
		look("A-1", "A-2", "none", "\xfe")
	}
	seen := func(id string) dedup.Seen {
		r := look(id)[0]
		return dedup.Seen{State: r.State, Run: r.Run, Fence: r.Fence}
	}
	move := func(from, to dedup.LetterState, l dedup.Letter) dedup.Op {
		return dedup.Op{Kind: dedup.MoveLetter, Key: keyOf("A-1"), Letter: &dedup.LetterOp{Letter: l, From: from, To: to}}
	}
	opened := look("A-1")[0].Opened
	note := dedup.Op{Kind: dedup.NoteLetter, Key: keyOf("A-1"), Letter: &dedup.LetterOp{Letter: dedup.Letter{
		ID: "l1", Reason: "terminal", Run: 1, Opened: opened, Source: dedup.Position{Source: "orders#1", Offset: 7}, Time: time.Now().UTC(),
	}}}
	take := move(dedup.LetterOpen, dedup.LetterOpen, dedup.Letter{ID: "l1", Token: "t1", Job: "j1", Why: "mended"})
	before := seen("A-1")
	reopen := func(job string) dedup.Op {
		return dedup.Op{Kind: dedup.Reopen, Key: keyOf("A-1"), Operator: &dedup.OperatorOp{
			Seen: before, Expires: time.Now().Add(time.Hour), Why: "mended", Job: job, Letter: "l1", LetterRun: before.Run,
			Fingerprint: dedup.Fingerprint{Sum: [32]byte{7}},
		}}
	}
	apply(note)
	apply(take, reopen("j1"))
	apply(take, reopen("j1"))                                                                                     // after a crash
	apply(move(dedup.LetterOpen, dedup.LetterOpen, dedup.Letter{ID: "l1", Token: "t2", Job: "j2"}), reopen("j2")) // another operator
	partition := int32(1)
	for _, err := range broker.Publish(t.Context(), []brokers.Outgoing{
		{Topic: broker.Destinations("billing", topic).Retry, Key: []byte("k"), Value: nil, Headers: []brokers.Header{{Key: "dl-replay-token", Value: []byte("t1")}}, ID: "l1-t1", Partition: &partition},
		{Topic: topic, Value: []byte{}, Headers: []brokers.Header{{Key: "h\xff", Value: nil}, {Key: "h", Value: []byte{}}}},
		{Topic: topic, Value: make([]byte, 2<<20)},
	}) {
		learn(fmt.Sprint(err == nil), nil)
		if err != nil {
			learn(err.Error(), nil)
		}
	}
	apply(dedup.Op{Kind: dedup.SendNoted, Key: keyOf("A-1"), Letter: &dedup.LetterOp{Letter: dedup.Letter{ID: "l1", Job: "j1"}}})
	apply(move(dedup.LetterSent, dedup.LetterResolved, dedup.Letter{ID: "l1", Token: "t1", Answer: dedup.Succeeded}))
	apply(dedup.Op{Kind: dedup.Reconcile, Key: keyOf("A-2"), Operator: &dedup.OperatorOp{Seen: seen("A-2"), To: dedup.Success, Result: []byte{0xff}}})
	apply(dedup.Op{Kind: dedup.Delete, Key: keyOf("A-2"), Operator: &dedup.OperatorOp{Seen: seen("A-2")}},
		dedup.Op{Kind: dedup.Import, Key: keyOf("\xfe"), Operator: &dedup.OperatorOp{Window: time.Hour, Archive: true, Why: "\xff"}})
	for _, from := range []brokers.From{{}, {Offsets: map[int32]int64{1: 0}}, {Offsets: map[int32]int64{}}, {Since: time.Now().Add(time.Hour)}} {
		for _, name := range []string{topic, retry, dead} {
			for d, err := range broker.Browse(t.Context(), name, from) {
				if err != nil {
					t.Fatal(err)
				}
				learn(adminapi.OfLane(d.Lane), nil)
				learn(adminapi.OfDelivery(d), nil)
			}
		}
	}
	infos, err := broker.Inspect(t.Context(), []string{topic, retry, dead})
	learn(fmt.Sprintf("%+v", infos), err)
	var all []dedup.Record
	for r, err := range store.Scan(t.Context(), "billing") {
		all = append(all, r)
		learn(nil, err)
	}
	slices.SortFunc(all, func(a, b dedup.Record) int { return cmp.Compare(a.Key.ID, b.Key.ID) })
	records(all, nil)
	for l, err := range store.ScanLetters(t.Context(), "billing") {
		learn(adminapi.OfLetter(&l), err)
	}
	learn(store.Info().Local, nil)
	learn(broker.Destinations("billing", topic).Retry, nil)
	return learnt
}

func TestAReplayOverHTTPDoesWhatOneOnTheStoreItselfDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := newOther(t), newOther(t)
		for _, o := range []*other{near, far} {
			o.end(t, "A-1", dedup.Terminal)
			o.end(t, "A-2", dedup.Doubt)
		}
		c := wired(t, far.handler, Options{Who: "ann"})
		want, got := replay(t, near.store, near.broker), replay(t, c, c)
		if len(got) != len(want) {
			t.Fatalf("%d things were learnt, want %d", len(got), len(want))
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("step %d:\n%s\nwant\n%s", i, got[i], want[i])
			}
		}
		if a, b := near.broker.Messages(retry), far.broker.Messages(retry); len(a) != 1 || !reflect.DeepEqual(a, b) {
			t.Errorf("sent %+v, want %+v", b, a)
		}
		if a, b := near.broker.Messages(topic), far.broker.Messages(topic); len(a) != 1 || !reflect.DeepEqual(a, b) {
			t.Errorf("sent %+v, want %+v", b, a)
		}
	})
}

func TestManyAreAskedForInSeveralRequests(t *testing.T) {
	o := newOther(t)
	c := served(t, o.handler, Options{})
	const n = adminapi.MaxKeys + 1
	ops, keys, ids := make([]dedup.Op, n), make([]dedup.Key, n), make([]string, n)
	messages := make([]brokers.Outgoing, n)
	for i := range n {
		keys[i], ids[i] = keyOf(fmt.Sprintf("A-%d", i)), fmt.Sprintf("l%d", i)
		ops[i] = dedup.Op{Kind: dedup.NoteLetter, Key: keys[i], Letter: &dedup.LetterOp{Letter: dedup.Letter{ID: ids[i], Reason: "terminal"}}}
		messages[i] = brokers.Outgoing{Topic: topic, Value: []byte("{}")}
	}
	answers, err := c.Apply(t.Context(), ops)
	if err != nil || len(answers) != n {
		t.Fatalf("%d answers, %v", len(answers), err)
	}
	for i := range answers {
		if answers[i].Kind != dedup.Done {
			t.Fatalf("%d: %+v", i, answers[i])
		}
	}
	if records, err := c.Lookup(t.Context(), keys); err != nil || len(records) != n || records[n-1].Key != keys[n-1] {
		t.Errorf("%d records, %v", len(records), err)
	}
	if letters, err := c.Letters(t.Context(), ids); err != nil || len(letters) != n || letters[n-1].ID != ids[n-1] {
		t.Errorf("%d letters, %v", len(letters), err)
	}
	errs := c.Publish(t.Context(), messages)
	if len(errs) != n || slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
		t.Errorf("%d outcomes: %v", len(errs), errs[0])
	}
	// Each would fit, and both together do not.
	large := brokers.Outgoing{Topic: topic, Value: make([]byte, adminapi.MaxBody/5*2)}
	for _, err := range c.Publish(t.Context(), []brokers.Outgoing{large, large}) {
		if !errors.Is(err, brokers.ErrTooLarge) || !strings.Contains(err.Error(), "at most 1048576") { // as the broker says
			t.Errorf("%v", err)
		}
	}
	count := 0
	for d, err := range c.Browse(t.Context(), topic, brokers.From{}) {
		if err != nil || string(d.Value) != "{}" {
			t.Fatalf("%+v, %v", d, err)
		}
		count++
	}
	if count != n {
		t.Errorf("%d messages are shown, want %d", count, n)
	}
	count = 0
	for _, err := range c.ScanLetters(t.Context(), "billing") {
		if err != nil {
			t.Fatal(err)
		}
		count++
	}
	if count != n {
		t.Errorf("%d letters, want %d", count, n)
	}
}

// Operations of one key belong into one commit.
func TestARequestIsCutBetweenKeys(t *testing.T) {
	var ops []adminapi.Op
	for i := range 999 {
		for range 2 + i%3 {
			ops = append(ops, adminapi.Op{Key: adminapi.OfKey(keyOf(fmt.Sprint(i)))})
		}
		if at := between(ops); len(ops) > 4 && ops[at-1].Key == ops[at].Key {
			t.Fatalf("%d are cut at %d, within a key", len(ops), at)
		}
	}
	same := make([]adminapi.Op, 10)
	if at := between(same); at != 5 {
		t.Errorf("ten of one key are cut at %d", at)
	}
}

func TestWhoeverStopsEarlyIsNotWaitedFor(t *testing.T) {
	o := newOther(t)
	c := served(t, o.handler, Options{})
	for i := range 100 {
		o.end(t, fmt.Sprint(i), dedup.Success)
	}
	for range 20 { // more than streams are served at once
		for _, err := range c.Scan(t.Context(), "billing") {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
	}
}

func TestAPauseOverHTTPIsOneInTheStore(t *testing.T) {
	o := newOther(t)
	c := served(t, o.handler, Options{Who: "ann"})
	if changed, err := c.Pause(t.Context(), "order.create", "release"); err != nil || !changed {
		t.Fatalf("%v, %v", changed, err)
	}
	if changed, err := c.Pause(t.Context(), "", "release"); err != nil || !changed {
		t.Fatalf("%v, %v", changed, err)
	}
	stored := func() []dedup.Pause {
		pauses, err := dedup.Pauses(t.Context(), o.store, "billing", []string{"order.create"})
		if err != nil {
			t.Fatal(err)
		}
		return pauses
	}
	if got := stored(); len(got) != 2 || got[0].Who != "local:ann" || got[1].Scope != "order.create" || got[1].Why != "release" {
		t.Errorf("%+v", got)
	}
	if changed, err := c.Resume(t.Context(), "order.create", ""); err != nil || !changed {
		t.Errorf("%v, %v", changed, err)
	}
	if changed, err := c.Resume(t.Context(), "", ""); err != nil || !changed {
		t.Errorf("%v, %v", changed, err)
	}
	if got := stored(); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}
