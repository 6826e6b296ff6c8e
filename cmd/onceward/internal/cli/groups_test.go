package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/onceward/onceward/cmd/onceward/internal/plain"
	"github.com/onceward/onceward/deadletter"
)

func groupLines(t *testing.T, groups ...deadletter.Group) []string {
	t.Helper()
	var out bytes.Buffer
	a := &app{Process: &Process{Stdout: &out}, out: plain.Writer{W: &out}}
	if err := a.groupTable(groups); err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}

func someGroup() deadletter.Group {
	return deadletter.Group{
		Count: 12345, Reason: deadletter.ReasonCrashLoop, ErrorType: "*github.com/acme/shop/billing.RefusedError", Text: "status 500|503: " + strings.Repeat("größe ", 30),
		AppVersion: "v1.4.0", First: time.Now().Add(-time.Minute), Last: time.Now(), Example: strings.Repeat("0123456789abcdef", 2),
	}
}

func TestGroupsFitATerminal(t *testing.T) {
	one, other := someGroup(), someGroup()
	other.Held, other.AppVersion, other.First = 17, "v1.5.0-rc1+build.4711", time.Date(2019, 3, 1, 10, 0, 0, 0, time.UTC)
	for _, line := range groupLines(t, one, other) {
		if n := utf8.RuneCountInString(line); n > groupsWidth {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	lines := groupLines(t, one, other)
	for i, texts := range [][]string{{"HELD", "VERSION"}, {"status 500|503", "0123456789ab", "v1.4.0"}, {"17", "2019-03-01"}} {
		for _, text := range texts {
			if !strings.Contains(lines[i], text) {
				t.Errorf("%q lacks %q", lines[i], text)
			}
		}
	}
}

func TestAGroupOfOneVersionShowsItsType(t *testing.T) {
	if lines := groupLines(t, someGroup()); !strings.Contains(lines[1], "billing.RefusedError") || utf8.RuneCountInString(lines[1]) > groupsWidth {
		t.Errorf("%s", strings.Join(lines, "\n"))
	}
}

func TestColumnsThatSayNothingAreLeftOut(t *testing.T) {
	one := someGroup()
	one.ErrorType = ""
	for _, head := range []string{"HELD", "TYPE", "VERSION"} {
		if lines := groupLines(t, one, one); strings.Contains(lines[0], head) {
			t.Errorf("%q has %s", lines[0], head)
		}
	}
}

func TestTypesAreShortNames(t *testing.T) {
	for name, want := range map[string]string{
		"": "", "*errors.errorString": "errors.errorString", "*github.com/acme/shop/billing.RefusedError": "billing.RefusedError",
		"com.example.CardRefusedException": "CardRefusedException", "*pkg.Wrong[github.com/acme/x.T]": "pkg.Wrong", "TimeoutError": "TimeoutError",
	} {
		if got := shortType(name); got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
}
