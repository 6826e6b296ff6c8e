package dedup_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/dedup"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// life is one record that Step is applied to.
type life struct {
	r    dedup.Record
	now  time.Time
	env  dedup.Env // beside Now
	last dedup.Answer
	// owner is the claim that was acquired last.
	fence uint64
	token dedup.Token
	n     byte
}

func newLife() *life { return &life{r: dedup.Record{Key: key("k")}, now: noon} }

func (l *life) step(op dedup.Op) dedup.Answer {
	op.Key = l.r.Key
	l.r.Live = l.r.State == dedup.InProgress && l.now.Before(l.r.LeaseUntil)
	env := l.env
	env.Now = l.now
	l.last, _ = dedup.Step(&l.r, &op, env)
	if l.last.Kind.Acquired() {
		l.fence, l.token = l.last.Fence, op.Token
	}
	return l.last
}

// do reads a story, a word for each step, and says what the last one was
// answered and how the record stands.
func (l *life) do(story string) string {
	for word := range strings.SplitSeq(story, ", ") {
		l.word(word)
	}
	r := &l.r
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", l.last.Kind, r.State)
	if r.State != dedup.Absent {
		fmt.Fprintf(&b, " fence %d run %d", r.Fence, r.Run)
	}
	for i, n := range []uint32{r.Failures, r.Crashes, r.Lone} {
		if n > 0 {
			fmt.Fprintf(&b, " %s %d", [...]string{"failures", "crashes", "lone"}[i], n)
		}
	}
	if r.Owed {
		b.WriteString(" owed")
	}
	if r.Doubt() {
		b.WriteString(" doubt")
	}
	if len(r.Evidence) > 0 {
		fmt.Fprintf(&b, " evidence %d", len(r.Evidence))
	}
	return b.String()
}

func (l *life) word(word string) {
	own := dedup.Op{Fence: l.fence, Token: l.token, Policy: policy, Lease: 10 * time.Second}
	charge, sms := &dedup.EffectOp{Name: "charge", QuietFor: time.Minute}, &dedup.EffectOp{Name: "sms", Blind: true}
	ends := map[string]dedup.Outcome{
		"success": dedup.Success, "terminal": dedup.Terminal, "exhausted": dedup.Exhausted, "failure": dedup.Failure,
		"release": dedup.Release, "doubt": dedup.Doubt, "skip": dedup.Skip,
	}
	decide := func(k dedup.Kind, o dedup.OperatorOp) {
		o.Seen = dedup.Seen{State: l.r.State, Run: l.r.Run, Fence: l.r.Fence}
		o.LetterRun = l.r.Run
		l.step(dedup.Op{Kind: k, Operator: &o})
	}
	if o, ok := ends[word]; ok {
		own.Kind, own.Outcome = dedup.End, o
		l.step(own)
		return
	}
	switch word {
	case "claim", "other", "old":
		l.n++
		op := dedup.Op{Kind: dedup.Claim, Token: dedup.Token{l.n}, Policy: policy, Lease: 10 * time.Second}
		if word == "other" {
			op.Fingerprint.Sum[0] = 1
		}
		if word == "old" {
			op.Stored = l.now.Add(-2 * time.Hour)
		}
		l.step(op)
	case "rival": // another process, so that the owner is the same as before
		fence, token := l.fence, l.token
		l.word("claim")
		l.fence, l.token = fence, token
	case "again": // the last claim, its answer lost
		own.Kind, own.Fence = dedup.Claim, 0
		l.step(own)
	case "renew":
		own.Kind = dedup.Renew
		l.step(own)
	case "alone":
		own.Kind = dedup.Alone
		l.step(own)
	case "dispatch":
		own.Kind, own.Effect = dedup.Dispatch, charge
		l.step(own)
	case "confirm":
		own.Kind, own.Effect = dedup.Confirm, charge
		l.step(own)
	case "refuse":
		own.Kind, own.Effect = dedup.Refuse, charge
		l.step(own)
	case "verify":
		own.Kind, own.Effect = dedup.VerifyNot, charge
		l.step(own)
	case "blind":
		own.Kind, own.Effect = dedup.Dispatch, sms
		l.step(own)
	case "lapse":
		l.now = l.now.Add(11 * time.Second)
	case "minute":
		l.now = l.now.Add(time.Minute)
	case "hour":
		l.now = l.now.Add(time.Hour)
	case "passed":
		l.env.Passed = true
	case "token":
		l.env.Admitted = true
	case "letters":
		l.env.Letters = 1
	case "noted":
		l.step(dedup.Op{Kind: dedup.NoteLetter, Letter: &dedup.LetterOp{Letter: dedup.Letter{ID: "l", Opened: l.r.Opened}, Settles: true}})
	case "another-noted":
		l.step(dedup.Op{Kind: dedup.NoteLetter, Letter: &dedup.LetterOp{Letter: dedup.Letter{ID: "l", Opened: l.r.Opened}}})
	case "unlock":
		decide(dedup.Unlock, dedup.OperatorOp{})
	case "delete":
		decide(dedup.Delete, dedup.OperatorOp{})
	case "import":
		decide(dedup.Import, dedup.OperatorOp{})
	case "sweep":
		decide(dedup.Sweep, dedup.OperatorOp{})
	case "reopen":
		decide(dedup.Reopen, dedup.OperatorOp{Job: "job"})
	case "rerun":
		decide(dedup.Reopen, dedup.OperatorOp{Job: "job", Decide: map[string]dedup.Verdict{"charge": dedup.RunAgain, "sms": dedup.RunAgain}})
	case "happened":
		decide(dedup.Reconcile, dedup.OperatorOp{To: dedup.Success, Decide: map[string]dedup.Verdict{"charge": dedup.Happened, "sms": dedup.Happened}})
	case "did-not":
		decide(dedup.Reconcile, dedup.OperatorOp{To: dedup.Release, Decide: map[string]dedup.Verdict{"charge": dedup.DidNot, "sms": dedup.DidNot}})
	case "undecided":
		decide(dedup.Reconcile, dedup.OperatorOp{To: dedup.Success})
	default:
		panic("no such word: " + word)
	}
}

