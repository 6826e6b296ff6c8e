// Package cut bounds what people read.
package cut

import "unicode/utf8"

// Text keeps at most n bytes of s, and no half of a rune.
func Text(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for end := n; end > n-utf8.UTFMax && end >= 0; end-- {
		if utf8.RuneStart(s[end]) {
			return s[:end]
		}
	}
	return s[:n] // no text at all
}
