package deadletter

import (
	"strings"
	"unicode/utf8"
)

// maxPattern is how many bytes of a text tell one group from another.
const maxPattern = 300

// Pattern is an error text without what differs from one message to the next:
// "#" stands for numbers, durations, addresses, UUIDs and other ids that have
// digits or are long hexadecimal, "…" in quotes for what was quoted. Texts of
// one cause have one pattern. It is at most about 300 bytes, in one pass over
// the text.
//
//	card 4711 of "ord-1" refused after 1.5s  →  card # of "…" refused after #
func Pattern(text string) string {
	pattern, _ := blanks(text)
	return pattern
}

// blank is a sign of a pattern: where it stands in it, and for what.
type blank struct {
	at   int
	text string
}

// patterning is a pattern as it is written.
type patterning struct {
	strings.Builder
	blanks []blank
}

// blanks is the pattern of a text, and what its signs stand for.
func blanks(text string) (string, []blank) {
	var b patterning
	for i := 0; i < len(text) && b.Len() < maxPattern; {
		if n := quotedLen(text, i); n > 0 {
			b.WriteByte(text[i])
			b.blanks = append(b.blanks, blank{b.Len(), text[i+1 : i+n-1]})
			b.WriteString("…")
			b.WriteByte(text[i])
			i += n
			continue
		}
		if n := uuidLen(text[i:]); n > 0 && !wordBefore(text, i) {
			b.sign(text[i : i+n])
			i += n
			continue
		}
		if n := durationLen(text, i); n > 0 {
			b.sign(text[i : i+n])
			i += n
			continue
		}
		if !isWord(text[i]) {
			_, n := utf8.DecodeRuneInString(text[i:])
			b.WriteString(text[i : i+n])
			i += n
			continue
		}
		n := 1
		for i+n < len(text) && isWord(text[i+n]) {
			n++
		}
		b.word(text[i : i+n])
		i += n
		if n := numberTail(text, i); n > 0 {
			b.sign(text[i : i+n])
			i += n
		}
	}
	return b.String(), b.blanks
}

// word writes a run of letters and digits.
func (b *patterning) word(w string) {
	digits, hex := 0, true
	for i := range len(w) {
		if isDigit(w[i]) {
			digits++
		}
		hex = hex && isHex(w[i])
	}
	switch {
	case digits == 0 && (!hex || len(w) < 16):
		b.WriteString(w)
	case len(w) >= 16, digits > 0 && hex && len(w) >= 8, digits > 0 && strings.HasPrefix(w, "0x"):
		b.sign(w) // an id, whatever it is made of
	default:
		for i := range len(w) {
			if isDigit(w[i]) {
				b.sign(w[i : i+1])
			} else {
				b.WriteByte(w[i])
			}
		}
	}
}

// sign writes one "#", also where one number follows another, or a "#".
func (b *patterning) sign(text string) {
	last, at := len(b.blanks)-1, b.Len()-1
	switch {
	case !strings.HasSuffix(b.String(), "#"):
		b.blanks = append(b.blanks, blank{b.Len(), text})
		b.WriteByte('#')
	case last >= 0 && b.blanks[last].at == at:
		b.blanks[last].text += text
	default:
		b.blanks = append(b.blanks, blank{at, "#" + text})
	}
}

// numberTail is the length of what goes on in a number: ".5" of 1.5, ",000" of
// 10,000, ".0.1:5432" of an address.
func numberTail(text string, i int) int {
	start := i
	for i > 0 && isDigit(text[i-1]) && i+1 < len(text) && strings.IndexByte(".,:", text[i]) >= 0 && isDigit(text[i+1]) {
		i++
		for i < len(text) && isDigit(text[i]) {
			i++
		}
	}
	return i - start
}

// durationLen is the length of a duration as Go writes it, such as 1m2.5s, that
// is a word of its own at i, or 0.
func durationLen(text string, i int) int {
	start := i
	if wordBefore(text, i) {
		return 0
	}
	for i < len(text) && isDigit(text[i]) {
		for i < len(text) && isDigit(text[i]) {
			i++
		}
		i += numberTail(text, i)
		unit := ""
		for _, u := range [...]string{"ns", "us", "µs", "ms", "s", "m", "h"} {
			if strings.HasPrefix(text[i:], u) {
				unit = u
				break
			}
		}
		if unit == "" {
			return 0
		}
		i += len(unit)
	}
	if i < len(text) && isWord(text[i]) {
		return 0
	}
	return i - start
}

// quotedLen is the length of what is quoted at i, its quotes included, or 0.
func quotedLen(text string, i int) int {
	q := text[i]
	if q != '"' && q != '\'' && q != '`' || wordBefore(text, i) {
		return 0
	}
	for j := i + 1; j < len(text); j++ {
		switch {
		case text[j] == '\\' && q == '"':
			j++
		case text[j] == q && (q != '\'' || j+1 == len(text) || !isWord(text[j+1])):
			return j + 1 - i
		}
	}
	return 0
}

// uuidLen is 36 where a UUID begins s.
func uuidLen(s string) int {
	const n = 36
	if len(s) < n || len(s) > n && isWord(s[n]) {
		return 0
	}
	for i := range n {
		if dash := i == 8 || i == 13 || i == 18 || i == 23; dash && s[i] != '-' || !dash && !isHex(s[i]) {
			return 0
		}
	}
	return n
}

func wordBefore(text string, i int) bool { return i > 0 && isWord(text[i-1]) }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isHex(c byte) bool   { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }
func isWord(c byte) bool  { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'z' }
