// Command mutants shows that the tests can fail: each file in
// testdata/mutants is a wrong version of a few lines, and the test that it
// names must fail on it. README.md there describes the format.
//
// The code under test carries no switches for this, and the work tree is not
// touched: everything happens in a copy of it, as it was at the start. There
// the changed files are put over the originals by the go command's -overlay, so
// that unchanged packages are built once, and what a test builds to run as a
// child process is the mutant too.
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
	"io/fs"
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
	// The overlay knows files by their real path, and a temporary folder may be
	// a link.
	if tmp, err = filepath.EvalSymlinks(tmp); err != nil {
		return err
	}
	w := workplace{tree: filepath.Join(tmp, "tree")}
	if err := snapshot(w.tree); err != nil {
		return fmt.Errorf("copy of the work tree: %w", err)
	}
	// All are applied before the first runs: a mutant that no longer fits is
	// known at once.
	for _, m := range mutants {
		if err := m.write(w.tree, filepath.Join(tmp, m.name)); err != nil {
			return err
		}
	}
	if err := passUnchanged(ctx, out, w, mutants); err != nil {
		return err
	}
	caught := 0
	each(mutants, func(m *mutant) func() {
		t := time.Now()
		verdicts, ok := w.verdicts(ctx, m)
		took := time.Since(t).Seconds()
		return func() {
			word := "caught"
			if ok {
				caught++
			} else {
				word = "SURVIVED"
			}
			fmt.Fprintf(out, "%-8s %s: %s (%.0f s)\n", word, m.name, strings.Join(verdicts, ", "), took)
		}
	})
	fmt.Fprintf(out, "mutants: %d of %d caught\n", caught, len(mutants))
	if caught < len(mutants) {
		return fmt.Errorf("%d not caught: the tests they name promise nothing", len(mutants)-caught)
	}
	return nil
}

// snapshot copies the work tree, save its history and what was built.
func snapshot(to string) error {
	return filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || path == "bin" || path == filepath.Join("testdata", "bench")):
			return filepath.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, path), 0o750)
		case !d.Type().IsRegular():
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, path), text, info.Mode().Perm())
	})
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
// anyway catches nothing. What has package and flags in common runs together,
// so that it is linked once.
func passUnchanged(ctx context.Context, out io.Writer, w workplace, mutants []*mutant) error {
	var alone []test
	quickstart := false
	for _, m := range mutants {
		quickstart = quickstart || m.quickstart
		for _, t := range m.tests {
			if !slices.ContainsFunc(alone, func(o test) bool { return o.what() == t.what() }) {
				alone = append(alone, t)
			}
		}
	}
	var together [][]test
	for _, t := range alone {
		i := slices.IndexFunc(together, func(ts []test) bool { return ts[0].pkg == t.pkg && slices.Equal(ts[0].flags, t.flags) })
		if i < 0 {
			together = append(together, []test{t})
		} else {
			together[i] = append(together[i], t)
		}
	}
	var broken []string
	each(together, func(ts []test) func() {
		outcomes := w.together(ctx, ts)
		return func() {
			for i, o := range outcomes {
				if o != passed {
					broken = append(broken, fmt.Sprintf("%s: %s", ts[i].what(), o))
				}
			}
		}
	})
	if quickstart {
		if o := w.quickstart(ctx, ""); o != passed {
			broken = append(broken, fmt.Sprintf("quickstart: %s", o))
		}
	}
	if len(broken) > 0 {
		return fmt.Errorf("without any mutant:\n\t%s", strings.Join(broken, "\n\t"))
	}
	fmt.Fprintf(out, "%d named tests pass on the code as it is\n", len(alone))
	return nil
}

// each runs work for every item, a few at once, and the functions that it
// returns one at a time, in the order of the items.
func each[T any](items []T, work func(T) func()) {
	slots := make(chan struct{}, sideBySide)
	results := make([]chan func(), len(items))
	var wg sync.WaitGroup
	for i := range items {
		results[i] = make(chan func(), 1)
	}
	wg.Go(func() {
		for i, item := range items {
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				results[i] <- work(item)
			})
		}
	})
	for _, r := range results {
		(<-r)()
	}
	wg.Wait()
}
