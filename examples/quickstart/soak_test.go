package main

import (
	"os"
	"strconv"
	"testing"
)

// Ten seeds in a row with ONCEWARD_SOAK, one of a tenth's size without.
func TestSoakManySeedsKeepEveryPromise(t *testing.T) { soak(t) }

func TestSoakManySeedsOnKafkaKeepEveryPromise(t *testing.T) { soak(t, "--kafka", embedded) }

func soak(t *testing.T, args ...string) {
	t.Helper()
	seeds, messages, kills := 1, "5000", "5"
	if os.Getenv("ONCEWARD_SOAK") != "" {
		seeds, messages = 10, "50000"
	}
	for seed := 1; seed <= seeds; seed++ {
		cmd, temporary := program(t, append([]string{"--messages", messages, "--kills", kills, "--seed", strconv.Itoa(seed), "--json"}, args...)...)
		out, err := cmd.CombinedOutput()
		t.Logf("seed %d: %s", seed, out)
		if err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		if !empty(t, temporary) {
			t.Errorf("seed %d: files are left behind", seed)
		}
	}
}
