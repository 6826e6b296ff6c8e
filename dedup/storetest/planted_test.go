package storetest

import (
	"flag"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// quietRapid is for planted faults, which make random sequences fail on
// purpose.
func quietRapid() {
	flag.Parse()
	_ = flag.Set("rapid.nofailfile", "true")
	_ = flag.Set("rapid.shrinktime", "0s")
}

// recorder is told of failures in place of the test.
type recorder struct {
	testing.TB

	mu   sync.Mutex
	said []string
}

func (r *recorder) sayf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = append(r.said, fmt.Sprintf(format, args...))
}

func (r *recorder) Errorf(format string, args ...any) { r.sayf(format, args...) }
func (r *recorder) Error(args ...any)                 { r.sayf("%s", fmt.Sprint(args...)) }
func (r *recorder) Fatalf(format string, args ...any) { r.sayf(format, args...); runtime.Goexit() }
func (r *recorder) Fatal(args ...any)                 { r.sayf("%s", fmt.Sprint(args...)); runtime.Goexit() }
func (r *recorder) FailNow()                          { r.sayf("failed"); runtime.Goexit() }
func (r *recorder) Fail()                             { r.sayf("failed") }
func (r *recorder) Failed() bool                      { r.mu.Lock(); defer r.mu.Unlock(); return len(r.said) > 0 }
func (r *recorder) Log(...any)                        {}
func (r *recorder) Logf(string, ...any)               {}

// finds runs the checks up to the first that fails, and names it.
func finds(t *testing.T, h Harness, checks []check) (check, said string) {
	t.Helper()
	for _, c := range checks {
		synctest.Test(t, func(t *testing.T) {
			r := &recorder{TB: t}
			done := make(chan struct{})
			go func() {
				defer close(done)
				defer func() {
					if v := recover(); v != nil {
						r.sayf("panic: %v", v)
					}
				}()
				begin(r, h).check(c)
			}()
			<-done
			if r.Failed() {
				check, said = c.name, r.said[0]
			}
		})
		if check != "" {
			break
		}
	}
	return check, said
}

func TestAStoreWithoutAFaultPasses(t *testing.T) {
	w := newWrong(fault{})
	if check, said := finds(t, w.harness(), checks()); check != "" {
		t.Errorf("%s: %s", check, said)
	}
}

func TestEveryPlantedFaultIsFound(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			check, said := finds(t, newWrong(f).harness(), checks())
			if check == "" {
				t.Fatalf("nothing was found")
			}
			said, _, _ = strings.Cut(said, "\n")
			t.Logf("found by %q: %.150s", check, said)
		})
	}
}

// The oracle must not lean on the rows that people thought of.
func TestRandomSequencesAloneFindFaultsOfTheTable(t *testing.T) {
	found := 0
	for _, f := range faults {
		if f.before == nil && f.after == nil && f.letter == nil {
			continue
		}
		h := newWrong(f).harness()
		h.Sequences = 30
		if check, _ := finds(t, h, randomChecks); check != "" {
			found++
		} else {
			t.Logf("not found: %s", f.name)
		}
	}
	if t.Logf("found %d", found); found < 28 {
		t.Errorf("found only %d", found)
	}
}

func TestLostUpdatesAreNotLinearizable(t *testing.T) {
	last := concurrentChecks[len(concurrentChecks)-1]
	if check, said := finds(t, newWrong(fault{racy: true}).harness(), []check{last}); !strings.Contains(said, "fit no order") {
		t.Errorf("%q: %s", check, said)
	}
}
