package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/cmd/onceward/internal/plain"
	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
)

func TestColumnsStayWhereTheyAreFromPageToPage(t *testing.T) {
	var out bytes.Buffer
	a := &app{Process: &Process{Stdout: &out}, out: plain.Writer{W: &out}}
	table := a.table("KEY", "ERROR")
	for i := range 2 * page {
		key := "ord"
		if i == 0 {
			key = "the longest größe"
		}
		if err := table.row(key, "line one\nline two\x1b"); err != nil {
			t.Fatal(err)
		}
		if written := strings.Count(out.String(), "\n"); i == page-1 && written != page+1 || i == page && written != page+1 {
			t.Errorf("%d lines are written after %d rows", written, i+1)
		}
	}
	if err := table.flush(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != 2*page+1 {
		t.Fatalf("%d lines", len(lines))
	}
	for _, l := range lines {
		if r := []rune(l); string(r[17:19]) != "  " || r[19] == ' ' || strings.Contains(l, "\x1b") {
			t.Errorf("%q", l)
		}
	}
}

func TestALongCellMovesItsOwnRowAlone(t *testing.T) {
	var out bytes.Buffer
	a := &app{Process: &Process{Stdout: &out}, out: plain.Writer{W: &out}}
	table := a.table("KEY", "ERROR").least(8)
	for i := range 3 * page {
		key := "ord"
		if i == page+5 {
			key = "much longer than the others"
		}
		if err := table.row(key, "refused"); err != nil {
			t.Fatal(err)
		}
	}
	moved := 0
	for l := range strings.Lines(out.String()) {
		if at := strings.Index(l, "refused"); at >= 0 && at != 10 {
			moved++
		}
	}
	if moved != 1 {
		t.Errorf("%d rows have moved:\n%s", moved, out.String())
	}
}

func TestTimesAreReadAsPeopleWriteThem(t *testing.T) {
	for text, want := range map[string]time.Time{
		"2026-03-01T10:00:00Z":      time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC),
		"2026-03-01T10:00:00+02:00": time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC),
		"2026-03-01 10:00:00":       time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC),
		"2026-03-01":                time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC),
		"":                          {},
	} {
		if got, err := moment(text); err != nil || !got.Equal(want) {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
	for text, ago := range map[string]time.Duration{"90m": 90 * time.Minute, "7d": 168 * time.Hour, "1.5d": 36 * time.Hour, "0s": 0} {
		got, err := moment(text)
		if off := time.Since(got) - ago; err != nil || off < 0 || off > time.Minute {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"soon", "-5m", "d", "1e9d", "12", "2026-13-01"} {
		if got, err := moment(text); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
}

func FuzzLinesOfAnImport(f *testing.F) {
	f.Add(`{"scope":"s","id":"a","at":"2026-03-01T10:00:00Z"}` + "\n\n" + `{"id":"b"} x`)
	f.Add("{\"id\":\"\xff\"}")
	f.Fuzz(func(_ *testing.T, text string) {
		for _, err := range lines(strings.NewReader(text)) {
			if err != nil {
				return
			}
		}
	})
}

func TestNothingIsSaidOfWhatNobodyHasSaid(t *testing.T) {
	var out bytes.Buffer
	a := &app{Process: &Process{Stdout: &out}, out: plain.Writer{W: &out}}
	r := dedup.Record{Key: dedup.Key{Consumer: "billing", Scope: "order.create", ID: "a"}, State: dedup.Failed, Job: "replay-1", Approver: "eve"}
	if err := a.recordFacts(&r); err != nil {
		t.Fatal(err)
	}
	f := a.facts()
	f.addReasons([]whyNot{{Action: deadletter.Refuse, Why: "no source", Count: 1}})
	if err := f.flush(); err != nil {
		t.Fatal(err)
	}
	e := deadletter.Entry{Note: dedup.Letter{State: dedup.LetterHeld, Answer: dedup.Failed}}
	text := out.String() + stateText(&e)
	if !strings.Contains(text, "by eve\n") || strings.Contains(text, "such as") || strings.Contains(text, "sent by") {
		t.Errorf("%s", text)
	}
}
