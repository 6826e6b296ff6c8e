package deadletter

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/dedup"
)

// Taken for one that sends nothing, it would end the letter for good.
func TestAPlanWithWhatThisReleaseDoesNotKnowIsRefused(t *testing.T) {
	for what, change := range map[string]func(*Plan, *Decision){
		"action": func(_ *Plan, d *Decision) { d.Action = "postpone" },
		"window": func(p *Plan, _ *Decision) { p.WindowSeconds = 1 << 62 },
	} {
		d, err := newDraft()
		if err != nil {
			t.Fatal(err)
		}
		defer d.remove()
		p := Plan{Version: planVersion, Job: "job-1", Consumer: "billing", To: ToRetry, Expires: time.Now()}
		decision := Decision{Action: Resolve}
		change(&p, &decision)
		if err := d.add(&Entry{Letter: Letter{ID: "letter-1"}}, &dedup.Record{}, decision); err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		if err := d.write(&p, &text); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadPlan(bytes.NewReader(text.Bytes())); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("another %s: %v", what, err)
		}
	}
}
