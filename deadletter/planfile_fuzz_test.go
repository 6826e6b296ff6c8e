package deadletter

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/dedup"
)

// Whatever a file says: it is read as it is, or refused, and nothing panics.
func FuzzReadPlan(f *testing.F) {
	for _, e := range []Entry{
		{Letter: Letter{ID: "letter-1", Consumer: "billing", Key: dedup.Key{Consumer: "billing", Scope: "order.create", ID: "\x00\u2028\""}}},
		{Letter: Letter{ID: "letter-2", BrokerKey: []byte("k")}, At: Place{Partition: 3, Offset: 1 << 40}},
	} {
		d, err := newDraft()
		if err != nil {
			f.Fatal(err)
		}
		if err := d.add(&e, &dedup.Record{State: dedup.Failed, Run: 1, Fence: 3}, Decision{Action: Reopen, Why: "failed"}); err != nil {
			f.Fatal(err)
		}
		p := Plan{Version: planVersion, Job: "job-1", Consumer: "billing", To: ToRetry, Expires: time.Now()}
		var text bytes.Buffer
		if err := d.write(&p, &text); err != nil {
			f.Fatal(err)
		}
		d.remove()
		if _, err := ReadPlan(bytes.NewReader(text.Bytes())); err != nil {
			f.Fatal(err)
		}
		f.Add(text.String())
	}
	f.Add(`{"onceward_plan":1,"job":"j","consumer":"c","to":"retry","expires":"2026-01-01T00:00:00Z","seen":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}` + "\n")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ReadPlan(strings.NewReader(text))
		if err != nil {
			return
		}
		n := 0
		for it, err := range p.items() {
			if err != nil || it == nil {
				t.Fatalf("item %d of a plan that was read: %v", n, err)
			}
			_, _ = it.Record.state(), it.key(p.Consumer)
			n++
		}
		if n != p.Letters {
			t.Errorf("%d items, the plan has %d", n, p.Letters)
		}
	})
}
