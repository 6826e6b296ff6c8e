package deadletter

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/brokers"
)

func TestATicketComesBackAsItWasWritten(t *testing.T) {
	for _, want := range []Ticket{
		{ID: "00112233445566778899aabbccddeeff", Token: "M7QZ4WN2", Job: "j-1", Count: 2},
		{ID: strings.Repeat("f", 128), Token: strings.Repeat("t", 128), Job: strings.Repeat("j", 256), Count: 1 << 30},
		{ID: "letter \"7\"\n", Token: "t"},
		{ID: strings.Repeat("\xff", 128), Token: "t"},
	} {
		headers := want.Headers()
		for i := range headers {
			headers[i].Key = strings.ToUpper(headers[i].Key) // as proxies do
		}
		headers = append([]brokers.Header{{Key: "trace", Value: []byte("x")}, {Key: "dl-reason", Value: []byte("decode")}}, headers...)
		if got, ok := ReadTicket(headers); !ok || got != want {
			t.Errorf("%+v came back as %+v, %v", want, got, ok)
		}
	}
}

func TestABrokenTicketIsNone(t *testing.T) {
	h := func(pairs ...string) (headers []brokers.Header) {
		for i := 0; i < len(pairs); i += 2 {
			headers = append(headers, brokers.Header{Key: pairs[i], Value: []byte(pairs[i+1])})
		}
		return headers
	}
	for name, headers := range map[string][]brokers.Header{
		"none":            nil,
		"no token":        h("dl-id", "a"),
		"no id":           h("dl-replay-token", "t"),
		"token twice":     h("dl-id", "a", "dl-replay-token", "t", "DL-Replay-Token", "t"),
		"id twice":        h("dl-id", "a", "dl-replay-token", "t", "dl-id", "b"),
		"empty, then one": h("dl-id", "", "dl-id", "a", "dl-replay-token", "t"),
		"job twice":       h("dl-id", "a", "dl-replay-token", "t", "dl-replay-job", "j", "dl-replay-job", "k"),
		"long token":      h("dl-id", "a", "dl-replay-token", strings.Repeat("t", 129)),
		"long id":         h("dl-id", strings.Repeat("a", 129), "dl-replay-token", "t"),
		"long job":        h("dl-id", "a", "dl-replay-token", "t", "dl-replay-job", strings.Repeat("j", 8<<10)),
		"id in no form":   h("dl-id", "a\nb", "dl-replay-token", "t"),
		"token of lines":  h("dl-id", "a", "dl-replay-token", "t\nu"),
	} {
		if got, ok := ReadTicket(headers); ok {
			t.Errorf("%s: %+v", name, got)
		}
	}
	got, ok := ReadTicket(h("dl-id", "a", "dl-replay-token", "t", "dl-replay-job", "j\x1b[2J", "dl-replay-count", "-1"))
	if !ok || got != (Ticket{ID: "a", Token: "t"}) {
		t.Errorf("job and count that cannot be read are not left out: %+v, %v", got, ok)
	}
}

func TestAnEarlierTokenOfALetterIsKnownAndGivesNoRight(t *testing.T) {
	first := NewToken("")
	second, other := NewToken(first), NewToken("")
	for _, c := range []struct {
		token, note  string
		own, present bool
	}{
		{first, first, true, true},
		{first, second, true, false},
		{second, NewToken(second), true, false},
		{other, second, false, false},
		{"", "", false, false},
		{"", first, false, false},
		{first, "", false, false},
		{"fixed", "fixed", true, true},
		{"fixed", "other", false, false},
		{".a", ".b", false, false}, // of nobody who makes tokens here
	} {
		if own, present := (Ticket{ID: "a", Token: c.token}).Of(c.note); own != c.own || present != c.present {
			t.Errorf("%q of %q: %v, %v", c.token, c.note, own, present)
		}
	}
	if got, ok := ReadTicket(Ticket{ID: "a", Token: NewToken(NewToken(second))}.Headers()); !ok || len(got.Token) > 64 {
		t.Errorf("tokens grow: %+v, %v", got, ok)
	}
}

// What is read is what would be written, so that a copy that waits again bears
// the same.
func FuzzReadTicket(f *testing.F) {
	f.Add("dl-id", []byte("a"), "Dl-Replay-Token", []byte("t"), "dl-replay-job", []byte("j"), "dl-replay-count", []byte("3"))
	f.Add("dl-id", []byte("=/w"), "dl-id", []byte("b"), "dl-replay-token", []byte("\"\""), "dl-", []byte(nil))
	f.Fuzz(func(t *testing.T, k1 string, v1 []byte, k2 string, v2 []byte, k3 string, v3 []byte, k4 string, v4 []byte) {
		headers := []brokers.Header{{Key: k1, Value: v1}, {Key: k2, Value: v2}, {Key: k3, Value: v3}, {Key: k4, Value: v4}}
		ticket, ok := ReadTicket(headers)
		if !ok {
			return
		}
		again, ok := ReadTicket(ticket.Headers())
		if !ok || again != ticket {
			t.Errorf("%+v is written as %v and read as %+v, %v", ticket, ticket.Headers(), again, ok)
		}
		if !slices.ContainsFunc(headers, func(h brokers.Header) bool { return bytes.Equal(h.Value, []byte(ticket.Token)) }) {
			t.Errorf("token %q is in none of %v", ticket.Token, headers)
		}
	})
}
