package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
)

// Shares of the messages.
const (
	repeatShare   = 0.20 // repeats of an earlier order, at a random distance
	flakyShare    = 0.03 // orders that fail once or twice and then succeed
	poisonedShare = 0.01 // in equal parts: undecodable, without an id, refused, always failing
)

// order is one order as it is sent.
type order struct {
	ID       string `json:"id,omitempty"`
	Customer string `json:"customer"`
	Cents    int    `json:"cents"`
}

// fate is what is going to happen to an order. Only the witness knows it.
type fate uint8

const (
	succeeds fate = iota
	flaky
	refused
	failing
	undecodable // of a message, which has no order then
	keyless     // likewise
)

// reason is the dl-reason that a fate ends in, empty for orders that succeed.
func (f fate) reason() string {
	return [...]string{refused: "terminal", failing: "exhausted", undecodable: "decode", keyless: "key"}[f]
}

// message is one message as it was sent, and what should become of it.
type message struct {
	payload []byte
	id      string // of its order, empty where it cannot be read
	fate    fate
	repeat  bool
}

// workload is all that is sent in one run.
type workload struct {
	messages []message
	orders   map[string]*plannedOrder
	good     int // orders that should succeed
}

// plannedOrder is one distinct id.
type plannedOrder struct {
	fate  fate
	fails int // how often the witness fails a flaky one
}

// newWorkload plans n messages. The same seed plans the same ones.
func newWorkload(n int, seed uint64) *workload {
	rng := rand.New(rand.NewPCG(seed, 0))
	w := &workload{messages: make([]message, 0, n), orders: make(map[string]*plannedOrder, n)}
	var sent []int // messages whose order has an id: what can be repeated
	for i, kind := range kinds(n, rng) {
		if kind == repeated {
			m := w.messages[sent[rng.IntN(len(sent))]]
			m.repeat = true
			w.messages = append(w.messages, m)
			continue
		}
		m := message{fate: kind}
		o := order{ID: fmt.Sprintf("order-%07d", i+1), Customer: fmt.Sprintf("customer-%d", rng.IntN(1000)), Cents: 100 + rng.IntN(100_000)}
		if kind == keyless {
			o.ID = ""
		}
		m.payload, _ = json.Marshal(o) //nolint:errchkjson // a struct of strings and a number
		if kind == undecodable {
			m.payload = m.payload[:len(m.payload)/2]
		}
		if kind != undecodable && kind != keyless {
			m.id = o.ID
			p := &plannedOrder{fate: kind}
			if kind == flaky {
				p.fails = 1 + rng.IntN(2)
			}
			if kind.reason() == "" {
				w.good++
			}
			w.orders[o.ID] = p
			sent = append(sent, i)
		}
		w.messages = append(w.messages, m)
	}
	return w
}

// repeated is, while planning only, a message that repeats an earlier one.
const repeated fate = 255

// kinds says what each of n messages is, in random order.
func kinds(n int, rng *rand.Rand) []fate {
	all := make([]fate, 0, n)
	add := func(count int, kind fate) {
		for range count {
			all = append(all, kind)
		}
	}
	poisoned := int(float64(n) * poisonedShare)
	for i, kind := range [...]fate{undecodable, keyless, refused, failing} {
		add((poisoned+i)/4, kind)
	}
	add(int(float64(n)*flakyShare), flaky)
	add(int(float64(n)*repeatShare), repeated)
	add(n-len(all), succeeds)
	rng.Shuffle(n, func(i, j int) { all[i], all[j] = all[j], all[i] })
	for i, kind := range all {
		if kind == succeeds { // the first one must be something that can be repeated
			all[0], all[i] = all[i], all[0]
			break
		}
	}
	return all
}

// count counts the messages for which is says so.
func (w *workload) count(is func(*message) bool) int {
	n := 0
	for i := range w.messages {
		if is(&w.messages[i]) {
			n++
		}
	}
	return n
}
