package natsbroker

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/nats-io/nats.go"

	"github.com/onceward/onceward/brokers"
)

// Headers of the envelope. NATS headers are lines of text in no order, and
// those that begin with "Nats-" are orders to the server; what does not fit is
// carried here. A message without listHeader has no envelope.
const (
	// listHeader is "1" and then one word for each header, in order: its name
	// when it stands in a header of that name, or ":name:value" with both in
	// base64 when it cannot (":name" for a nil value).
	listHeader    = "Onceward-Headers"
	keyHeader     = "Onceward-Key"     // the broker's key in base64, where there is one
	valueHeader   = "Onceward-Value"   // "nil" when the value is nil, not empty
	subjectHeader = "Onceward-Subject" // the subject that a copy was first published to
)

// maxHeaders is what a JetStream server accepts of one message's headers, in
// bytes as they are sent.
const maxHeaders = 65535

// maxSubject is far over what anybody names. A server closes the connection of
// one who sends a line over 4 KiB, for good.
const maxSubject = 1 << 10

var base64er = base64.RawURLEncoding

// wrap makes the NATS message of m.
//
// Errors: [brokers.ErrNoDestination] for a topic that is no subject, too long,
// or one that the server takes for an order; [brokers.ErrTooLarge] when the headers are over 64 KiB.
func wrap(m *brokers.Outgoing) (*nats.Msg, error) {
	switch {
	case !literalSubject(m.Topic):
		return nil, fmt.Errorf("%w: it is no subject", brokers.ErrNoDestination)
	case len(m.Topic) > maxSubject:
		return nil, fmt.Errorf("%w: it is %d bytes, at most %d", brokers.ErrNoDestination, len(m.Topic), maxSubject)
	case strings.HasPrefix(m.Topic, "$JS.") || strings.HasPrefix(m.Topic, "$SYS."):
		// A stream could be deleted by a message.
		return nil, fmt.Errorf("%w: it is the server's own subject", brokers.ErrNoDestination)
	}
	out := &nats.Msg{Subject: m.Topic, Data: m.Value}
	list := []string{"1"}
	ordered, held := true, true
	for i, h := range m.Headers {
		if i > 0 && h.Key < m.Headers[i-1].Key {
			ordered = false
		}
		if plainName(h.Key) && plainValue(h.Value) {
			list = append(list, h.Key)
			if out.Header == nil {
				out.Header = nats.Header{}
			}
			out.Header[h.Key] = append(out.Header[h.Key], string(h.Value))
			continue
		}
		held = false
		word := ":" + base64er.EncodeToString([]byte(h.Key))
		if h.Value != nil {
			word += ":" + base64er.EncodeToString(h.Value)
		}
		list = append(list, word)
	}
	if ordered && held && m.Key == nil && m.Value != nil && m.ID == "" && m.Subject == "" {
		return out, nil
	}
	if out.Header == nil {
		out.Header = nats.Header{}
	}
	out.Header[listHeader] = []string{strings.Join(list, " ")}
	if m.Key != nil {
		out.Header[keyHeader] = []string{base64er.EncodeToString(m.Key)}
	}
	if m.Value == nil {
		out.Header[valueHeader] = []string{"nil"}
	}
	if m.Subject != "" {
		out.Header[subjectHeader] = []string{base64er.EncodeToString([]byte(m.Subject))}
	}
	if m.ID != "" {
		if !plainValue([]byte(m.ID)) {
			return nil, fmt.Errorf("id %q is no header value", m.ID)
		}
		out.Header[nats.MsgIdHdr] = []string{m.ID}
	}
	n := len("NATS/1.0\r\n\r\n")
	for name, values := range out.Header {
		for _, v := range values {
			n += len(name) + len(": \r\n") + len(v)
		}
	}
	if n > maxHeaders {
		return nil, fmt.Errorf("%w: headers of %d bytes, at most %d", brokers.ErrTooLarge, n, maxHeaders)
	}
	return out, nil
}

// unwrap fills key, value, headers and, where the envelope names one, the
// subject of d. An envelope that makes no sense is left as ordinary headers: it
// is somebody else's, or damaged, and the handler sees it as it is.
func unwrap(header nats.Header, data []byte, d *brokers.Delivery) {
	d.Value = data
	if len(header) == 0 {
		return
	}
	if list := header[listHeader]; len(list) == 1 {
		if err := open(header, list[0], d); err == nil {
			return
		}
		d.Key, d.Value, d.Headers = nil, data, nil
	}
	if len(header) > 1 {
		d.Headers = appendHeaders(nil, header, func(string) bool { return true })
		return
	}
	for name, values := range header { // the usual case, made cheap
		d.Headers = make([]brokers.Header, len(values))
		for i, v := range values {
			d.Headers[i] = brokers.Header{Key: name, Value: []byte(v)}
		}
	}
}

