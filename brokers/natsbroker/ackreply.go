package natsbroker

import (
	"strings"
	"time"
)

// coordinates are what a delivery's reply subject says.
type coordinates struct {
	sequence int64  // in the stream
	consumed uint64 // in the consumer, where a gap is a message that was lost
	stored   time.Time
	pending  uint64 // what the consumer has to deliver after it
}

// parseReply reads "$JS.ACK.<stream>.<consumer>.<delivered>.<sequence>.
// <consumer sequence>.<stored>.<pending>", or the newer form that has domain
// and account hash after ACK and may have further tokens at its end.
//
// Source: ADR-15 of nats-io/nats-architecture-and-design.
func parseReply(reply string) (coordinates, bool) {
	rest, ok := strings.CutPrefix(reply, "$JS.ACK.")
	if !ok {
		return coordinates{}, false
	}
	skip := 2
	if n := strings.Count(rest, "."); n >= 8 {
		skip = 4
	} else if n != 6 {
		return coordinates{}, false
	}
	for range skip {
		_, rest, _ = strings.Cut(rest, ".")
	}
	var n [5]uint64 // delivered, sequence, consumer sequence, stored, pending
	for i := range n {
		var token string
		token, rest, _ = strings.Cut(rest, ".")
		if n[i], ok = number(token); !ok {
			return coordinates{}, false
		}
	}
	return coordinates{sequence: int64(n[1]), consumed: n[2], stored: time.Unix(0, int64(n[3])).UTC(), pending: n[4]}, true
}

// number is strconv.ParseUint for up to 19 digits, without its error.
func number(s string) (uint64, bool) {
	if s == "" || len(s) > 19 {
		return 0, false
	}
	var n uint64
	for i := range len(s) {
		c := s[i] - '0'
		if c > 9 {
			return 0, false
		}
		n = n*10 + uint64(c)
	}
	return n, n < 1<<63
}