func TestTheTable(t *testing.T) {
	for _, c := range []struct{ story, want string }{
		{"claim", "acquired: in_progress fence 1 run 1"},
		{"claim, claim", "busy: in_progress fence 1 run 1"},
		{"claim, again", "acquired: in_progress fence 1 run 1"},
		{"claim, lapse, again", "acquired: in_progress fence 2 run 1 crashes 1"},
		{"claim, lapse, claim", "acquired: in_progress fence 2 run 1 crashes 1"},
		{"claim, alone, lapse, claim, alone, lapse, claim", "acquired_to_bury: in_progress fence 3 run 1 crashes 2 lone 2"},
		{"claim, alone, lapse, claim, lapse, claim", "acquired: in_progress fence 3 run 1 crashes 2 lone 1"},
		{"claim, other", "conflict: in_progress fence 1 run 1"},
		{"claim, success, other", "conflict: succeeded fence 1 run 1"},
		{"passed, old", "too_old: absent"},
		{"old", "acquired: in_progress fence 1 run 1"},
		{"passed, token, old", "acquired: in_progress fence 1 run 1"},
		{"claim, success, passed, old", "duplicate_succeeded: succeeded fence 1 run 1"},

		{"claim, success", "done: succeeded fence 1 run 1"},
		{"claim, lapse, success", "done: succeeded fence 1 run 1"},
		{"claim, success, claim", "duplicate_succeeded: succeeded fence 1 run 1"},
		{"claim, success, success", "fenced: succeeded fence 1 run 1"},
		{"claim, terminal", "done: failed fence 1 run 1 owed"},
		{"claim, terminal, claim", "duplicate_failed: failed fence 1 run 1 owed"},
		{"claim, terminal, noted", "done: failed fence 1 run 1"},
		{"claim, terminal, another-noted", "done: failed fence 1 run 1 owed"},
		{"claim, exhausted", "done: failed fence 1 run 1 failures 1 owed"},
		{"claim, failure", "done: retryable fence 1 run 1 failures 1"},
		{"claim, failure, claim, release", "done: retryable fence 2 run 1 failures 1"},
		{"claim, failure, claim, failure, claim, failure, claim", "acquired_to_bury: in_progress fence 4 run 1 failures 3"},
		{"claim, failure, claim, failure, claim, failure, claim, exhausted", "done: failed fence 4 run 1 failures 3 owed"},
		{"claim, doubt", "done: in_doubt fence 1 run 1 owed"},
		{"claim, doubt, claim", "held_in_doubt: in_doubt fence 1 run 1 owed"},
		{"claim, doubt, doubt", "fenced: in_doubt fence 1 run 1 owed"},
		{"claim, skip", "done: absent"},
		{"claim, skip, claim", "acquired: in_progress fence 2 run 1"},
		{"claim, dispatch, confirm, skip", "done: retryable fence 1 run 1 failures 1"},
		{"claim, success, reopen, claim, skip", "done: retryable fence 3 run 2 failures 1"},
		{"claim, renew", "done: in_progress fence 1 run 1"},
		{"claim, lapse, renew", "fenced: in_progress fence 1 run 1"},
		{"claim, unlock, renew", "fenced: in_progress fence 1 run 1"},
		{"claim, lapse, alone", "fenced: in_progress fence 1 run 1"},
		{"claim, lapse, rival, renew", "fenced: in_progress fence 2 run 1 crashes 1"},
		{"claim, lapse, rival, release", "fenced: in_progress fence 2 run 1 crashes 1"},
		{"claim, lapse, rival, success", "fenced: in_progress fence 2 run 1 crashes 1 evidence 1"},
		{"claim, lapse, rival, dispatch", "fenced: in_progress fence 2 run 1 crashes 1"},

		{"claim, dispatch, lapse, claim", "acquired_in_doubt: in_progress fence 2 run 1 crashes 1 doubt"},
		{"claim, dispatch, dispatch", "fenced: in_progress fence 1 run 1 doubt"},
		{"claim, dispatch, confirm, dispatch", "fenced: in_progress fence 1 run 1"},
		{"claim, dispatch, confirm, success", "done: succeeded fence 1 run 1"},
		{"claim, dispatch, refuse, success", "done: succeeded fence 1 run 1"},
		{"claim, dispatch, refuse, refuse", "fenced: in_progress fence 1 run 1"},
		{"claim, dispatch, verify", "fenced: in_progress fence 1 run 1 doubt"},
		{"claim, dispatch, minute, verify", "done: in_progress fence 1 run 1"},
		{"claim, dispatch, success", "done: in_doubt fence 1 run 1 owed doubt"},
		{"claim, dispatch, failure", "done: retryable fence 1 run 1 failures 1 doubt"},
		{"claim, dispatch, failure, claim", "acquired_in_doubt: in_progress fence 2 run 1 failures 1 doubt"},
		{"claim, blind, failure", "done: in_doubt fence 1 run 1 failures 1 owed doubt"},
		{"claim, blind, release", "done: in_doubt fence 1 run 1 owed doubt"},
		{"claim, blind, lapse, claim", "held_in_doubt: in_doubt fence 1 run 1 owed doubt"},
		{"claim, dispatch, failure, claim, failure, claim, failure, claim, lapse, claim", "held_in_doubt: in_doubt fence 4 run 1 failures 3 owed doubt"},
		{"claim, dispatch, success, confirm, success", "done: succeeded fence 1 run 1"},
		{"claim, dispatch, success, refuse, failure", "done: retryable fence 2 run 2"},
		{"claim, dispatch, success, hour, success", "done: in_doubt fence 1 run 1 owed doubt evidence 1"},
		{"claim, dispatch, success, hour, success, hour, success", "done: in_doubt fence 1 run 1 owed doubt evidence 1"},

		{"claim, unlock, claim", "acquired: in_progress fence 2 run 1 crashes 1"},
		{"claim, alone, unlock, claim", "acquired: in_progress fence 2 run 1 crashes 1"},
		{"claim, blind, unlock, claim", "held_in_doubt: in_doubt fence 1 run 1 owed doubt"},
		{"claim, delete", "refused: in_progress fence 1 run 1"},
		{"claim, success, delete, claim", "acquired: in_progress fence 2 run 1"},
		{"claim, success, letters, delete", "refused: succeeded fence 1 run 1"},
		{"claim, terminal, delete", "refused: failed fence 1 run 1 owed"},
		{"claim, dispatch, confirm, success, delete", "refused: succeeded fence 1 run 1"},
		{"import, claim", "duplicate_succeeded: succeeded fence 1 run 1"},
		{"claim, import", "refused: in_progress fence 1 run 1"},
		{"claim, success, reopen", "done: retryable fence 2 run 2"},
		{"claim, terminal, reopen", "refused: failed fence 1 run 1 owed"},
		{"claim, terminal, noted, reopen, claim", "acquired: in_progress fence 3 run 2"},
		{"claim, reopen", "refused: in_progress fence 1 run 1"},
		{"claim, dispatch, success, noted, reopen", "refused: in_doubt fence 1 run 1 doubt"},
		{"claim, dispatch, success, noted, rerun", "done: retryable fence 2 run 2"},
		{"claim, dispatch, success, undecided", "refused: in_doubt fence 1 run 1 owed doubt"},
		{"claim, dispatch, success, happened", "done: succeeded fence 1 run 1"},
		{"claim, dispatch, success, did-not", "refused: in_doubt fence 1 run 1 owed doubt"},
		{"claim, dispatch, success, minute, did-not", "done: retryable fence 2 run 2"},
		{"claim, success, sweep", "refused: succeeded fence 1 run 1"},
		{"claim, success, hour, sweep", "refused: succeeded fence 1 run 1"},
		{"claim, success, passed, hour, sweep", "done: absent"},
		{"claim, success, passed, letters, hour, sweep", "refused: succeeded fence 1 run 1"},
		{"claim, failure, passed, hour, sweep", "refused: retryable fence 1 run 1 failures 1"},
		{"claim, success, passed, hour, sweep, claim", "acquired: in_progress fence 2 run 1"},
	} {
		if got := newLife().do(c.story); got != c.want {
			t.Errorf("%s:\n\tgot  %s\n\twant %s", c.story, got, c.want)
		}
	}
}

