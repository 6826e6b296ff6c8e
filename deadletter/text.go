package deadletter

import (
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/onceward/onceward/internal/cut"
)

// Header values are one line of valid UTF-8: NATS turns line ends into spaces,
// and people read them on terminals, where control characters do harm.

// line makes one such line, not longer than most bytes, of a text for people.
// What cannot be shown becomes a space; a cut is marked with "…".
func line(s string, most int) string {
	if most <= 0 {
		return ""
	}
	// Long texts are cut before they are cleaned: cleaning never makes a text
	// longer by more than a factor of three (U+FFFD for a wrong byte).
	long := len(s) > 4*most
	if long {
		s = s[:4*most]
	}
	var b strings.Builder
	space := false
	for _, r := range s {
		if !strconv.IsPrint(r) || r == ' ' {
			space = b.Len() > 0
			continue
		}
		if space {
			b.WriteByte(' ')
			space = false
		}
		b.WriteRune(r)
	}
	return cutLine(b.String(), most, long)
}

// cutLine marks a text that is too long, or was cut before.
func cutLine(s string, most int, long bool) string {
	const mark = "…"
	if len(s) <= most && !long {
		return s
	}
	if most < len(mark) {
		return ""
	}
	return strings.TrimRight(cut.Text(s, most-len(mark)), " ") + mark
}

// exact writes a text so that it comes back the same: as it is where it is one
// clean line; in quotes with escapes as in Go where it is not; and as "=" and
// base64 where quotes would make it more than twice as long.
func exact(s string) string {
	if plain(s) {
		return s
	}
	if quoted := strconv.Quote(s); len(quoted) <= 2*len(s)+16 {
		return quoted
	}
	return "=" + base64.RawStdEncoding.EncodeToString([]byte(s))
}

// plain says that a text can be written as it is.
func plain(s string) bool {
	if s == "" {
		return true
	}
	if s[0] == '"' || s[0] == '=' || s[0] == ' ' || s[len(s)-1] == ' ' || !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if !strconv.IsPrint(r) {
			return false
		}
	}
	return true
}

var errText = errors.New("is not text as letters hold it")

// parseExact reads what exact wrote. Anything else is an error, so that one
// text has one form only.
func parseExact(s string) (string, error) {
	if plain(s) {
		return s, nil
	}
	var text string
	switch s[0] {
	case '"':
		unquoted, err := strconv.Unquote(s)
		if err != nil {
			return "", errText
		}
		text = unquoted
	case '=':
		raw, err := base64.RawStdEncoding.Strict().DecodeString(s[1:])
		if err != nil {
			return "", errText
		}
		text = string(raw)
	default:
		return "", errText
	}
	if exact(text) != s {
		return "", errText
	}
	return text, nil
}

// escapeLines writes a stack as one line that can be turned back.
func escapeLines(s string) string {
	return stackEscapes.Replace(s)
}

var stackEscapes = strings.NewReplacer("\\", `\\`, "\n", `\n`, "\t", `\t`)

func unescapeLines(s string) string {
	return stackUnescapes.Replace(s)
}

var stackUnescapes = strings.NewReplacer(`\\`, "\\", `\n`, "\n", `\t`, "\t")
