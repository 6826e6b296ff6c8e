package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/adminapi"
)

func TestEverythingThatAConsumerKnowsOfIsTold(t *testing.T) {
	if all := hindrances(&adminapi.Status{Live: true, Ready: true}); len(all) != 0 {
		t.Errorf("a consumer that works is told of: %q", all)
	}
	all := strings.Join(hindrances(&adminapi.Status{
		Paused:   []adminapi.Pause{{Since: adminapi.Time(time.Unix(0, 0)), Who: "eve", Why: "the bank is down"}, {Scope: "a scope"}},
		Degraded: []adminapi.Trouble{{What: "breaker", Error: "open since noon"}, {What: "store", Error: "full"}},
		Hung:     2,
	}), "\n")
	for _, text := range []string{
		"paused since 1970-01-01 00:00:00Z, by eve: the bank is down; onceward resume ends it", "scope a scope is paused", "--scope 'a scope'",
		"not ready", "breaker: open since noon", "store: full", "2 handlers hang", "not live",
	} {
		if !strings.Contains(all, text) {
			t.Errorf("%q is missing in\n%s", text, all)
		}
	}
}

func TestOfCopiesThatAreNowhereItIsSaidHowTheirLettersAreFreed(t *testing.T) {
	if text := unhindered(&adminapi.Status{Live: true, Ready: true}); !strings.Contains(text, "dlq open ID") {
		t.Error(text)
	}
	for _, s := range []adminapi.Status{{Unfinished: 1}, {Lag: 1}, {Lag: -1}} {
		if text := unhindered(&s); !strings.Contains(text, "knows of nothing") || strings.Contains(text, "dlq open") {
			t.Error(text)
		}
	}
}
