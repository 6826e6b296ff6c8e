package dedup_test

import (
	"reflect"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/onceward/onceward/dedup"
)

// reader makes operations of bytes, as a fuzzer gives them.
type reader struct {
	b []byte
	l *life
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		return 0
	}
	b := r.b[0]
	r.b = r.b[1:]
	return b
}

func (r *reader) duration() time.Duration { return time.Duration(int8(r.byte())) * time.Second }

func (r *reader) text() string {
	n := int(r.byte()) % 8
	if n == 7 {
		n = 1100 // over most limits
	}
	b := make([]byte, n)
	for i := range b {
		b[i] = r.byte()
	}
	return string(b)
}

func (r *reader) op() dedup.Op {
	l := r.l
	op := dedup.Op{
		Kind: dedup.Kind(r.byte() % 22), Key: key("k"), Token: dedup.Token{r.byte() % 4},
		Fence: l.r.Fence + uint64(int8(r.byte()%3)-1), Lease: r.duration(), Wait: r.duration(),
		Outcome: dedup.Outcome(r.byte() % 9), Error: r.text(), Result: []byte(r.text()),
	}
	if n := r.byte(); n%8 != 0 {
		op.Policy = &dedup.Policy{Failures: uint32(n % 4), Lone: uint32(n / 4 % 4), Window: r.duration(), Archive: n > 128, NoLetters: n%16 == 1}
	}
	op.Fingerprint = dedup.Fingerprint{Sum: [32]byte{r.byte() % 2}, Rule: uint32(r.byte() % 2)}
	if n := r.byte(); n%4 != 0 {
		op.Effect = &dedup.EffectOp{Name: r.text(), Blind: n%3 == 0, QuietFor: r.duration(), External: r.text()}
		if n%5 == 0 {
			op.Effect.AskedAt = l.now.Add(r.duration())
		}
	}
	if n := r.byte(); n%4 != 0 {
		op.Letter = &dedup.LetterOp{
			Letter: dedup.Letter{ID: r.text(), Opened: l.r.Opened, Job: r.text(), Token: r.text()},
			From:   dedup.LetterState(r.byte() % 9), To: dedup.LetterState(r.byte() % 9),
		}
	}
	if n := r.byte(); n%4 != 0 {
		op.Operator = &dedup.OperatorOp{
			Seen: dedup.Seen{State: l.r.State, Run: l.r.Run, Fence: l.r.Fence}, LetterRun: l.r.Run, Job: r.text(), To: dedup.Outcome(r.byte() % 9),
			Decide: map[string]dedup.Verdict{r.text(): dedup.Verdict(r.byte() % 5)}, Window: r.duration(), Archive: n > 128, Result: []byte(r.text()),
		}
	}
	return op
}

// Whatever is asked of it, the table panics at nothing that Validate lets
// through, and keeps what must hold of every record.
func FuzzStep(f *testing.F) {
	f.Add([]byte("\x01\x01\x00\x0a"))
	for n := range 16 {
		sample := make([]byte, 600)
		for i := range sample {
			sample[i] = byte(i*(2*n+3) + n)
		}
		f.Add(sample)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		l := newLife()
		in := &reader{b: b, l: l}
		var letter dedup.Letter
		for len(in.b) > 0 {
			l.now = l.now.Add(time.Duration(in.byte()%16) * time.Second)
			op := in.op()
			if op.Validate() != nil {
				continue
			}
			l.r.Live = l.r.State == dedup.InProgress && l.now.Before(l.r.LeaseUntil)
			before, letterBefore := l.r.Clone(), letter
			if op.Kind == dedup.Advance {
				continue // has no record
			}
			if op.Letter != nil && (op.Kind == dedup.NoteLetter || op.Kind == dedup.MoveLetter || op.Kind == dedup.SendNoted) {
				var kind dedup.AnswerKind
				if letter, kind = dedup.StepLetter(letter, &l.r, &op, l.now); kind != dedup.Done {
					if letter != letterBefore {
						t.Fatalf("%s was refused and changed %+v into %+v", op.Kind, letterBefore, letter)
					}
					continue
				}
				if letter.State > dedup.LetterGone {
					t.Fatalf("letter %+v", letter)
				}
			}
			a, changed := dedup.Step(&l.r, &op, dedup.Env{Now: l.now, Passed: in.byte()%2 == 0, Letters: int(in.byte() % 2)})
			holds(t, &op, before, &l.r, a, changed)
		}
	})
}

func holds(t *testing.T, op *dedup.Op, before dedup.Record, r *dedup.Record, a dedup.Answer, changed bool) {
	t.Helper()
	must := func(ok bool, what string) {
		t.Helper()
		if !ok {
			t.Fatalf("%s: %s\n%+v\nbecame\n%+v\nanswered %+v", op.Kind, what, before, *r, a)
		}
	}
	must(changed || reflect.DeepEqual(before, *r), "said to be unchanged, and is not")
	must(r.Key == before.Key, "another key")
	must(r.Fence >= before.Fence, "the fence fell")
	must(r.State == dedup.Absent || r.Run >= before.Run, "the run fell")
	must(r.Run == before.Run || r.State == dedup.Absent || r.Fence > before.Fence, "a new run without a new fence")
	must(r.State <= dedup.Tombstone, "no such state")
	must(!r.Live || r.State == dedup.InProgress, "live without an owner")
	must(!r.Alone || r.State == dedup.InProgress, "alone without an owner")
	must(!r.Owed || r.State == dedup.Failed || r.State == dedup.InDoubt, "owes a letter for nothing")
	must(r.Ended() == dedup.Absent || !r.Doubt(), "finished with a doubt")
	must(r.State != dedup.Retryable || !r.Blind(), "may run again beside a blind doubt")
	must(len(r.Intents) <= dedup.MaxIntents && len(r.Evidence) <= 4, "without bounds")
	must(r.State == dedup.Absent || r.Opened > 0 && r.Opened <= r.Fence && r.Run > 0, "a run that nothing opened")
	must(!a.Kind.Acquired() || r.State == dedup.InProgress && r.Live && r.Token == op.Token && a.Fence == r.Fence, "acquired by somebody else")
	must(a.Kind == dedup.Invalid == (a.Err != nil), "invalid without a fault, or the other way")
	must(a.State == r.State && a.Run == r.Run, "the answer tells of another record")
}

func FuzzValidate(f *testing.F) {
	f.Add([]byte("\x01\x01\x00\x0a"), "consumer", "scope", "id")
	f.Add([]byte{}, "", "", "")
	f.Fuzz(func(t *testing.T, b []byte, consumer, scope, id string) {
		in := &reader{b: b, l: newLife()}
		op := in.op()
		op.Key = dedup.Key{Consumer: consumer, Scope: scope, ID: id}
		err := op.Validate()
		if err == nil && (len(consumer) == 0 || len(consumer) > dedup.MaxScope || len(scope) > dedup.MaxScope || len(id) > dedup.MaxID) {
			t.Errorf("%s of %q is taken", op.Kind, op.Key)
		}
		if err := op.Key.Validate(); err == nil && (id == "" || !utf8.ValidString(id)) {
			t.Errorf("key %q is taken", op.Key)
		}
		_ = op.Key.String()
	})
}
