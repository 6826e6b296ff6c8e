package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The processes that a run starts are this test binary.
func TestMain(m *testing.M) {
	if status, played := playRole(); played {
		os.Exit(status)
	}
	if os.Getenv("QUICKSTART_TEST_PARENT") != "" {
		main()
	}
	os.Exit(m.Run())
}

// program is the quickstart in a process of its own, with a temporary folder
// of its own.
func program(t *testing.T, args ...string) (cmd *exec.Cmd, temporary string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	temporary = t.TempDir()
	cmd = exec.Command(self, args...)
	cmd.Env = append(os.Environ(), "QUICKSTART_TEST_PARENT=1", "TMPDIR="+temporary, "TMP="+temporary)
	return cmd, temporary
}

func empty(t *testing.T, dir string) bool {
	t.Helper()
	inside, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(inside) == 0
}

func TestARunWithAKillKeepsEveryPromise(t *testing.T) { keepsEveryPromise(t) }

func TestARunOnKafkaKeepsEveryPromise(t *testing.T) { keepsEveryPromise(t, "--kafka", embedded) }

func keepsEveryPromise(t *testing.T, args ...string) {
	t.Helper()
	cmd, temporary := program(t, append([]string{"--messages", "500", "--kills", "1", "--json"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, stderr.String())
	}
	if lines := bytes.Count(out, []byte("\n")); lines != 1 || out[len(out)-1] != '\n' {
		t.Errorf("stdout has %d lines, should have one:\n%s", lines, out)
	}
	decoder := json.NewDecoder(bytes.NewReader(out))
	decoder.DisallowUnknownFields()
	var s summary
	if err := decoder.Decode(&s); err != nil {
		t.Fatal(err)
	}
	if !s.OK || s.Messages != 500 || s.BookedOrders != s.Orders || s.Kills != 1 || s.Seconds <= 0 {
		t.Errorf("got %+v", s)
	}
	if want := (deadLetters{Decode: 1, Key: 1, Terminal: 1, Exhausted: 2}); s.DeadLetters != want {
		t.Errorf("letters %+v, want %+v", s.DeadLetters, want)
	}
	if !empty(t, temporary) {
		t.Error("files are left behind")
	}
}

// The form is a promise to scripts.
func TestTheJSONFormIsFixed(t *testing.T) {
	var out bytes.Buffer
	if err := printJSON(&out, summary{Messages: 5000, Orders: 3950, Seconds: 3.25, OK: true}); err != nil {
		t.Fatal(err)
	}
	const want = `{"messages":5000,"orders":3950,"booked_orders":0,"double_bookings":0,"lost":0,"calls":0,"calls_after_done":0,` +
		`"crash_window_repeats":0,"handler_runs":0,"duplicates":0,"retries":0,` +
		`"dead_letters":{"decode":0,"key":0,"terminal":0,"exhausted":0},"kills":0,"seconds":3.25,"ok":true}` + "\n"
	if out.String() != want {
		t.Errorf("got  %swant %s", out.String(), want)
	}
}

func TestKeptFilesAreThereAndTheFolderIsNotSharedWithOthers(t *testing.T) {
	keep := filepath.Join(t.TempDir(), "kept")
	cmd, _ := program(t, "--messages", "400", "--kills", "0", "--keep", keep)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"billing.db", "consumer.log", "letters.jsonl"} {
		if i, err := os.Stat(filepath.Join(keep, name)); err != nil || i.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	letters, err := os.ReadFile(filepath.Join(keep, "letters.jsonl"))
	if err != nil || bytes.Count(letters, []byte("\n")) != 4 {
		t.Errorf("%v: letters:\n%s", err, letters)
	}
	for _, part := range []string{"proof: 316 of 316 orders booked", ": ok", "Wrap your own handler", "Look at a letter", "your own broker"} {
		if !strings.Contains(string(out), part) {
			t.Errorf("the table lacks %q:\n%s", part, out)
		}
	}
	again, _ := program(t, "--keep", keep)
	if out, err := again.CombinedOutput(); err == nil || !strings.Contains(string(out), "not empty") {
		t.Errorf("a second run in the same folder: %v\n%s", err, out)
	}
}

// Whatever ends the parent: the consumer and the folder go with it.
func TestNothingIsLeftBehindWhenTheParentIsEnded(t *testing.T) {
	for _, c := range []struct {
		name   string
		signal os.Signal
	}{{"by an interrupt", os.Interrupt}, {"by kill -9", os.Kill}} {
		t.Run(c.name, func(t *testing.T) {
			cmd, temporary := program(t, "--messages", "20000")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			waitFor(t, "the consumer to work", func() bool {
				found, err := filepath.Glob(filepath.Join(temporary, "*", "billing.db"))
				return err == nil && len(found) == 1
			})
			if err := cmd.Process.Signal(c.signal); err != nil {
				t.Fatal(err)
			}
			err := cmd.Wait()
			if c.signal == os.Interrupt && cmd.ProcessState.ExitCode() != 130 {
				t.Errorf("ended with %v, want exit status 130", err)
			}
			waitFor(t, "the folder to be empty", func() bool { return empty(t, temporary) })
		})
	}
}

func TestWrongFlagsAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{"--messages", "99"}, {"--messages", "10000001"}, {"--kills", "-1"}, {"--messages", "500", "--kills", "6"}, {"orders"}, {"--unknown"},
	} {
		cmd, _ := program(t, args...)
		out, _ := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 2 || len(out) == 0 {
			t.Errorf("%v: exit status %d, want 2: %s", args, cmd.ProcessState.ExitCode(), out)
		}
	}
}

// A small run needs no second flag.
func TestUnsaidKillsFollowTheMessages(t *testing.T) {
	for _, c := range []struct {
		args  []string
		kills int
	}{
		{nil, 2}, {[]string{"--messages", "200"}, 2}, {[]string{"--messages", "199"}, 1}, {[]string{"--messages", "500", "--kills", "0"}, 0},
	} {
		if o, err := parse(c.args, io.Discard); err != nil || o.kills != c.kills {
			t.Errorf("%v: %d kills, want %d: %v", c.args, o.kills, c.kills, err)
		}
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestAResultThatNobodyCanReadIsNoSuccess(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		for _, ok := range []bool{false, true} {
			var stderr bytes.Buffer
			status := tell(options{json: asJSON, seed: 7}, summary{OK: ok}, nil, fullDisk{}, &stderr)
			if said := strings.Contains(stderr.String(), "no space left"); status != 1 || said != ok {
				t.Errorf("JSON %v, proof %v: exit status %d, %q", asJSON, ok, status, stderr.String())
			}
		}
	}
}

func TestTheSameSeedPlansTheSameMessages(t *testing.T) {
	a, b, c := newWorkload(1000, 7), newWorkload(1000, 7), newWorkload(1000, 8)
	same := func(x, y *workload) bool {
		return slices.EqualFunc(x.messages, y.messages, func(m, n message) bool { return bytes.Equal(m.payload, n.payload) })
	}
	if !same(a, b) || same(a, c) {
		t.Error("the plan does not follow the seed")
	}
	repeats := a.count(func(m *message) bool { return m.repeat })
	poisoned := a.count(func(m *message) bool { return !m.repeat && m.fate.reason() != "" })
	if repeats != 200 || poisoned != 10 || a.good != 790 {
		t.Errorf("%d repeats, %d poisoned, %d good orders", repeats, poisoned, a.good)
	}
}

func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited 30 s for %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
