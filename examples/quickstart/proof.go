package main

import (
	"fmt"

	"github.com/onceward/onceward/dedup"
)

// summary is the result of a run, in the form that --json prints.
type summary struct {
	Messages           int         `json:"messages"`
	Orders             int         `json:"orders"`               // distinct ids that should succeed
	BookedOrders       int         `json:"booked_orders"`        // of them, with a row in the table
	DoubleBookings     int         `json:"double_bookings"`      // with more than one
	Lost               int         `json:"lost"`                 // messages neither booked, absorbed nor dead-lettered
	Calls              int         `json:"calls"`                // to the witness, beside the begins
	CallsAfterDone     int         `json:"calls_after_done"`     // for an order whose record was complete
	CrashWindowRepeats int         `json:"crash_window_repeats"` // further calls because a kill fell between call and record
	HandlerRuns        int         `json:"handler_runs"`         // begins that the witness saw
	Duplicates         int         `json:"duplicates"`           // messages answered without the handler
	Retries            int         `json:"retries"`              // handler runs beyond the first of each order
	DeadLetters        deadLetters `json:"dead_letters"`         // by reason, a repeated letter once
	Kills              int         `json:"kills"`
	Seconds            float64     `json:"seconds"`
	OK                 bool        `json:"ok"`
}

// deadLetters counts letters by reason. Other reasons than these four are a
// broken promise.
type deadLetters struct {
	Decode    int `json:"decode"`
	Key       int `json:"key"`
	Terminal  int `json:"terminal"`
	Exhausted int `json:"exhausted"`
	Other     int `json:"other,omitempty"`
}

// of is the count of a reason.
func (d *deadLetters) of(reason string) *int {
	switch reason {
	case "decode":
		return &d.Decode
	case "key":
		return &d.Key
	case "terminal":
		return &d.Terminal
	case "exhausted":
		return &d.Exhausted
	}
	return &d.Other
}

func (d *deadLetters) all() int { return d.Decode + d.Key + d.Terminal + d.Exhausted + d.Other }

// evidence is everything that a verdict stands on: what was sent, and what the
// witness, the broker and the file say. The consumer's own word is not in it.
type evidence struct {
	sent    *workload
	seen    seen
	held    int // messages that the durable has not settled
	letters []letter
	booked  map[string]int // rows by order
	records map[string]dedup.Record
	kills   int // asked for
	among   int // kills that fell while handlers ran
	stop    error
}

// reasons are those that the workload provokes.
var reasons = [...]string{"decode", "key", "terminal", "exhausted"}

// judge compares everything with everything, and returns what it found and a
// line for each disagreement.
func judge(e *evidence) (summary, []string) {
	j := judgement{e: e, summary: summary{
		Messages: len(e.sent.messages), Orders: e.sent.good, Calls: e.seen.calls, CallsAfterDone: e.seen.afterDone,
		CrashWindowRepeats: e.seen.repeats, HandlerRuns: e.seen.begins, Kills: e.among,
	}}
	j.readLetters()
	j.readFile()
	j.countMessages()
	j.readWitness()
	j.require(e.stop == nil, "the consumer process did not stop in order: %v", e.stop)
	j.equal("kills with handlers running", e.among, e.kills)
	j.equal("messages that the durable still holds", e.held, 0)
	j.summary.OK = len(j.broken) == 0
	return j.summary, j.broken
}

type judgement struct {
	e       *evidence
	summary summary
	broken  []string
	dead    map[int]string // reason by the index of the message
	deadIDs map[string]bool
}

func (j *judgement) require(holds bool, format string, args ...any) {
	if !holds {
		j.broken = append(j.broken, fmt.Sprintf(format, args...))
	}
}

func (j *judgement) equal(what string, is, should int) {
	j.require(is == should, "%s: %d, should be %d", what, is, should)
}

