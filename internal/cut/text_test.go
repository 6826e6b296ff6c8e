package cut_test

import (
	"testing"

	"github.com/onceward/onceward/internal/cut"
)

func TestATextIsCutAtAWholeCharacter(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int
		want string
	}{
		{"", 0, ""}, {"short", 5, "short"}, {"longer", 4, "long"}, {"aé", 2, "a"}, {"aé", 3, "aé"}, {"€", 2, ""}, {"x\xbf\xbf\xbf\xbf\xbf", 5, "x\xbf\xbf\xbf\xbf"},
	} {
		if got := cut.Text(c.text, c.n); got != c.want {
			t.Errorf("%q to %d bytes: %q, want %q", c.text, c.n, got, c.want)
		}
	}
}
