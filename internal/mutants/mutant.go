package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// mutant is one wrong version of the code.
type mutant struct {
	name    string
	promise string
	// tests that must fail, each on its own.
	tests []test
	// quickstart says that the quickstart must find it too.
	quickstart bool
	edits      []edit
	// overlay is the file for the go command's -overlay, once written.
	overlay string
}

// test is one top-level test of one package.
type test struct {
	pkg, name string
	flags     []string // such as -race
}

// edit replaces text that occurs exactly once in a file.
type edit struct {
	file     string
	old, new string
}

// parse reads a mutant: header lines "key: value", then for each file a line
// "@@ path" and hunks of lines that begin with ' ', '-' or '+', apart by an
// empty line. It is a diff without line numbers, so that it goes on fitting
// when the code around it changes.
func parse(name, text string) (*mutant, error) {
	m := &mutant{name: name}
	header, body, ok := strings.Cut(text, "\n@@ ")
	if !ok {
		return nil, errors.New(`no "@@ path" line`)
	}
	for line := range strings.Lines(header) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch key {
		case "promise":
			m.promise = value
		case "test":
			f := strings.Fields(value)
			if len(f) < 2 || !strings.HasPrefix(f[0], "./") || !strings.HasPrefix(f[1], "Test") {
				return nil, fmt.Errorf("%q: want test: ./package TestName [flags]", line)
			}
			m.tests = append(m.tests, test{pkg: f[0], name: f[1], flags: f[2:]})
		case "quickstart":
			if value != "true" {
				return nil, fmt.Errorf("%q: want quickstart: true, or no such line", line)
			}
			m.quickstart = true
		default:
			return nil, fmt.Errorf("%q: the headers are promise, test and quickstart", line)
		}
	}
	if m.promise == "" || len(m.tests) == 0 {
		return nil, errors.New("the headers promise and test are required")
	}
	for part := range strings.SplitSeq(body, "\n@@ ") {
		file, lines, _ := strings.Cut(part, "\n")
		edits, err := hunks(strings.TrimSpace(file), lines)
		if err != nil {
			return nil, err
		}
		m.edits = append(m.edits, edits...)
	}
	return m, nil
}

// hunks reads the edits of one file.
func hunks(file, text string) ([]edit, error) {
	if !filepath.IsLocal(file) || strings.HasSuffix(file, "_test.go") {
		return nil, fmt.Errorf("%q: want the path of a file below the root, not of a test", file)
	}
	var edits []edit
	var old, changed strings.Builder
	end := func() error {
		if old.Len() == 0 && changed.Len() == 0 {
			return nil
		}
		e := edit{file: file, old: old.String(), new: changed.String()}
		old.Reset()
		changed.Reset()
		if e.old == "" || e.old == e.new {
			return fmt.Errorf("%s: a hunk needs a line to find and a change", file)
		}
		edits = append(edits, e)
		return nil
	}
	for line := range strings.Lines(text + "\n\n") {
		line, _ = strings.CutSuffix(line, "\n")
		if line == "" {
			if err := end(); err != nil {
				return nil, err
			}
			continue
		}
		rest := line[1:] + "\n"
		switch line[0] {
		case ' ':
			old.WriteString(rest)
			changed.WriteString(rest)
		case '-':
			old.WriteString(rest)
		case '+':
			changed.WriteString(rest)
		default:
			return nil, fmt.Errorf("%s: %q begins with none of ' ', '-', '+'", file, line)
		}
	}
	if len(edits) == 0 {
		return nil, fmt.Errorf("%s: no hunk", file)
	}
	return edits, nil
}

// apply makes the edits in the texts of the files, as read returns them.
func (m *mutant) apply(read func(file string) (string, error)) (map[string]string, error) {
	changed := map[string]string{}
	for _, e := range m.edits {
		text, ok := changed[e.file]
		if !ok {
			var err error
			if text, err = read(e.file); err != nil {
				return nil, err
			}
			text = "\n" + text
		}
		// Whole lines only: a line break is part of what must match.
		switch n := occurrences(text, "\n"+e.old); n {
		case 1:
			changed[e.file] = strings.Replace(text, "\n"+e.old, "\n"+e.new, 1)
		case 0:
			return nil, fmt.Errorf("mutant %s no longer fits %s; these lines are not there:\n%s", m.name, e.file, e.old)
		default:
			return nil, fmt.Errorf("mutant %s: these lines are %d times in %s; add lines around them:\n%s", m.name, n, e.file, e.old)
		}
	}
	for file, text := range changed {
		changed[file] = text[1:]
	}
	return changed, nil
}

// occurrences counts also those that share a line break.
func occurrences(text, part string) (n int) {
	for {
		i := strings.Index(text, part)
		if i < 0 {
			return n
		}
		n++
		text = text[i+1:]
	}
}

// write puts the changed files of tree and the overlay that names them into
// dir.
func (m *mutant) write(tree, dir string) error {
	changed, err := m.apply(func(file string) (string, error) {
		b, err := os.ReadFile(filepath.Join(tree, file))
		return string(b), err
	})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	replace := map[string]string{}
	for file, text := range changed {
		to := filepath.Join(dir, strings.ReplaceAll(filepath.ToSlash(file), "/", "__"))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			return err
		}
		replace[filepath.Join(tree, file)] = to
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	m.overlay = filepath.Join(dir, "overlay.json")
	return os.WriteFile(m.overlay, b, 0o600)
}

// what names the test.
func (t test) what() string {
	return strings.Join(slices.Concat([]string{t.pkg, t.name}, t.flags), " ")
}
