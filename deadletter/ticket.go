package deadletter

import (
	"crypto/rand"
	"crypto/subtle"
	"strconv"
	"strings"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/dedup"
)

// Ticket is what the copy of a letter bears on its way back to the consumer, in
// headers of its own: which letter it is, and by which right it comes. The
// token is the only thing in a message's headers that decides anything, and
// only where the store holds the same one for the letter of that id; the others
// are for people.
type Ticket struct {
	ID    string // dl-id of the letter
	Token string // see [NewToken]; 1 to 128 bytes without spaces
	Job   string // the replay job that sent the copy; at most 256 bytes
	Count int    // how often the message has been sent back, this copy included
}

// TokenHeader bears the token. Whoever shows a copy on its way to somebody who
// must not act for it leaves the value out.
const TokenHeader = hReplayToken

const (
	maxToken  = 128
	maxTicket = 2*maxName + 16 // bytes of one of its headers: text in quotes may be twice as long
)

// Headers are those of a copy beside the original's own; those that begin with
// dl- must have been taken off before. They weigh the same however often a
// message comes back.
func (t Ticket) Headers() []brokers.Header {
	o := own{headers: make([]brokers.Header, 0, len(ticketNames))}
	o.add(hID, exact(t.ID))
	o.add(hReplayToken, t.Token)
	o.add(hReplayJob, line(t.Job, maxName))
	o.count(hReplayCount, t.Count)
	return o.headers
}

// ReadTicket reads what a copy bears; names may be in any case. It is false
// for a message that bears none: id or token is missing or cannot be read, or
// one of the four occurs twice or is longer than any that is written here. Job
// and count, which are for people, are left out where they cannot be read.
//
// Anybody who can publish can write a ticket: it holds only where the store has
// the same token for the letter of that id.
func ReadTicket(headers []brokers.Header) (Ticket, bool) {
	var values [len(ticketNames)][]byte
	for i := range headers {
		h := &headers[i]
		if !IsOwnHeader(h.Key) {
			continue
		}
		for n, name := range ticketNames {
			if len(h.Key) != len(name) || !strings.EqualFold(h.Key, name) {
				continue
			}
			if values[n] != nil || len(h.Value) == 0 || len(h.Value) > maxTicket {
				return Ticket{}, false
			}
			values[n] = h.Value
		}
	}
	if values[0] == nil || values[1] == nil || len(values[1]) > maxToken {
		return Ticket{}, false
	}
	t := Ticket{Token: string(values[1]), Job: string(values[2])}
	id, err := parseExact(string(values[0]))
	if err != nil || len(id) > dedup.MaxLetterID || strings.ContainsFunc(t.Token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return Ticket{}, false
	}
	t.ID = id
	if line(t.Job, maxName) != t.Job {
		t.Job = ""
	}
	if n, err := strconv.ParseInt(string(values[3]), 10, 32); err == nil && n > 0 {
		t.Count = int(n)
	}
	return t, true
}

// NewToken makes the token of the next copy of a letter. last is that of the
// copy before, as the letter's note has it, or empty. It is random, and the
// tokens of one letter begin alike, so that a copy which the broker repeats
// late, after others of its letter, is still known as one.
func NewToken(last string) string {
	stem, _, ok := strings.Cut(last, tokenPoint)
	if !ok || stem == "" {
		stem = rand.Text()
	}
	return stem + tokenPoint + rand.Text()
}

// Of says whether the ticket is of the letter whose note has token, by this
// copy or an earlier one, and whether it is this very copy's. Both take the
// same time for all wrong tokens of one length.
func (t Ticket) Of(token string) (own, present bool) {
	stem, _, ok := strings.Cut(token, tokenPoint)
	mine, _, too := strings.Cut(t.Token, tokenPoint)
	present = token != "" && subtle.ConstantTimeCompare([]byte(token), []byte(t.Token)) == 1
	own = ok && too && stem != "" && subtle.ConstantTimeCompare([]byte(stem), []byte(mine)) == 1
	return own || present, present
}

const tokenPoint = "."

// ticketNames are the headers of a copy; id and token come first.
var ticketNames = [...]string{hID, hReplayToken, hReplayJob, hReplayCount}