// readLetters folds letters by dl-id, and checks that each is about the message
// that it names.
func (j *judgement) readLetters() {
	j.dead, j.deadIDs = map[int]string{}, map[string]bool{}
	folded := map[string]bool{}
	for _, l := range j.e.letters {
		if folded[l.ID] {
			continue
		}
		folded[l.ID] = true
		*j.summary.DeadLetters.of(l.Reason)++
		if l.Index < 0 || l.Index >= len(j.e.sent.messages) {
			j.require(false, "letter %s names no message that was sent", l.ID)
			continue
		}
		m := &j.e.sent.messages[l.Index]
		j.require(l.ID != "" && m.fate.reason() == l.Reason, "message %d has a letter %q, should have %q", l.Index, l.Reason, m.fate.reason())
		j.require(l.Payload == string(m.payload), "the letter of message %d has another payload", l.Index)
		j.dead[l.Index] = l.Reason
		if m.id != "" {
			j.require(!j.deadIDs[m.id], "order %s has two letters", m.id)
			j.deadIDs[m.id] = true
		}
	}
	for _, reason := range reasons {
		should := j.e.sent.count(func(m *message) bool { return !m.repeat && m.fate.reason() == reason })
		j.equal("letters "+reason, *j.summary.DeadLetters.of(reason), should)
	}
	j.equal("letters of other reasons", j.summary.DeadLetters.Other, 0)
}

// readFile compares bookings and records, order by order.
func (j *judgement) readFile() {
	for id, rows := range j.e.booked {
		plan := j.e.sent.orders[id]
		if plan == nil || plan.fate.reason() != "" {
			j.require(false, "order %s is booked, and should not be", id)
			continue
		}
		j.summary.BookedOrders++
		if rows > 1 {
			j.summary.DoubleBookings++
		}
	}
	for id, plan := range j.e.sent.orders {
		record, should := j.e.records[id], dedup.Succeeded
		if plan.fate.reason() != "" {
			should = dedup.Failed
		}
		j.require(record.State == should, "record of %s is %v, should be %v", id, record.State, should)
		j.require(!record.Owed, "record of %s still owes its letter", id)
		j.require((record.State == dedup.Succeeded) == (j.e.booked[id] > 0), "record of %s is %v, with %d bookings", id, record.State, j.e.booked[id])
	}
	j.equal("records", len(j.e.records), len(j.e.sent.orders))
	j.equal("booked orders", j.summary.BookedOrders, j.e.sent.good)
	j.equal("orders booked twice", j.summary.DoubleBookings, 0)
}

// countMessages finds the outcome of each message.
func (j *judgement) countMessages() {
	lost := 0
	for i := range j.e.sent.messages {
		switch m := &j.e.sent.messages[i]; {
		case m.id == "":
			if j.dead[i] == "" {
				lost++
			}
		case m.fate.reason() != "":
			if !j.deadIDs[m.id] {
				lost++
			}
		case j.e.booked[m.id] == 0:
			lost++
		}
	}
	j.summary.Lost = max(lost, j.e.held)
	j.equal("lost messages", j.summary.Lost, 0)
	j.summary.Duplicates = j.summary.Messages - j.summary.BookedOrders - j.summary.DeadLetters.all() - lost
	j.equal("messages answered without the handler", j.summary.Duplicates, j.e.sent.count(func(m *message) bool { return m.repeat }))
}

// readWitness holds what the witness saw against the bounds.
func (j *judgement) readWitness() {
	s, bound := &j.e.seen, j.e.kills*workers
	j.summary.Retries = s.begins - s.begun
	j.equal("orders begun", s.begun, len(j.e.sent.orders))
	j.equal("orders called", s.called, j.e.sent.good)
	j.equal("calls after done", s.afterDone, 0)
	j.equal("calls", s.calls, s.called+s.repeats+s.afterDone)
	j.require(s.repeats <= bound, "%d calls were repeated, at most %d can be: kills × workers", s.repeats, bound)
	j.require(j.summary.Retries >= s.plannedFailures, "%d retries, at least %d were bound to happen", j.summary.Retries, s.plannedFailures)
	j.require(j.summary.Retries <= s.plannedFailures+bound, "%d retries, at most %d can be explained", j.summary.Retries, s.plannedFailures+bound)
	for _, strange := range s.strange {
		j.require(false, "the witness saw a %s", strange)
	}
}
