package cli

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/onceward/onceward/cmd/onceward/internal/plain"
)

// object writes v as one line of JSON. What a terminal would obey is escaped
// in it, as JSON allows anyway.
func (a *app) object(v any) error {
	text, err := json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	_, err = a.Stdout.Write(append(plain.JSON(text), '\n'))
	return err
}

// say tells something on stderr.
func (a *app) say(format string, args ...any) { fmt.Fprintf(a.talk, format+"\n", args...) }

// table is rows of cells in columns, of which some are written at once, so that
// the first rows of a long list are seen soon. They say how wide the columns are:
// a longer cell that comes later moves its own row and no other.
type table struct {
	w      io.Writer
	held   [][]string
	widths []int
	fixed  bool
	rows   int
}

// page is how many rows are written at once.
const page = 20

func (a *app) table(heads ...string) *table {
	return &table{w: a.out, held: [][]string{heads}, widths: make([]int, len(heads))}
}

// least sets widths that columns have in any case, for what is to come.
func (t *table) least(widths ...int) *table {
	copy(t.widths, widths)
	return t
}

// row adds a row, of as many cells as there are heads.
func (t *table) row(cells ...string) error {
	for i, c := range cells {
		if c == "" {
			c = "-"
		}
		cells[i] = plain.Line(c)
	}
	t.rows++
	if t.held = append(t.held, cells); t.rows%page != 0 {
		return nil
	}
	return t.flush()
}

// flush writes what is held back.
func (t *table) flush() error {
	for _, cells := range t.held {
		for i, c := range cells {
			if !t.fixed {
				t.widths[i] = max(t.widths[i], utf8.RuneCountInString(c))
			}
		}
	}
	t.fixed = true
	var b strings.Builder
	for _, cells := range t.held {
		for i, c := range cells {
			b.WriteString(c)
			if i < len(cells)-1 {
				b.WriteString(strings.Repeat(" ", max(t.widths[i]-utf8.RuneCountInString(c), 0)+2))
			}
		}
		b.WriteByte('\n')
	}
	t.held = t.held[:0]
	_, err := io.WriteString(t.w, b.String())
	return err
}

// facts are lines of name and value; a value that is empty is left out.
type facts struct{ w *tabwriter.Writer }

func (a *app) facts() facts { return facts{tabwriter.NewWriter(a.out, 0, 8, 2, ' ', 0)} }

func (f facts) add(name, value string) {
	if value != "" {
		fmt.Fprintf(f.w, "%s\t%s\n", name, plain.Line(value))
	}
}

func (f facts) flush() error { return f.w.Flush() }

// when is a time as people read it.
func when(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// short is a text of at most n characters.
func short(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// counted is a number with what is counted.
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if root, ok := strings.CutSuffix(what, "y"); ok {
		return strconv.Itoa(n) + " " + root + "ies"
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// progress tells now and then how far something is.
type progress struct {
	a    *app
	next time.Time
}

// progressEvery is rare enough for a log and often enough for a person.
const progressEvery = 2 * time.Second

func (a *app) progress() *progress { return &progress{a, time.Now().Add(progressEvery)} }

func (p *progress) tell(format string, args ...any) {
	if now := time.Now(); !p.a.quiet && now.After(p.next) {
		p.next = now.Add(progressEvery)
		p.a.say(format, args...)
	}
}

// confirm asks whether to go on, where somebody can answer. Where nobody can,
// --yes must have been given.
func (a *app) confirm(format string, args ...any) error {
	if a.yes {
		return nil
	}
	if !a.Terminal {
		return usage("nobody can be asked, since stdin is no terminal: give --yes")
	}
	fmt.Fprintf(a.talk, format+" [y/N] ", args...)
	answered := make(chan string, 1)
	go func() { // as long as nobody answers; the process does not wait for it
		line, _ := bufio.NewReader(a.Stdin).ReadString('\n')
		answered <- line
	}()
	select {
	case <-a.ended:
		a.say("")
		return partly("not done: ended by a signal before there was an answer")
	case line := <-answered:
		if answer := strings.ToLower(strings.TrimSpace(line)); answer == "y" || answer == "yes" {
			return nil
		}
		if !strings.HasSuffix(line, "\n") {
			a.say("")
		}
	}
	return partly("not done: the answer was no")
}
