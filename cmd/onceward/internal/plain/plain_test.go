package plain

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestATerminalSeesOnlyWhatItShows(t *testing.T) {
	for text, want := range map[string]string{
		"plain text, größe, 日本": "plain text, größe, 日本",
		"\x1b[31mred\x1b[0m":    `\x1b[31mred\x1b[0m`,
		"\x1b]0;title\a":        `\x1b]0;title\x07`,
		"c1 \u009b31m":          `c1 \x9b31m`,
		"del \x7f back\b":       `del \x7f back\x08`,
		"\u202etxt.exe":         `\u202etxt.exe`,
		"zero\u200bwidth":       `zero\u200bwidth`,
		"bad \xff\xfe":          `bad \xff\xfe`,
		"tag \U000e0041":        `tag \U000e0041`,
		"line\r\n\tend":         `line\r\n\tend`,
		"\ufffd":                "\ufffd",
	} {
		if got := Line(text); got != want {
			t.Errorf("Line(%q) is %q, want %q", text, got, want)
		}
	}
	if got, want := Text("a\r\n\tb\x1b"), "a\\r\n\tb\\x1b"; got != want {
		t.Errorf("Text is %q, want %q", got, want)
	}
	var b bytes.Buffer
	n, err := Writer{&b}.Write([]byte("a\x1b[2J\n"))
	if n != 6 || err != nil || b.String() != `a\x1b[2J`+"\n" {
		t.Errorf("wrote %d, %v, %q", n, err, b.String())
	}
}

func hidden(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) && r != '\n' && r != '\t' })
}

func FuzzPlain(f *testing.F) {
	f.Add("\x1b[31m \u009b \u202e \xff")
	f.Fuzz(func(t *testing.T, s string) {
		if got := Text(s); hidden(got) || Text(got) != got {
			t.Errorf("Text(%q) is %q", s, got)
		}
		if got := Line(s); hidden(got) || strings.ContainsAny(got, "\n\t") || Line(got) != got {
			t.Errorf("Line(%q) is %q", s, got)
		}
		if !utf8.ValidString(s) {
			return
		}
		raw, err := json.Marshal(map[string]string{s: s})
		if err != nil {
			t.Fatal(err)
		}
		escaped := JSON(raw)
		var back map[string]string
		if err := json.Unmarshal(escaped, &back); err != nil || back[s] != s || hidden(string(escaped)) {
			t.Errorf("JSON of %q is %s: %v", s, escaped, err)
		}
	})
}
