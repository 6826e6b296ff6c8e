package subject_test

import (
	"testing"

	"github.com/onceward/onceward/internal/subject"
)

func TestSubjectsMatchAsOnTheServer(t *testing.T) {
	for _, c := range []struct {
		pattern, subject string
		want             bool
	}{
		{"a.b", "a.b", true}, {"a.*", "a.b", true}, {"a.>", "a.b", true}, {"a.>", "a.b.c", true}, {">", "a", true},
		{"a.>", "a", false}, {"a.*", "a.b.c", false}, {"a", "a.b", false}, {"a.b", "a", false}, {"b.*", "a.b", false},
		{"a.*.c", "a.b.c", true}, {"a.*.c", "a..c", false}, {"*.b", "a.b", true}, {"a.*", "a", false}, {">", "", false},
	} {
		if got := subject.Matches(c.pattern, c.subject); got != c.want {
			t.Errorf("%q covers %q: %v", c.pattern, c.subject, got)
		}
	}
}
