package main

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/dedup"
)

// clean is the evidence of a run in which everything went well.
func clean() *evidence {
	e := &evidence{sent: newWorkload(400, 1), kills: 2, among: 2, booked: map[string]int{}, records: map[string]dedup.Record{}}
	for id, plan := range e.sent.orders {
		e.seen.begun++
		e.seen.begins++
		record := dedup.Record{State: dedup.Succeeded}
		switch plan.fate {
		case refused:
			record.State = dedup.Failed
		case failing:
			record.State = dedup.Failed
			e.seen.plannedFailures += maxFailures - 1
		case flaky:
			e.seen.plannedFailures += plan.fails
		}
		if plan.fate.reason() == "" {
			e.booked[id] = 1
			e.seen.called++
			e.seen.calls++
		}
		e.records[id] = record
	}
	e.seen.begins += e.seen.plannedFailures
	for i := range e.sent.messages {
		if m := &e.sent.messages[i]; !m.repeat && m.fate.reason() != "" {
			e.letters = append(e.letters, letter{ID: "letter of " + string(rune('a'+len(e.letters))), Reason: m.fate.reason(), Index: i, Payload: string(m.payload)})
		}
	}
	return e
}

// first is the first order with such a fate.
func (e *evidence) first(f fate) string {
	for _, id := range slices.Sorted(maps.Keys(e.sent.orders)) {
		if e.sent.orders[id].fate == f {
			return id
		}
	}
	panic("no such order")
}

func TestACleanRunIsOK(t *testing.T) {
	s, broken := judge(clean())
	if !s.OK || broken != nil || s.Duplicates != 80 || s.DeadLetters != (deadLetters{1, 1, 1, 1, 0}) {
		t.Errorf("%+v %v", s, broken)
	}
}

func TestALetterThatWasWrittenTwiceCountsOnce(t *testing.T) {
	e := clean()
	e.letters = append(e.letters, e.letters[0])
	if s, broken := judge(e); !s.OK {
		t.Error(broken)
	}
}

func TestRepeatsWithinTheBoundAreNoBrokenPromise(t *testing.T) {
	e := clean()
	e.seen.repeats, e.seen.calls, e.seen.begins = 2*workers, e.seen.calls+2*workers, e.seen.begins+2*workers
	if s, broken := judge(e); !s.OK || s.CrashWindowRepeats != 2*workers {
		t.Error(broken)
	}
}

func TestEveryBrokenPromiseIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		breaks func(e *evidence)
		says   string
	}{
		"an order is not booked":                {func(e *evidence) { delete(e.booked, e.first(succeeds)) }, "lost messages"},
		"an order is booked twice":              {func(e *evidence) { e.booked[e.first(flaky)] = 2 }, "booked twice"},
		"a refused order is booked":             {func(e *evidence) { e.booked[e.first(refused)] = 1 }, "should not be"},
		"an unknown order is booked":            {func(e *evidence) { e.booked["stranger"] = 1 }, "should not be"},
		"a letter is missing":                   {func(e *evidence) { e.letters = e.letters[1:] }, "letters"},
		"a letter has another reason":           {func(e *evidence) { e.letters[0].Reason = "crash-loop" }, "other reasons"},
		"a letter is of a healthy order":        {func(e *evidence) { e.letters = append(e.letters, healthyLetter(e)) }, "should have \"\""},
		"a letter has another payload":          {func(e *evidence) { e.letters[0].Payload += " " }, "another payload"},
		"a letter names no message":             {func(e *evidence) { e.letters[0].Index = -1 }, "names no message"},
		"an order has two letters":              {twoLetters, "two letters"},
		"a record is missing":                   {func(e *evidence) { delete(e.records, e.first(failing)) }, "record of"},
		"a record is not finished":              {func(e *evidence) { e.records[e.first(succeeds)] = dedup.Record{State: dedup.InProgress} }, "in_progress"},
		"a record has no booking":               {func(e *evidence) { e.booked[e.first(succeeds)] = 0 }, "with 0 bookings"},
		"a record is of nothing that was sent":  {func(e *evidence) { e.records["stranger"] = dedup.Record{} }, "records:"},
		"a record owes its letter":              {func(e *evidence) { e.records[e.first(refused)] = dedup.Record{State: dedup.Failed, Owed: true} }, "owes"},
		"the durable holds a message":           {func(e *evidence) { e.held = 1 }, "still holds"},
		"a call came after done":                {func(e *evidence) { e.seen.afterDone++; e.seen.calls++ }, "calls after done"},
		"more calls repeated than kills allow":  {func(e *evidence) { e.seen.repeats, e.seen.calls = 2*workers+1, e.seen.calls+2*workers+1 }, "kills × workers"},
		"an order was never called":             {func(e *evidence) { e.seen.called--; e.seen.calls-- }, "orders called"},
		"an order was never begun":              {func(e *evidence) { e.seen.begun--; e.seen.begins-- }, "orders begun"},
		"a failed handler did not run again":    {func(e *evidence) { e.seen.begins-- }, "were bound to happen"},
		"handlers ran without need":             {func(e *evidence) { e.seen.begins += 2*workers + 1 }, "can be explained"},
		"the witness saw a call of no order":    {func(e *evidence) { e.seen.strange = []string{"call"} }, "the witness saw"},
		"a kill fell while nothing ran":         {func(e *evidence) { e.among = 1 }, "kills with handlers running"},
		"the consumer did not stop in order":    {func(e *evidence) { e.stop = errors.New("exit status 1") }, "stop in order"},
		"calls are not what the tallies add to": {func(e *evidence) { e.seen.calls++ }, "calls:"},
	} {
		t.Run(name, func(t *testing.T) {
			e := clean()
			c.breaks(e)
			s, broken := judge(e)
			if s.OK || !strings.Contains(strings.Join(broken, "\n"), c.says) {
				t.Errorf("ok %v, said %q, want something with %q", s.OK, broken, c.says)
			}
		})
	}
}

func healthyLetter(e *evidence) letter {
	for i := range e.sent.messages {
		if m := &e.sent.messages[i]; m.fate == succeeds {
			return letter{ID: "another", Reason: "terminal", Index: i, Payload: string(m.payload)}
		}
	}
	panic("no healthy order")
}

func twoLetters(e *evidence) {
	for _, l := range e.letters {
		if l.Reason == "terminal" {
			l.ID = "another"
			e.letters = append(e.letters, l)
			return
		}
	}
}

// The witness alone tells calls that a kill explains from those that nothing
// does.
func TestTheWitnessTellsRepeatsByAKillFromCallsAfterDone(t *testing.T) {
	w := newWitness(map[string]*plannedOrder{"a": {}, "b": {}, "c": {}, "d": {}})
	call := func(life int, ids ...string) {
		for _, id := range ids {
			w.note(life, "notify", id)
		}
	}
	w.life = 0
	call(0, "a", "b", "c", "c") // c: twice in one life
	if err := w.endLife(map[string]int{"a": 1}); err != nil {
		t.Fatal(err)
	}
	w.life = 1
	call(1, "a", "b", "d") // a was booked, b was not
	call(0, "d")           // was still under way when the process died
	s := w.testify()
	if s.afterDone != 2 || s.repeats != 2 || s.called != 4 || s.calls != 8 {
		t.Errorf("after done %d, want 2; repeats %d, want 2; called %d; calls %d", s.afterDone, s.repeats, s.called, s.calls)
	}
}
