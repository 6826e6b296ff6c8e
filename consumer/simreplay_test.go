package consumer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
)

// simReplay is one letter on its way back, by a job that dies between any two
// of its steps and goes on later.
type simReplay struct {
	id     string // of the message
	copied *brokers.Outgoing
	left   int    // copies to be published yet: a job that died may publish one again
	takes  uint32 // how often the letter was taken
	runs   uint32 // how often that reopened its record
}

// replaysOf says how often the record of a message was reopened. w.mu is held.
func (w *world) replaysOf(id string) (n uint32) {
	for _, s := range w.replayed {
		if s.id == id {
			n += s.runs
		}
	}
	return n
}

// replay does a few steps of the job: letters that can be mended, or never,
// are taken, published and noted. It says whether there is more to do.
func (w *world) replay() (busy bool) {
	letters := w.broker.Letters(durable, topic)
	w.rnd.Shuffle(len(letters), func(i, j int) { letters[i], letters[j] = letters[j], letters[i] })
	for _, m := range letters {
		l, err := deadletter.Decode(&brokers.Delivery{Key: m.Key, Value: m.Value, Headers: m.Headers})
		if err != nil {
			w.wrong("letter %v: %v", m, err)
			continue
		}
		var j job
		if json.Unmarshal(m.Value, &j) != nil {
			j.No = string(m.Value[1:])
		}
		w.mu.Lock()
		kind := w.kinds[j.No]
		w.mu.Unlock()
		if kind != "mend" && kind != "garbage" && kind != "conflict" {
			continue
		}
		if w.rnd.IntN(3) > 0 {
			busy = busy || kind == "mend" && w.note(l.ID).State != dedup.LetterResolved
			continue
		}
		busy = w.step(j.No, kind, l) || busy
	}
	return busy
}

func (w *world) note(id string) dedup.Letter {
	notes, err := w.store.Letters(context.Background(), []string{id})
	if err != nil {
		panic(err)
	}
	return notes[0]
}

// step goes one step on with one letter.
func (w *world) step(id, kind string, l deadletter.Letter) (busy bool) {
	w.mu.Lock()
	s := w.replayed[l.ID]
	if s == nil {
		s = &simReplay{id: id}
		w.replayed[l.ID] = s
	}
	w.mu.Unlock()
	n := w.note(l.ID)
	switch {
	case s.copied == nil && n.State == dedup.LetterOpen:
		w.take(s, n, l)
	case s.copied == nil:
		return kind == "mend" && n.State != dedup.LetterResolved
	case s.left > 0:
		if w.broker.Publish(context.Background(), []brokers.Outgoing{*s.copied})[0] == nil {
			s.left--
		}
	default:
		a, err := w.store.Apply(context.Background(), []dedup.Op{{
			Kind: dedup.SendNoted, Key: n.Key, Letter: &dedup.LetterOp{Letter: dedup.Letter{ID: l.ID, Job: simJob(s.takes)}},
		}})
		if err != nil || a[0].Kind != dedup.Done && a[0].Kind != dedup.Refused {
			w.wrong("letter %+v: sent: %v %v", n, a, err)
		}
		s.copied = nil
	}
	return true
}

func simJob(n uint32) string { return fmt.Sprint("job-", n) }

// take holds a letter and reopens its record, in one commit.
func (w *world) take(s *simReplay, n dedup.Letter, l deadletter.Letter) {
	token := deadletter.NewToken(n.Token)
	ops := []dedup.Op{{Kind: dedup.MoveLetter, Key: n.Key, Letter: &dedup.LetterOp{
		Letter: dedup.Letter{ID: l.ID, Job: simJob(s.takes + 1), Token: token}, From: dedup.LetterOpen, To: dedup.LetterOpen,
	}}}
	if l.Key.ID != "" && l.Reason != deadletter.ReasonConflict {
		records, err := w.store.Lookup(context.Background(), []dedup.Key{l.Key})
		if err != nil {
			panic(err)
		}
		r := records[0]
		if r.State != dedup.Failed || r.Owed {
			return // not yet
		}
		ops = append(ops, dedup.Op{Kind: dedup.Reopen, Key: l.Key, Operator: &dedup.OperatorOp{
			Seen: dedup.Seen{State: r.State, Run: r.Run, Fence: r.Fence}, Who: "ann", Why: "mended",
			Job: simJob(s.takes + 1), Letter: l.ID, LetterRun: n.Run, Fingerprint: l.Fingerprint,
		}})
	}
	// Before it can be seen: a handler may run in the next moment.
	w.mu.Lock()
	s.takes, s.runs = s.takes+1, s.runs+uint32(len(ops)-1)
	w.mu.Unlock()
	a, err := w.store.Apply(context.Background(), ops)
	if err != nil || slices.ContainsFunc(a, func(a dedup.Answer) bool { return a.Kind != dedup.Done }) {
		w.wrong("letter %+v is not taken: %+v %v", n, a, err)
		return
	}
	to := topic
	if w.rnd.IntN(2) > 0 {
		to = w.broker.Destinations(durable, topic).Retry
	}
	ticket := deadletter.Ticket{ID: l.ID, Token: token, Job: simJob(s.takes), Count: l.ReplayCount + 1}
	s.copied, s.left = &brokers.Outgoing{Topic: to, Key: l.BrokerKey, Value: l.Value, Headers: slices.Concat(l.Headers, ticket.Headers())}, 1+w.rnd.IntN(2)
}

// checkReplays compares what was sent back with what the letters are told.
func (w *world) checkReplays() {
	for id, s := range w.replayed {
		n := w.note(id)
		kind := w.kinds[s.id]
		switch {
		case s.copied != nil:
			// The job has stopped half way; what it holds is its own.
		case kind == "mend" && s.takes > 0 && (n.State != dedup.LetterResolved || n.Answer != dedup.Succeeded):
			w.wrong("%s: its letter, sent %d times, is %+v", s.id, s.takes, n)
		case kind != "mend" && (n.Run != 1+s.takes || n.Job != "" || n.State != dedup.LetterOpen && n.State != dedup.LetterHeld):
			w.wrong("%s: its letter, sent %d times, is %+v", s.id, s.takes, n)
		}
	}
}
