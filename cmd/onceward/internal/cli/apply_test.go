package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/deadletter"
)

func TestWhatIsToBeDoneAfterAnApplicationIsWhatHelps(t *testing.T) {
	stopped := &deadletter.StoppedError{Why: "failed again"}
	for name, c := range map[string]struct {
		expired bool
		letters int
		counts  map[deadletter.Did]int
		refused remedies
		failed  int
		err     error
		want    string
		lacks   string
	}{
		"expired":               {expired: true, letters: 2, counts: map[deadletter.Did]int{deadletter.DidSend: 1, deadletter.DidSkip: 1}, want: "make a new plan: this one has expired"},
		"skipped":               {letters: 2, counts: map[deadletter.Did]int{deadletter.DidSend: 1, deadletter.DidSkip: 1}, lacks: "next"},
		"refused, and expired":  {letters: 1, counts: map[deadletter.Did]int{deadletter.DidRefuse: 1}, refused: remedies{expired: 1}, want: "--accept-expired", lacks: "--approve"},
		"refused, approvable":   {letters: 1, counts: map[deadletter.Did]int{deadletter.DidRefuse: 1}, refused: remedies{approvable: 1}, want: "--approve ID", lacks: "--accept-expired"},
		"refused otherwise":     {letters: 1, counts: map[deadletter.Did]int{deadletter.DidRefuse: 1}, refused: remedies{other: 1}, want: "onceward dlq resolve ID", lacks: "--approve"},
		"refused, no letter":    {letters: 1, counts: map[deadletter.Did]int{deadletter.DidRefuse: 1}, lacks: "next"},
		"some have failed":      {letters: 1, failed: 1, err: stopped, want: "this one goes on with the others"},
		"all of it has failed":  {letters: 2, failed: 2, err: stopped, want: "make a new plan of what failed again", lacks: "others"},
		"nothing is left to do": {letters: 2, counts: map[deadletter.Did]int{deadletter.DidBefore: 2}, lacks: "next"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &deadletter.PlanFile{Plan: deadletter.Plan{Letters: 2, Expires: time.Now().Add(time.Hour)}}
			if c.expired {
				p.Expires = time.Now()
			}
			a := &app{talk: new(bytes.Buffer)}
			err := a.applyEnd(t.Context(), &session{}, p, &deadletter.Report{Letters: c.letters, Counts: c.counts, FailedAgain: c.failed}, &c.refused, c.err)
			text := advice(err)
			if !strings.Contains(text, c.want) || c.lacks != "" && strings.Contains(text, c.lacks) {
				t.Errorf("%v: %q, want %q without %q", err, text, c.want, c.lacks)
			}
		})
	}
}

func TestTheProgressOfADryRunSaysThatNothingIsSent(t *testing.T) {
	r := &deadletter.Report{Letters: 3, Counts: map[deadletter.Did]int{deadletter.DidSend: 2}}
	for dry, want := range map[bool]string{true: "3 of 9 letters: 2 would be sent", false: "3 of 9 letters: 2 sent, 0 answered, 0 failed again"} {
		if got := soFar(r, 9, dry); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