func TestAClaimThatIsFreshAllocatesNothing(t *testing.T) {
	op := claim("k", 1)
	end := dedup.Op{Kind: dedup.End, Key: op.Key, Fence: 1, Token: op.Token, Policy: policy, Outcome: dedup.Success, Result: []byte("ok")}
	env := dedup.Env{Now: noon}
	allocated := testing.AllocsPerRun(100, func() {
		r := dedup.Record{Key: op.Key}
		if op.Validate() != nil || end.Validate() != nil {
			t.Error("invalid")
		}
		dedup.Step(&r, &op, env)
		r.Live = true
		dedup.Step(&r, &end, env)
	})
	if allocated > 0 {
		t.Errorf("%v allocations", allocated)
	}
}

func BenchmarkStepPair(b *testing.B) {
	op := claim("k", 1)
	end := dedup.Op{Kind: dedup.End, Key: op.Key, Fence: 1, Token: op.Token, Policy: policy, Outcome: dedup.Success, Result: []byte("ok")}
	env := dedup.Env{Now: noon}
	b.ReportAllocs()
	for b.Loop() {
		r := dedup.Record{Key: op.Key}
		dedup.Step(&r, &op, env)
		r.Live = true
		dedup.Step(&r, &end, env)
	}
}

func BenchmarkValidate(b *testing.B) {
	op := claim("k", 1)
	b.ReportAllocs()
	for b.Loop() {
		_ = op.Validate()
	}
}
