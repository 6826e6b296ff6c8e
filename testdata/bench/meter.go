package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// result is what one measurement prints.
type result struct {
	Case      string  `json:"case"`
	Messages  int     `json:"messages"`
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"per_second"`
	// Of this process, from its first message to its last.
	CPUMicros float64 `json:"cpu_us_per_message"`
	Allocs    float64 `json:"allocs_per_message"`
	PeakRSS   float64 `json:"peak_rss_mb"`
	// ServerMicros is the servers' CPU time a message, Others the share of
	// the machine that neither this process nor the servers used: a figure
	// measured beside a busy neighbour is worth less.
	ServerMicros float64 `json:"server_us_per_message"`
	Others       float64 `json:"others"`
	Duplicates   int64   `json:"duplicates,omitempty"`
	Dead         int64   `json:"dead,omitempty"`
	P50          float64 `json:"p50_ms,omitempty"`
	P99          float64 `json:"p99_ms,omitempty"`
	Bytes        float64 `json:"bytes_per_id,omitempty"`
	Opened       float64 `json:"open_seconds,omitempty"`
}

// meter takes the times of one measurement.
type meter struct {
	result
	begun, ended     atomic.Bool
	from             readings
	duplicates, dead atomic.Int64
	latencies        []time.Duration
	noted            atomic.Int64 // latencies that the observer has not counted yet
	after            func()       // cleans up when all is measured
}

type readings struct {
	at                time.Time
	self, srv, everyB float64 // seconds of CPU
	mallocs           uint64
}

func read() readings {
	var ms runtime.MemStats
	runtime.ReadMemStats(&ms)
	var ru syscall.Rusage
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &ru))
	return readings{
		at: time.Now(), mallocs: ms.Mallocs, srv: serverCPU(), everyB: everybodysCPU(),
		self: time.Duration(ru.Utime.Nano() + ru.Stime.Nano()).Seconds(),
	}
}

// first marks the first message: joining a group is no part of throughput.
func (m *meter) first() {
	if m.begun.Load() || !m.begun.CompareAndSwap(false, true) {
		return
	}
	if *profile != "" {
		f, err := os.Create(*profile)
		must(err)
		must(pprof.StartCPUProfile(f))
	}
	m.from = read()
}

// last marks the end, when all n messages are done.
func (m *meter) last(n int) {
	if !m.ended.CompareAndSwap(false, true) {
		return
	}
	to := read()
	pprof.StopCPUProfile()
	s := to.at.Sub(m.from.at).Seconds()
	per := 1e6 / float64(n)
	m.Messages, m.Seconds, m.PerSecond = n, s, float64(n)/s
	m.CPUMicros = (to.self - m.from.self) * per
	m.ServerMicros = (to.srv - m.from.srv) * per
	m.Allocs = float64(to.mallocs-m.from.mallocs) / float64(n)
	m.Others = max(0, (to.everyB-m.from.everyB-(to.self-m.from.self)-(to.srv-m.from.srv))/s/float64(runtime.NumCPU()))
	m.PeakRSS = peakRSS()
}

// peakRSS is in MB. What getrusage tells would include the driver's, from
// before the exec.
func peakRSS() float64 {
	b, err := os.ReadFile("/proc/self/status")
	must(err)
	_, rest, _ := strings.Cut(string(b), "VmHWM:")
	kb, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	must(err)
	return kb / 1024
}

// measure runs one case, prints its result and ends the process.
func measure(name string, run func(*meter)) {
	d, err := os.MkdirTemp(*dir, "case-")
	must(err)
	*dir = d
	m := &meter{}
	m.Case = name
	run(m)
	m.Duplicates, m.Dead = m.duplicates.Load(), m.dead.Load()
	if k := len(m.latencies); k > 0 {
		slices.Sort(m.latencies)
		m.P50, m.P99 = ms(m.latencies[k/2]), ms(m.latencies[k*99/100])
	}
	if m.after != nil {
		m.after()
	}
	b, err := json.Marshal(m.result)
	must(err)
	fmt.Println(string(b))
	must(os.RemoveAll(d))
	os.Exit(0) // groups and connections are thrown away
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

const ticksPerSecond = 100 // of /proc, fixed on Linux

func serverCPU() (seconds float64) {
	for pid := range strings.SplitSeq(*servers, ",") {
		b, err := os.ReadFile("/proc/" + pid + "/stat")
		if pid == "" || err != nil {
			continue
		}
		f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
		for _, x := range f[11:13] {
			v, _ := strconv.ParseFloat(x, 64)
			seconds += v / ticksPerSecond
		}
	}
	return seconds
}

// everybodysCPU is what all processes used since boot.
func everybodysCPU() (seconds float64) {
	b, err := os.ReadFile("/proc/stat")
	must(err)
	for i, x := range strings.Fields(string(b))[1:9] {
		if idle := i == 3 || i == 4; !idle { // user nice system idle iowait irq softirq steal
			v, _ := strconv.ParseFloat(x, 64)
			seconds += v / ticksPerSecond
		}
	}
	return seconds
}
