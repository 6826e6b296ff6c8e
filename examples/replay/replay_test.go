package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/onceward/onceward/deadletter"
)

// The processes that a run starts are this test binary.
func TestMain(m *testing.M) {
	if text, child := os.LookupEnv(applyVariable); child {
		os.Exit(applyInChild(text, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

func TestAnIncidentIsBroughtToItsEnd(t *testing.T) { proves(t, 500, "--json") }

func TestAnIncidentOnKafkaIsBroughtToItsEnd(t *testing.T) {
	proves(t, 500, "--kafka", "embedded", "--json")
}

// A hundred kills with ONCEWARD_SOAK, ten without.
func TestSoakTheSenderIsKilledAndContinued(t *testing.T) {
	proves(t, 500, "--kills", kills(), "--json")
}

func TestSoakTheSenderIsKilledOnKafkaAndContinued(t *testing.T) {
	proves(t, 500, "--kills", kills(), "--kafka", "embedded", "--json")
}

func kills() string {
	if os.Getenv("ONCEWARD_SOAK") != "" {
		return "100"
	}
	return "10"
}

func proves(t *testing.T, letters int, args ...string) {
	t.Helper()
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	var stdout, stderr bytes.Buffer
	status := replay(t.Context(), args, &stdout, &stderr)
	t.Logf("%s%s", stdout.String(), stderr.String())
	if status != 0 {
		t.Fatalf("exit status %d", status)
	}
	if strings.Count(stdout.String(), "\n") != 1 {
		t.Errorf("stdout is not one line")
	}
	decoder := json.NewDecoder(&stdout)
	decoder.DisallowUnknownFields()
	var r result
	if err := decoder.Decode(&r); err != nil {
		t.Fatal(err)
	}
	if !r.OK || r.Letters != letters || r.Sent < 300 || r.Resolved < 1 || r.Refused < 1 || r.Succeed != r.Sent || r.Sent+r.Resolved+r.Refused != letters {
		t.Errorf("%+v", r)
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// The form is a promise to scripts.
func TestTheJSONFormIsFixed(t *testing.T) {
	text, err := json.Marshal(result{Letters: 500, Sent: 400, OK: true})
	const want = `{"letters":500,"sent":400,"succeeded":0,"resolved_without_sending":0,"refused":0,"double_effects":0,"lost":0,"ok":true}`
	if err != nil || string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

func TestCountsAreWords(t *testing.T) {
	counts := map[deadletter.Action]int{deadletter.Resolve: 9, deadletter.Reopen: 300, deadletter.Refuse: 91, deadletter.Send: 100}
	if got := words(counts); got != "300 reopen, 100 send, 91 refuse, 9 resolve" {
		t.Errorf("%q", got)
	}
}

// A person reads how often the sender was killed, and no Go map.
func TestTheTalkOfARunIsForPeople(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if status := replay(t.Context(), []string{"--letters", "40", "--kills", "2"}, &stdout, &stderr); status != 0 {
		t.Fatalf("exit status %d: %s%s", status, stdout.String(), stderr.String())
	}
	if text := stdout.String(); !strings.Contains(text, "killed 2 times") || strings.Contains(text, "map[") {
		t.Errorf("%s", text)
	}
}

func TestWrongFlagsAreRefused(t *testing.T) {
	for _, args := range [][]string{{"--letters", "19"}, {"--kills", "-1"}, {"--kills", "501"}, {"orders"}, {"--unknown"}} {
		var stderr bytes.Buffer
		if status := replay(t.Context(), args, &bytes.Buffer{}, &stderr); status != 2 || stderr.Len() == 0 {
			t.Errorf("%v: exit status %d, %q", args, status, stderr.String())
		}
	}
}