func open(header nats.Header, list string, d *brokers.Delivery) error {
	words := strings.Split(list, " ")
	if words[0] != "1" {
		return errors.New("unknown version")
	}
	var subject []byte
	if v := header[keyHeader]; len(v) > 0 {
		key, err := base64er.DecodeString(v[0])
		if err != nil {
			return err
		}
		d.Key = key
	}
	if v := header[subjectHeader]; len(v) > 0 {
		var err error
		if subject, err = base64er.DecodeString(v[0]); err != nil {
			return err
		}
	}
	if v := header[valueHeader]; len(v) > 0 {
		if v[0] != "nil" || len(d.Value) > 0 {
			return errors.New("value is said to be nil")
		}
		d.Value = nil
	}
	used := map[string]int{}
	if len(words) > 1 {
		d.Headers = make([]brokers.Header, 0, len(words)-1)
	}
	for _, word := range words[1:] {
		if rest, inside := strings.CutPrefix(word, ":"); inside {
			h, err := openWord(rest)
			if err != nil {
				return err
			}
			d.Headers = append(d.Headers, h)
			continue
		}
		n := used[word]
		if n >= len(header[word]) {
			return fmt.Errorf("header %q is missing", word)
		}
		used[word]++
		d.Headers = append(d.Headers, brokers.Header{Key: word, Value: []byte(header[word][n])})
	}
	// What somebody on the way added follows; ours and the server's do not.
	d.Headers = appendHeaders(d.Headers, header, func(name string) bool { return used[name] == 0 && !reserved(name) })
	if len(d.Headers) == 0 {
		d.Headers = nil
	}
	if subject != nil {
		d.Subject = string(subject)
	}
	return nil
}

func openWord(word string) (brokers.Header, error) {
	name, value, some := strings.Cut(word, ":")
	key, err := base64er.DecodeString(name)
	if err != nil {
		return brokers.Header{}, err
	}
	h := brokers.Header{Key: string(key)}
	if some {
		if h.Value, err = base64er.DecodeString(value); err != nil {
			return brokers.Header{}, err
		}
	}
	return h, nil
}

// appendHeaders adds those that keep wants, by name: a NATS client does not
// tell in which order names came. All values share one allocation.
func appendHeaders(to []brokers.Header, header nats.Header, keep func(name string) bool) []brokers.Header {
	var few [8]string // most messages have fewer, and then this costs nothing
	names := few[:0]
	n, size := 0, 0
	for name, values := range header {
		if !keep(name) {
			continue
		}
		names = append(names, name)
		n += len(values)
		for _, v := range values {
			size += len(v)
		}
	}
	if n == 0 {
		return to
	}
	if len(names) > 1 {
		slices.Sort(names)
	}
	to = slices.Grow(to, n)
	text := make([]byte, 0, size)
	for _, name := range names {
		for _, v := range header[name] {
			from := len(text)
			text = append(text, v...)
			to = append(to, brokers.Header{Key: name, Value: text[from:len(text):len(text)]})
		}
	}
	return to
}

// plainName reports whether a header may stand under its own name.
func plainName(name string) bool {
	if name == "" || reserved(name) {
		return false
	}
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c >= 0x7f || c == ':' {
			return false
		}
	}
	return true
}

// reserved are the names that mean something to the server, to clients or to
// the envelope. A letter that carried its original's Nats-Msg-Id or
// Nats-Expected-Stream under these names would be refused or deduplicated.
func reserved(name string) bool {
	const ours, servers = "Onceward-", "Nats-"
	return len(name) >= len(ours) && strings.EqualFold(name[:len(ours)], ours) ||
		len(name) >= len(servers) && strings.EqualFold(name[:len(servers)], servers) ||
		name == "Status" || name == "Description"
}

// plainValue reports whether every client reads back exactly these bytes.
func plainValue(value []byte) bool {
	if value == nil || !utf8.Valid(value) {
		return false
	}
	for _, c := range value {
		if c < ' ' || c == 0x7f {
			return false
		}
	}
	n := len(value)
	return n == 0 || value[0] != ' ' && value[n-1] != ' '
}

// literalSubject reports whether a message can be published to s.
func literalSubject(s string) bool {
	for token := range strings.SplitSeq(s, ".") {
		if token == "" || token == "*" || token == ">" || strings.ContainsAny(token, " \t\r\n") {
			return false
		}
	}
	return true
}
