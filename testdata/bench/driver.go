package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// suite runs measurements and keeps their results by name.
type suite struct {
	flags   []string // of every measurement
	results map[string][]result
}

// part is one measurement of a round.
type part struct {
	as    string // the name that its results are kept under
	name  string
	flags []string
}

func at(name string, count int, flags ...string) part {
	return part{as: name, name: name, flags: append(flags, "-n", strconv.Itoa(scaled(count)))}
}

// named keeps the results apart from others of the same case.
func (p part) named(as string) part {
	p.as = as
	return p
}

func scaled(count int) int { return max(1000, int(float64(count)*(*size))) }

// rounds runs all parts once in each round, one after the other, so that a
// drift of the machine hits all alike.
func (s *suite) rounds(rounds int, parts ...part) error {
	for round := range rounds {
		for _, p := range parts {
			r, err := s.run(p)
			if err != nil {
				return err
			}
			s.results[p.as] = append(s.results[p.as], r)
			fmt.Printf("round %d  %-28s %9.0f /s  %6.2f us CPU  %6.2f us server  %6.1f allocs  %5.0f MB  others %2.0f %%%s\n",
				round+1, p.as, r.PerSecond, r.CPUMicros, r.ServerMicros, r.Allocs, r.PeakRSS, r.Others*100, extras(r))
		}
	}
	return nil
}

func extras(r result) string {
	var b strings.Builder
	if r.P99 > 0 {
		fmt.Fprintf(&b, "  p50 %.2f ms  p99 %.2f ms", r.P50, r.P99)
	}
	if r.Duplicates > 0 {
		fmt.Fprintf(&b, "  %d duplicates", r.Duplicates)
	}
	if r.Dead > 0 {
		fmt.Fprintf(&b, "  %d dead", r.Dead)
	}
	return b.String()
}

// endsWithUs: no measurement outlives a driver that was killed.
var endsWithUs = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}

// run runs one measurement in a process of its own.
func (s *suite) run(p part) (result, error) {
	exe, err := os.Executable()
	if err != nil {
		return result{}, err
	}
	cmd := exec.Command(exe, append(append([]string{"case", p.name, "-dir", *dir}, s.flags...), p.flags...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	cmd.SysProcAttr = endsWithUs
	if err := cmd.Run(); err != nil {
		return result{}, fmt.Errorf("%s: %w", p.as, err)
	}
	lines := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
	var r result
	if err := json.Unmarshal(lines[len(lines)-1], &r); err != nil {
		return result{}, fmt.Errorf("%s: its last line is no result: %w: %s", p.as, err, out.Bytes())
	}
	return r, nil
}

// ratio is the median over the rounds of a ÷ b in the same round.
func (s *suite) ratio(a, b string, f func(result) float64) float64 {
	var all []float64
	for i := range min(len(s.results[a]), len(s.results[b])) {
		all = append(all, f(s.results[a][i])/f(s.results[b][i]))
	}
	return median(all)
}

// median of one figure over the rounds.
func (s *suite) median(name string, f func(result) float64) float64 {
	var all []float64
	for _, r := range s.results[name] {
		all = append(all, f(r))
	}
	return median(all)
}

func median(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

func perSecond(r result) float64 { return r.PerSecond }
func seconds(r result) float64   { return r.Seconds }

// figure is one name and number of the last line.
type figure struct {
	name  string
	value float64
}

// report prints what must be reached beside what was, and the JSON object as
// the last line.
func report(figures []figure, wanted map[string]string) {
	fmt.Println()
	var b strings.Builder
	for i, f := range figures {
		if w := wanted[f.name]; w != "" {
			fmt.Printf("%-22s %10.3f   %s\n", f.name, f.value, w)
		}
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%q:%s", f.name, strconv.FormatFloat(f.value, 'f', 3, 64))
	}
	fmt.Printf("{%s}\n", b.String())
}
