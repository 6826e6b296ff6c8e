// Command mutants shows that the tests can fail: each file in
// testdata/mutants is a wrong version of a few lines, and the test that it
// names must fail on it. README.md there describes the format.
//
// The code under test carries no switches for this, and the work tree is not
// touched: the changed files are written elsewhere and put over the originals
// by the go command's -overlay, so that unchanged packages come from the build
// cache. Child processes that a test builds see the mutant too.
//
//	go run ./internal/mutants [NAME...]
//
// It prints a line for each mutant and ends with "mutants: N of N caught". The
// exit code is 1 when one was not caught, or a named test fails without it.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// sideBySide is how many mutants run at once: CI has two cores.
const sideBySide = 2

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, "testdata/mutants", os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// run checks the mutants in dir whose names are given, or all.
func run(ctx context.Context, out io.Writer, dir string, names []string) error {
	mutants, err := load(dir, names)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp) //nolint:errcheck // a folder left in the temporary one
	// All are applied before the first runs: a mutant that no longer fits is
	// known at once.
	for _, m := range mutants {
		if err := m.write(filepath.Join(tmp, m.name)); err != nil {
			return err
		}
	}
	if err := passUnchanged(ctx, out, mutants); err != nil {
		return err
	}
	caught := 0
	each(mutants, func(m *mutant) func() {
		t := time.Now()
		verdicts, ok := m.verdicts(ctx)
		return func() {
			word := "caught"
			if ok {
				caught++
			} else {
				word = "SURVIVED"
			}
			fmt.Fprintf(out, "%-8s %s: %s (%.0f s)\n", word, m.name, strings.Join(verdicts, ", "), time.Since(t).Seconds())
		}
	})
	fmt.Fprintf(out, "mutants: %d of %d caught\n", caught, len(mutants))
	if caught < len(mutants) {
		return fmt.Errorf("%d not caught: the tests they name promise nothing", len(mutants)-caught)
	}
	return nil
}

// load reads and sorts the mutants, and insists on every name asked for.
func load(dir string, names []string) ([]*mutant, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.patch"))
	if err != nil {
		return nil, err
	}
	var mutants []*mutant
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".patch")
		if len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		m, err := parse(name, string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		mutants = append(mutants, m)
	}
	for _, name := range names {
		if !slices.ContainsFunc(mutants, func(m *mutant) bool { return m.name == name }) {
			return nil, fmt.Errorf("no mutant %s in %s", name, dir)
		}
	}
	if len(mutants) == 0 {
		return nil, fmt.Errorf("no mutants in %s", dir)
	}
	return mutants, nil
}

// passUnchanged runs every named test on the code as it is: a test that fails
// anyway catches nothing.
func passUnchanged(ctx context.Context, out io.Writer, mutants []*mutant) error {
	seen := map[string]bool{}
	var checks []*mutant
	for _, m := range mutants {
		for _, check := range m.checks() {
			if !seen[check.what()] {
				seen[check.what()] = true
				checks = append(checks, check)
			}
		}
	}
	var broken []string
	each(checks, func(m *mutant) func() {
		o := m.run(ctx, "")
		return func() {
			if o != passed {
				broken = append(broken, fmt.Sprintf("%s: %s", m.what(), o))
			}
		}
	})
	if len(broken) > 0 {
		return fmt.Errorf("without any mutant:\n\t%s", strings.Join(broken, "\n\t"))
	}
	fmt.Fprintf(out, "%d named tests pass on the code as it is\n", len(checks))
	return nil
}

// each runs work for every mutant, a few at once, and the functions that it
// returns one at a time, in the order of the mutants.
func each(mutants []*mutant, work func(*mutant) func()) {
	slots := make(chan struct{}, sideBySide)
	results := make([]chan func(), len(mutants))
	var wg sync.WaitGroup
	for i := range mutants {
		results[i] = make(chan func(), 1)
	}
	wg.Go(func() {
		for i, m := range mutants {
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				results[i] <- work(m)
			})
		}
	})
	for _, r := range results {
		(<-r)()
	}
	wg.Wait()
}
