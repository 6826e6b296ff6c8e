package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const sample = `promise: an answer is right
test: ./sum TestSumsAreRight
test: ./sum TestSumsAreRight -race

@@ sum/sum.go
 func Sum(a, b int) int {
-	return a + b
+	return a - b
 }
`

func TestAMutantIsReadAndApplied(t *testing.T) {
	m, err := parse("minus", sample)
	if err != nil {
		t.Fatal(err)
	}
	changed, err := m.apply(func(string) (string, error) {
		return "package sum\n\nfunc Sum(a, b int) int {\n\treturn a + b\n}\n", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := changed["sum/sum.go"], "package sum\n\nfunc Sum(a, b int) int {\n\treturn a - b\n}\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if n := len(m.tests); n != 2 {
		t.Errorf("%d tests, want both", n)
	}
}

func TestAMutantThatNoLongerFitsIsAnError(t *testing.T) {
	m, err := parse("minus", sample)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"package sum\n": "no longer fits",
		"func Sum(a, b int) int {\n\treturn a + b\n}\nfunc Sum(a, b int) int {\n\treturn a + b\n}\n": "2 times",
	} {
		if _, err := m.apply(func(string) (string, error) { return text, nil }); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestAFaultyMutantIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"empty":           "",
		"no promise":      strings.Replace(sample, "promise", "#promise", 1),
		"unknown header":  "speed: 1\n" + sample,
		"no test":         "promise: x\n\n@@ a.go\n-x\n",
		"a bare name":     strings.ReplaceAll(sample, "TestSumsAreRight", "Sums"),
		"no hunk":         "promise: x\ntest: ./sum TestX\n\n@@ a.go\n\n",
		"no change":       "promise: x\ntest: ./sum TestX\n\n@@ a.go\n x\n",
		"nothing to find": "promise: x\ntest: ./sum TestX\n\n@@ a.go\n+x\n",
		"a test":          "promise: x\ntest: ./sum TestX\n\n@@ a_test.go\n-x\n",
		"outside":         "promise: x\ntest: ./sum TestX\n\n@@ ../a.go\n-x\n",
		"strange line":    "promise: x\ntest: ./sum TestX\n\n@@ a.go\nx\n",
	} {
		if _, err := parse(name, text); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestOnlyATestThatRanCanFail(t *testing.T) {
	exit := errors.New("exit status 1")
	for _, c := range []struct {
		name, events string
		err          error
		want         outcome
	}{
		{"passes", `{"Action":"run","Test":"TestA"}` + "\n" + `{"Action":"pass","Test":"TestA"}`, nil, passed},
		{"fails", `{"Action":"run","Test":"TestA"}` + "\n" + `{"Action":"fail","Test":"TestA"}`, exit, failed},
		{"dies", `{"Action":"run","Test":"TestA"}` + "\n" + `{"Action":"fail"}`, exit, failed},
		{"does not build", `{"Action":"build-output"}` + "\n" + `{"Action":"build-fail"}`, exit, notBuilt},
		{"is not there", `{"Action":"pass"}`, nil, notRun},
		{"is another", `{"Action":"run","Test":"TestB"}`, exit, notRun},
	} {
		if got := judge([]byte(c.events), c.err, "TestA"); got != c.want {
			t.Errorf("a test that %s: %s, want %s", c.name, got, c.want)
		}
	}
}

// The whole way, on a module of two files.
func TestOnlyMutantsThatTheTestFindsAreCaught(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	write := func(name, text string) {
		if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module example.com/sum\n\ngo 1.24\n")
	write("sum/sum.go", "package sum\n\nfunc Sum(a, b int) int {\n\treturn a + b\n}\n")
	write("sum/sum_test.go", "package sum\n\nimport \"testing\"\n\nfunc TestSumsAreRight(t *testing.T) {\n\tif Sum(2, 2) != 4 {\n\t\tt.Fail()\n\t}\n}\n")
	write("sum/other_test.go", "package sum\n\nimport \"testing\"\n\nfunc TestOther(t *testing.T) { Sum(1, 2) }\n")
	write("m/other.patch", "promise: x\ntest: ./sum TestOther\n\n@@ sum/sum.go\n-\treturn a + b\n+\tpanic(a)\n")
	write("m/minus.patch", strings.Replace(sample, "test: ./sum TestSumsAreRight -race\n", "", 1))
	write("m/times.patch", "promise: x\ntest: ./sum TestSumsAreRight\n\n@@ sum/sum.go\n-\treturn a + b\n+\treturn a * b\n")
	write("m/broken.patch", "promise: x\ntest: ./sum TestSumsAreRight\n\n@@ sum/sum.go\n-\treturn a + b\n+\treturn\n")

	var out bytes.Buffer
	err := run(context.Background(), &out, "m", nil)
	for _, want := range []string{"caught   minus:", "SURVIVED times: ./sum TestSumsAreRight passed", "SURVIVED broken: ./sum TestSumsAreRight did not build"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, out.String())
		}
	}
	if err == nil || !strings.HasSuffix(out.String(), "\nmutants: 2 of 4 caught\n") {
		t.Errorf("got %v and:\n%s", err, out.String())
	}

	out.Reset()
	if err := run(context.Background(), &out, "m", []string{"minus"}); err != nil || !strings.HasSuffix(out.String(), "\nmutants: 1 of 1 caught\n") {
		t.Errorf("got %v and:\n%s", err, out.String())
	}

	write("sum/sum_test.go", "package sum\n\nimport \"testing\"\n\nfunc TestSumsAreRight(t *testing.T) { t.Fail() }\n")
	if err := run(context.Background(), &out, "m", nil); err == nil || !strings.HasSuffix(err.Error(), "without any mutant:\n\t./sum TestSumsAreRight: failed") {
		t.Errorf("a test that always fails, beside one that does not: got %v", err)
	}
}

// A change of the code that a mutant no longer fits is to be known at once, and
// not after all other checks.
func TestEveryMutantFitsTheCode(t *testing.T) {
	root := filepath.Join("..", "..")
	mutants, err := load(filepath.Join(root, "testdata", "mutants"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		if _, err := m.apply(func(file string) (string, error) {
			text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
			return string(text), err
		}); err != nil {
			t.Error(err)
		}
	}
}
