// Package subject compares subjects of NATS with patterns, as its server does.
package subject

import "strings"

// Matches says whether pattern covers subject: "*" stands for one token, ">" at
// the end for one or more. A subject with an empty token is covered by none.
func Matches(pattern, subject string) bool {
	for {
		want, wanted, more := strings.Cut(pattern, ".")
		if want == ">" && !more {
			return subject != ""
		}
		have, rest, left := strings.Cut(subject, ".")
		if have == "" || want != "*" && want != have || more != left {
			return false
		}
		if !more {
			return true
		}
		pattern, subject = wanted, rest
	}
}
