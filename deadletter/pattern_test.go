package deadletter

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTextsOfOneCauseHaveOnePattern(t *testing.T) {
	for text, want := range map[string]string{
		"": "",
		`card 4711 of "ord-1" refused after 1.5s`:                             `card # of "…" refused after #`,
		"dial tcp 10.0.0.17:5432: connect: connection refused":                "dial tcp #: connect: connection refused",
		"order ord-123 not found":                                             "order ord-# not found",
		"no row for 5c1f0b5e-3f1a-4c3f-9a57-1a2b3c4d5e6f, retry":              "no row for #, retry",
		"trace 4bf92f3577b34da6a3ce929d0e0e4736":                              "trace #",
		"ulid 01ARZ3NDEKTSV4RRFFQ69G5FAV and abcdefabcdefabcdef":              "ulid # and #",
		"amount 10,000.50 EUR":                                                "amount # EUR",
		"after 900ms, 1m2.5s, 12.5µs and 3h of 5 min":                         "after #, #, # and # of # min",
		"4s3 12smith 7 s":                                                     "#s# #smith # s",
		"pointer 0xc000123abc":                                                "pointer #",
		"can't do it; they can't":                                             "can't do it; they can't",
		"field 'order.id' of `a b` is \"a \\\" b\"":                           "field '…' of `…` is \"…\"",
		"an open \"quote 12":                                                  "an open \"quote #",
		"HTTP2 and sha256 of utf8":                                            "HTTP# and sha# of utf#",
		"decade facade beef":                                                  "decade facade beef",
		"größe 3 ≤ 4 日本":                                                      "größe # ≤ # 日本",
		"pq: duplicate key value violates unique constraint (SQLSTATE 23505)": "pq: duplicate key value violates unique constraint (SQLSTATE #)",
		"2026-03-01T10:00:00Z too late":                                       "#-#-#T#Z too late",
		"at 1712345678901 and 99 of batch deadbeef1":                          "at # and # of batch #",
	} {
		if got := Pattern(text); got != want {
			t.Errorf("%q\n got %q\nwant %q", text, got, want)
		}
	}
}

func FuzzPattern(f *testing.F) {
	f.Add(`card 4711 of "ord-1" 5c1f0b5e-3f1a-4c3f-9a57-1a2b3c4d5e6f 'x' 10.0.0.1:1`)
	f.Add(strings.Repeat("a1 ", 500))
	f.Fuzz(func(t *testing.T, text string) {
		p := Pattern(text)
		if len(p) > maxPattern+len(text) || len(text) > 8<<10 && len(p) > 9<<10 {
			t.Errorf("%d bytes of %d", len(p), len(text))
		}
		_, signs := blanks(text)
		g := gathering{Group: Group{Pattern: p, Count: 1}}
		if g.fill(signs); !slices.ContainsFunc(g.filled, func(f filled) bool { return f.values == nil }) && !strings.HasPrefix(text, g.text()) {
			t.Errorf("%q of one letter is shown as %q", text, g.text())
		}
		if strings.ContainsAny(p, "0123456789") {
			t.Errorf("%q has digits", p)
		}
		if utf8.ValidString(text) && !utf8.ValidString(p) {
			t.Errorf("%q is no text", p)
		}
	})
}
