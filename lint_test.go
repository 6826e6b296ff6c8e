// Package onceward_test holds what must be true of the source as a whole, so
// that plain "go test ./..." is a gate: names, documentation, size of files,
// and the directions of the dependencies.
package onceward_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

// source is one parsed Go file of the module or of a module nested in it.
type source struct {
	path string // with slashes, relative to the root
	text string
	ast  *ast.File
	fset *token.FileSet
}

func (s *source) test() bool { return strings.HasSuffix(s.path, "_test.go") }

func (s *source) at(p token.Pos) token.Position { return s.fset.Position(p) }

func (s *source) imports(path string) bool {
	return slices.ContainsFunc(s.ast.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"`+path+`"` })
}

// walk calls f with every file that a person wrote: not the history, not what
// was built or measured.
func walk(t *testing.T, f func(path, text string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path = filepath.ToSlash(path)
		if d.IsDir() {
			if path == ".git" || path == "bin" || path == "testdata/bench/out" {
				return filepath.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		f(path, string(text))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// sources are all Go files, parsed once for all tests.
func sources(t *testing.T) []*source {
	t.Helper()
	parsed.Do(func() {
		fset := token.NewFileSet()
		walk(t, func(path, text string) {
			if filepath.Ext(path) != ".go" {
				return
			}
			file, err := parser.ParseFile(fset, path, text, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Error(err)
				return
			}
			goFiles = append(goFiles, &source{path: path, text: text, ast: file, fset: fset})
		})
	})
	if len(goFiles) == 0 {
		t.Fatal("no Go files: is the test run in the root of the module?")
	}
	return goFiles
}

var (
	parsed  sync.Once
	goFiles []*source
)

func TestNoFileIsLongerThan600Lines(t *testing.T) {
	for _, s := range sources(t) {
		if n := strings.Count(s.text, "\n"); n > 600 {
			t.Errorf("%s has %d lines: a file is one noun, at most 600 lines", s.path, n)
		}
	}
}

// A name that fits everything says nothing about what belongs there.
func TestNoFileOrFolderIsNamedAfterNothing(t *testing.T) {
	empty := []string{"util", "utils", "common", "helper", "helpers", "manager", "misc", "shared", "stuff"}
	for _, s := range sources(t) {
		for _, part := range strings.FieldsFunc(strings.TrimSuffix(s.path, ".go"), func(r rune) bool { return strings.ContainsRune("/_.-", r) }) {
			if slices.Contains(empty, part) {
				t.Errorf("%s: %q names nothing: name it after what is in it", s.path, part)
			}
		}
	}
}

func TestEveryPackageIsDocumented(t *testing.T) {
	type pkg struct{ comment, docFile, main bool }
	all := map[string]*pkg{}
	for _, s := range sources(t) {
		dir := filepath.ToSlash(filepath.Dir(s.path))
		if s.test() {
			continue
		}
		p := all[dir]
		if p == nil {
			p = &pkg{}
			all[dir] = p
		}
		p.main = p.main || s.ast.Name.Name == "main"
		p.comment = p.comment || s.ast.Doc != nil
		p.docFile = p.docFile || filepath.Base(s.path) == "doc.go" && s.ast.Doc != nil
	}
	for dir, p := range all {
		switch public := !p.main && !strings.Contains(dir, "internal/"); {
		case public && !p.docFile:
			t.Errorf("%s has no doc.go with a package comment", dir)
		case !p.comment:
			t.Errorf("%s has no package comment", dir)
		}
	}
}

func TestEveryExportedNameIsDocumented(t *testing.T) {
	for _, s := range sources(t) {
		if s.test() || s.ast.Name.Name == "main" {
			continue
		}
		for _, d := range s.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Doc == nil && d.Name.IsExported() && receiverIsExported(d) && !saysItself(d) {
					t.Errorf("%s: %s has no documentation", s.at(d.Pos()), d.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					undocumented(d, spec, func(name *ast.Ident) { t.Errorf("%s: %s has no documentation", s.at(name.Pos()), name.Name) })
				}
			}
		}
	}
}

// undocumented calls report for each exported name of spec that neither has a
// comment nor stands in a group that has one.
func undocumented(d *ast.GenDecl, spec ast.Spec, report func(*ast.Ident)) {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		if !spec.Name.IsExported() {
			return
		}
		if d.Doc == nil && spec.Doc == nil {
			report(spec.Name)
		}
		if i, ok := spec.Type.(*ast.InterfaceType); ok {
			for _, m := range i.Methods.List {
				if len(m.Names) > 0 && m.Names[0].IsExported() && m.Doc == nil && m.Comment == nil {
					report(m.Names[0])
				}
			}
		}
	case *ast.ValueSpec:
		if d.Doc != nil || spec.Doc != nil || spec.Comment != nil {
			return
		}
		for _, name := range spec.Names {
			if name.IsExported() {
				report(name)
			}
		}
	}
}

func receiverIsExported(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	x := d.Recv.List[0].Type
	for {
		switch y := x.(type) {
		case *ast.StarExpr:
			x = y.X
		case *ast.IndexExpr:
			x = y.X
		case *ast.IndexListExpr:
			x = y.X
		case *ast.Ident:
			return y.IsExported()
		default:
			return false
		}
	}
}

// saysItself: methods of the language's own interfaces, whose meaning is fixed.
func saysItself(d *ast.FuncDecl) bool {
	return d.Recv != nil && slices.Contains([]string{
		"Error", "Unwrap", "Is", "String", "Len", "Less", "Swap", "Push", "Pop",
		"MarshalJSON", "UnmarshalJSON", "MarshalText", "UnmarshalText", "LogValue",
	}, d.Name.Name)
}

// A skipped test is a promise that nobody checks.
func TestNoTestIsSkipped(t *testing.T) {
	for _, s := range sources(t) {
		ast.Inspect(s.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			f, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, f.Sel.Name) {
				return true
			}
			if x, ok := f.X.(*ast.Ident); ok && slices.Contains([]string{"t", "b", "f", "tb", "T"}, x.Name) {
				t.Errorf("%s: %s.%s: a test that cannot run fails and says what is missing", s.at(n.Pos()), x.Name, f.Sel.Name)
			}
			return true
		})
	}
}

// A sleep either waits too long or not long enough. In a synctest bubble it
// costs nothing, in a loop it is the pause of a poll, in a goroutine of its own
// it delays an event. Elsewhere a comment on its line or above it says what
// cannot be waited for, such as that nothing happens. The bubble may be opened
// in another file of the package.
func TestASleepInRealTimeSaysWhy(t *testing.T) {
	bubbles := map[string]bool{}
	for _, s := range sources(t) {
		bubbles[filepath.Dir(s.path)] = bubbles[filepath.Dir(s.path)] || s.imports("testing/synctest")
	}
	for _, s := range sources(t) {
		if !s.test() || bubbles[filepath.Dir(s.path)] {
			continue
		}
		said := map[int]bool{} // lines that a comment is on or right above
		for _, c := range s.ast.Comments {
			end := s.at(c.End()).Line
			said[end], said[end+1] = true, true
		}
		var stack []ast.Node
		ast.Inspect(s.ast, func(n ast.Node) bool {
			if n == nil {
				stack = stack[:len(stack)-1]
				return true
			}
			stack = append(stack, n)
			call, ok := n.(*ast.CallExpr)
			if !ok || !isTime(call.Fun, "Sleep") || said[s.at(n.Pos()).Line] || slices.ContainsFunc(stack, isLoopOrGo) {
				return true
			}
			t.Errorf("%s: time.Sleep in real time: wait for the event, poll in a loop with a deadline, or say why neither can be", s.at(n.Pos()))
			return true
		})
	}
}

func isTime(x ast.Expr, name string) bool {
	s, ok := x.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name {
		return false
	}
	pkg, ok := s.X.(*ast.Ident)
	return ok && pkg.Name == "time"
}

func isLoopOrGo(n ast.Node) bool {
	switch n.(type) {
	case *ast.ForStmt, *ast.RangeStmt, *ast.GoStmt:
		return true
	}
	return false
}

// The project speaks of itself only: what is left to do is in the tracker, and
// where it was once built says nothing to a reader.
func TestNothingPointsOutsideTheRepository(t *testing.T) {
	// Put together here, so that this file does not hold them.
	banned := []string{
		"TO" + "DO", "FIX" + "ME", "/wo" + "rk/", "/ro" + "ot/", "/ho" + "me/", "../sha" + "red",
		"DESIGN" + ".md", "DESIGN" + " section", "STYLE" + ".md", "FACTS" + ".md", "KAFKA" + ".md", "REPLAY" + ".md",
	}
	walk(t, func(path, text string) {
		if strings.HasPrefix(path, "LICENSE") || strings.HasSuffix(path, ".sum") || !utf8.ValidString(text) {
			return
		}
		for _, b := range banned {
			if before, _, found := strings.Cut(text, b); found {
				t.Errorf("%s:%d: %q", path, 1+strings.Count(before, "\n"), b)
			}
		}
	})
}
