// Package plain keeps control characters away from terminals. Error texts,
// keys and payloads are written by whoever can send a message, and a terminal
// obeys what is in them: it moves its cursor, sets its title, hides text.
package plain

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Line is s on one line: whatever is not to be seen is written as an escape,
// a line end as \n.
func Line(s string) string { return visible(s, false) }

// Text is s with its line ends and tabs, and all else that is not to be seen as
// escapes.
func Text(s string) string { return visible(s, true) }

func visible(s string, lines bool) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r == utf8.RuneError || !shows(r, lines) }) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case shows(r, lines):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		i += size
	}
	return b.String()
}

// shows says that a terminal shows r where it stands, and does nothing else.
// Bidirectional controls and zero-width characters are not printable to
// strconv.
func shows(r rune, lines bool) bool {
	return strconv.IsPrint(r) || lines && (r == '\n' || r == '\t')
}

// Writer writes to w what [Text] makes of it: the last place that anything
// passes on its way to a terminal. What is written must be whole characters.
type Writer struct{ W io.Writer }

// Write implements [io.Writer].
func (w Writer) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.W, Text(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// JSON writes what is not to be seen in a JSON text as its escapes, which JSON
// readers turn back. In a valid one it can stand in strings only.
func JSON(text []byte) []byte {
	var b []byte
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		if b == nil && (shows(r, true) && r != utf8.RuneError) {
			i += size
			continue
		}
		if b == nil {
			b = append(make([]byte, 0, len(text)+64), text[:i]...)
		}
		switch {
		case shows(r, true):
			b = append(b, text[i:i+size]...)
		case r <= 0xffff:
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			r -= 0x10000
			b = fmt.Appendf(b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		}
		i += size
	}
	if b == nil {
		return text
	}
	return b
}
