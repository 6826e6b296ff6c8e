package storetest

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/dedup"
)

func owner(op *dedup.Op) bool { return op.Kind >= dedup.Renew && op.Kind <= dedup.End }

var faults = []fault{
	// Claims.
	{name: "fence unchecked", before: func(r *dedup.Record, op *dedup.Op, _ *dedup.Env) {
		if owner(op) {
			op.Fence = r.Fence
		}
	}},
	{name: "lease stolen while live", before: func(r *dedup.Record, op *dedup.Op, _ *dedup.Env) {
		if op.Kind == dedup.Claim && op.Token != r.Token {
			r.Live = false
		}
	}},
	{name: "second claim of a batch acquired", apply: func(w *wrong, ctx context.Context, ops []dedup.Op) ([]dedup.Answer, error) {
		answers, err := w.right(ctx, ops)
		for i := range answers {
			for j := range i {
				if ops[i].Kind == dedup.Claim && ops[j].Key == ops[i].Key && answers[i].Kind == dedup.Busy && answers[j].Kind == dedup.Acquired {
					answers[i] = answers[j]
				}
			}
		}
		return answers, err
	}},
	{name: "busy is a duplicate", after: func(_ dedup.Record, _ *dedup.Op, _ *dedup.Record, a *dedup.Answer) {
		if a.Kind == dedup.Busy {
			a.Kind = dedup.DuplicateSucceeded
		}
	}},
	{name: "lapsed stays busy", before: func(r *dedup.Record, op *dedup.Op, _ *dedup.Env) {
		r.Live = r.State == dedup.InProgress && op.Kind == dedup.Claim
	}},
	{name: "lease of two seconds more", after: func(_ dedup.Record, op *dedup.Op, r *dedup.Record, a *dedup.Answer) {
		if a.Kind.Acquired() {
			r.LeaseUntil = r.LeaseUntil.Add(2 * time.Second)
		}
	}},
	{name: "fence not raised at a takeover", after: func(old dedup.Record, op *dedup.Op, r *dedup.Record, a *dedup.Answer) {
		if a.Kind.Acquired() && old.State != dedup.Absent {
			r.Fence, a.Fence = old.Fence, old.Fence
		}
	}},
	{name: "fence restarts after deletion", after: func(_ dedup.Record, _ *dedup.Op, r *dedup.Record, _ *dedup.Answer) {
		if r.State == dedup.Absent {
			r.Fence = 0
		}
	}},
	{name: "token of the claim ignored", before: func(r *dedup.Record, op *dedup.Op, _ *dedup.Env) {
		if op.Kind == dedup.Claim {
			r.Token = dedup.Token{0xff}
		}
	}},
	{name: "repeated claim raises the fence", after: func(old dedup.Record, op *dedup.Op, r *dedup.Record, a *dedup.Answer) {
		if op.Kind == dedup.Claim && old.Token == op.Token && a.Kind == dedup.Acquired && old.Live {
			r.Fence++
			a.Fence++
		}
	}},
	{name: "content not compared", before: func(r *dedup.Record, op *dedup.Op, _ *dedup.Env) {
		if op.Kind == dedup.Claim && r.State != dedup.Absent {
			op.Fingerprint = r.Fingerprint
		}
	}},
	{name: "conflict takes the newcomer's content", after: func(_ dedup.Record, op *dedup.Op, r *dedup.Record, a *dedup.Answer) {
		if a.Kind == dedup.Conflict {
			r.Fingerprint = op.Fingerprint
		}
	}},
	{name: "other rules compared", before: func(r *dedup.Record, op *dedup.Op, _ *dedup.Env) {
		if op.Kind == dedup.Claim {
			r.Fingerprint.Rule = op.Fingerprint.Rule
		}
	}},
	{name: "crash not counted", after: func(old dedup.Record, op *dedup.Op, r *dedup.Record, a *dedup.Answer) {
		if op.Kind == dedup.Claim {
			r.Crashes, a.Crashes = old.Crashes, old.Crashes
		}
	}},
	{name: "every crash a lone one", before: func(r *dedup.Record, op *dedup.Op, _ *dedup.Env) {
		r.Alone = r.Alone || op.Kind == dedup.Claim && r.State == dedup.InProgress
	}},
	{name: "no crash a lone one", before: func(r *dedup.Record, op *dedup.Op, _ *dedup.Env) {
		r.Alone = r.Alone && op.Kind != dedup.Claim
	}},
	{name: "failure not counted", after: func(old dedup.Record, op *dedup.Op, r *dedup.Record, _ *dedup.Answer) {
		if op.Kind == dedup.End && op.Outcome == dedup.Failure && r.State == dedup.Retryable {
			r.Failures = old.Failures
		}
	}},
	{name: "release counted", after: func(_ dedup.Record, op *dedup.Op, r *dedup.Record, a *dedup.Answer) {
		if op.Kind == dedup.End && op.Outcome == dedup.Release && a.Kind == dedup.Done {
			r.Failures++
		}
	}},
	{name: "not before ignored", before: func(r *dedup.Record, op *dedup.Op, _ *dedup.Env) {
		if op.Kind == dedup.Claim {
			r.NotBefore = time.Time{}
		}
	}},
	{name: "too old is claimed", before: func(_ *dedup.Record, op *dedup.Op, env *dedup.Env) {
		env.Passed = env.Passed && op.Kind != dedup.Claim
	}},
	{name: "swept copy is claimed", before: func(_ *dedup.Record, op *dedup.Op, _ *dedup.Env) { op.Copy = false }},
	{name: "backlog is too old", before: func(_ *dedup.Record, op *dedup.Op, env *dedup.Env) {
		env.Passed = env.Passed || op.Kind == dedup.Claim
	}},
	{name: "replay token ignored", before: func(_ *dedup.Record, _ *dedup.Op, env *dedup.Env) { env.Admitted = false }},
	{name: "any replay token taken", before: func(_ *dedup.Record, op *dedup.Op, env *dedup.Env) { env.Admitted = op.ReplayToken != "" }},
	{name: "record withheld from a duplicate", after: func(_ dedup.Record, _ *dedup.Op, _ *dedup.Record, a *dedup.Answer) {
		if a.Kind == dedup.DuplicateSucceeded {
			a.Record = nil
		}
	}},

	// Owners.
	{name: "lapsed lease renewed", before: func(r *dedup.Record, op *dedup.Op, _ *dedup.Env) {
		r.Live = r.Live || op.Kind == dedup.Renew && r.State == dedup.InProgress
	}},
	{name: "renewal forgotten", after: func(old dedup.Record, op *dedup.Op, r *dedup.Record, _ *dedup.Answer) {
		if op.Kind == dedup.Renew {
			r.LeaseUntil = old.LeaseUntil
		}
	}},
	{name: "late but unfenced refused", before: func(r *dedup.Record, op *dedup.Op, _ *dedup.Env) {
		if op.Kind == dedup.End && !r.Live {
			op.Fence = 0
		}
	}},
	{name: "evidence dropped", after: func(old dedup.Record, _ *dedup.Op, r *dedup.Record, _ *dedup.Answer) {
		r.Evidence = nil
	}},
	{name: "skip keeps the record", after: func(_ dedup.Record, op *dedup.Op, r *dedup.Record, a *dedup.Answer) {
		if op.Kind == dedup.End && op.Outcome == dedup.Skip && r.State == dedup.Absent && a.Kind == dedup.Done {
			r.State = dedup.Succeeded
		}
	}},
	{name: "skip forgets an effect", before: func(r *dedup.Record, op *dedup.Op, _ *dedup.Env) {
		if op.Kind == dedup.End && op.Outcome == dedup.Skip {
			r.Intents = nil
		}
	}},
	{name: "result lost", after: func(_ dedup.Record, _ *dedup.Op, r *dedup.Record, _ *dedup.Answer) { r.Result = nil }},
	{name: "error text lost", after: func(_ dedup.Record, _ *dedup.Op, r *dedup.Record, _ *dedup.Answer) { r.Error = "" }},
	{name: "enlisted work run with every end", before: func(_ *dedup.Record, op *dedup.Op, _ *dedup.Env) {
		for _, work := range op.Enlisted {
			_ = work.(func() error)()
		}
	}},
	{name: "enlisted work dropped", before: func(_ *dedup.Record, op *dedup.Op, _ *dedup.Env) { op.Enlisted = nil }},

	// Effects.
	{name: "lapsed claim forgets its doubt", before: func(r *dedup.Record, op *dedup.Op, _ *dedup.Env) {
		if op.Kind == dedup.Claim {
			r.Intents = slices.DeleteFunc(r.Intents, func(i dedup.Intent) bool { return i.Status == dedup.Dispatched })
		}
	}},
	{name: "blind doubt is claimed", before: func(r *dedup.Record, op *dedup.Op, _ *dedup.Env) {
		for i := range r.Intents {
			r.Intents[i].Blind = r.Intents[i].Blind && op.Kind != dedup.Claim
		}
	}},
	{name: "success in spite of doubt", before: func(r *dedup.Record, op *dedup.Op, _ *dedup.Env) {
		if op.Kind == dedup.End && op.Outcome == dedup.Success {
			r.Intents = nil
		}
	}},
	{name: "no quiet period", before: func(r *dedup.Record, _ *dedup.Op, _ *dedup.Env) {
		for i := range r.Intents {
			r.Intents[i].QuietFor = 0
		}
	}},
	{name: "quiet period judged after asking", before: func(_ *dedup.Record, op *dedup.Op, _ *dedup.Env) {
		if op.Kind == dedup.VerifyNot {
			op.Effect.AskedAt = time.Time{}
		}
	}},
	{name: "dispatched twice", before: func(r *dedup.Record, op *dedup.Op, _ *dedup.Env) {
		if op.Kind == dedup.Dispatch {
			r.Intents = nil
		}
	}},
	{name: "effect run forgotten", after: func(_ dedup.Record, _ *dedup.Op, r *dedup.Record, _ *dedup.Answer) {
		for i := range r.Intents {
			r.Intents[i].EffectRun = 0
		}
	}},
	{name: "held record not told", after: func(_ dedup.Record, op *dedup.Op, _ *dedup.Record, a *dedup.Answer) {
		if op.Kind == dedup.End && a.State == dedup.InDoubt {
			a.State = dedup.Succeeded
		}
	}},

	// Letters.
	{name: "debt forgotten", after: func(_ dedup.Record, _ *dedup.Op, r *dedup.Record, _ *dedup.Answer) { r.Owed = false }},
	{name: "debt never paid", after: func(old dedup.Record, op *dedup.Op, r *dedup.Record, _ *dedup.Answer) {
		if op.Kind == dedup.NoteLetter {
			r.Owed = old.Owed
		}
	}},
	{name: "debt paid by any letter of the run", before: func(_ *dedup.Record, op *dedup.Op, _ *dedup.Env) {
		if op.Kind == dedup.NoteLetter {
			l := *op.Letter
			l.Settles = true
			op.Letter = &l
		}
	}},
	{name: "sent letter admits what has expired", letter: func(_ dedup.Letter, _ *dedup.Op, l *dedup.Letter, _ *dedup.AnswerKind) {
		l.Expired = l.Token != ""
	}},
	{name: "letter without a key has no record", after: func(old dedup.Record, op *dedup.Op, r *dedup.Record, _ *dedup.Answer) {
		if op.Key.OfLetter() {
			*r = old
		}
	}},
	{name: "letter without a key ends no record", before: func(r *dedup.Record, op *dedup.Op, env *dedup.Env) {
		if op.Kind == dedup.MoveLetter && op.Key.OfLetter() {
			env.Letter = &dedup.Letter{State: dedup.LetterSent, Job: "job"}
		}
	}},
	{name: "debt paid by a letter of another run", before: func(r *dedup.Record, op *dedup.Op, _ *dedup.Env) {
		if op.Kind == dedup.NoteLetter {
			l := *op.Letter
			l.Letter.Opened = r.Opened
			op.Letter = &l
		}
	}},
	{name: "letter noted again", letter: func(_ dedup.Letter, op *dedup.Op, l *dedup.Letter, _ *dedup.AnswerKind) {
		if op.Kind == dedup.NoteLetter {
			l.State = dedup.LetterOpen
		}
	}},
	{name: "letter moved from anywhere", letter: func(_ dedup.Letter, op *dedup.Op, l *dedup.Letter, kind *dedup.AnswerKind) {
		if op.Kind == dedup.MoveLetter {
			l.ID, l.State, *kind = op.Letter.Letter.ID, op.Letter.To, dedup.Done
		}
	}},
	{name: "letter of another job taken", letter: func(old dedup.Letter, op *dedup.Op, l *dedup.Letter, kind *dedup.AnswerKind) {
		if op.Kind == dedup.MoveLetter && *kind == dedup.Refused && old.State == op.Letter.From && old.Job != op.Letter.Letter.Job && op.Letter.To == dedup.LetterSent {
			l.State, *kind = op.Letter.To, dedup.Done
		}
	}},
	{name: "letter's token lost", letter: func(_ dedup.Letter, _ *dedup.Op, l *dedup.Letter, _ *dedup.AnswerKind) { l.Token = "" }},
	{name: "letter's source lost", letter: func(_ dedup.Letter, _ *dedup.Op, l *dedup.Letter, _ *dedup.AnswerKind) {
		l.Source = dedup.Position{}
	}},
	{name: "copy never noted", after: func(_ dedup.Record, _ *dedup.Op, r *dedup.Record, _ *dedup.Answer) { r.Sent = false }},

	// Operators.
	{name: "what was seen not compared", before: func(r *dedup.Record, op *dedup.Op, _ *dedup.Env) {
		if op.Operator != nil {
			o := *op.Operator
			o.Seen = r.Seen()
			op.Operator = &o
		}
	}},
	{name: "approval never expires", before: func(_ *dedup.Record, op *dedup.Op, _ *dedup.Env) {
		if op.Operator != nil {
			o := *op.Operator
			o.Expires = time.Time{}
			op.Operator = &o
		}
	}},
	{name: "unlock counts as a lone crash", after: func(old dedup.Record, op *dedup.Op, r *dedup.Record, _ *dedup.Answer) {
		if op.Kind == dedup.Unlock {
			r.Alone = old.Alone
		}
	}},
	{name: "unlock releases", after: func(_ dedup.Record, op *dedup.Op, r *dedup.Record, a *dedup.Answer) {
		if op.Kind == dedup.Unlock && a.Kind == dedup.Done {
			r.State = dedup.Retryable
		}
	}},
	{name: "delete forgets intents", before: func(r *dedup.Record, op *dedup.Op, _ *dedup.Env) {
		if op.Kind == dedup.Delete {
			r.Intents = nil
		}
	}},
	{name: "delete ignores letters", before: func(_ *dedup.Record, op *dedup.Op, env *dedup.Env) {
		if op.Kind == dedup.Delete {
			env.Letters = 0
		}
	}},
	{name: "reopen keeps the counters", after: func(old dedup.Record, op *dedup.Op, r *dedup.Record, _ *dedup.Answer) {
		if op.Kind == dedup.Reopen {
			r.Failures, r.Crashes, r.Lone = old.Failures, old.Crashes, old.Lone
		}
	}},
	{name: "reopen keeps the fence", after: func(old dedup.Record, op *dedup.Op, r *dedup.Record, a *dedup.Answer) {
		if op.Kind == dedup.Reopen {
			r.Fence, a.Fence = old.Fence, old.Fence
		}
	}},
	{name: "reopen keeps the run", after: func(old dedup.Record, op *dedup.Op, r *dedup.Record, a *dedup.Answer) {
		if op.Kind == dedup.Reopen {
			r.Run, a.Run = old.Run, old.Run
		}
	}},
	{name: "reopen while a letter is owed", before: func(r *dedup.Record, op *dedup.Op, _ *dedup.Env) {
		r.Owed = r.Owed && op.Kind != dedup.Reopen
	}},
	{name: "reopen for a letter that another holds, or nobody", before: func(_ *dedup.Record, op *dedup.Op, env *dedup.Env) {
		if op.Kind == dedup.Reopen {
			env.Letter = nil
		}
	}},
	{name: "any letter reopens", before: func(r *dedup.Record, op *dedup.Op, _ *dedup.Env) {
		if op.Kind == dedup.Reopen {
			o := *op.Operator
			o.LetterRun = r.Run
			op.Operator = &o
		}
	}},
	{name: "the same job reopens again", before: func(r *dedup.Record, op *dedup.Op, _ *dedup.Env) {
		if op.Kind == dedup.Reopen {
			r.Job = ""
		}
	}},
	{name: "books read early", before: func(_ *dedup.Record, op *dedup.Op, _ *dedup.Env) {
		if op.Operator != nil {
			o := *op.Operator
			o.BooksReadAt = time.Time{}
			op.Operator = &o
		}
	}},

	// Windows.
	{name: "sweep ignores letters", before: func(_ *dedup.Record, op *dedup.Op, env *dedup.Env) {
		if op.Kind == dedup.Sweep {
			env.Letters = 0
		}
	}},
	{name: "sweep beyond the prefix", before: func(_ *dedup.Record, op *dedup.Op, env *dedup.Env) {
		env.Passed = env.Passed || op.Kind == dedup.Sweep
	}},
	{name: "sweep early", before: func(r *dedup.Record, op *dedup.Op, env *dedup.Env) {
		if op.Kind == dedup.Sweep {
			env.Now = env.Now.Add(10 * time.Second)
		}
	}},
	{name: "sweep takes what is owed", before: func(r *dedup.Record, op *dedup.Op, _ *dedup.Env) {
		r.Owed = r.Owed && op.Kind != dedup.Sweep
	}},
	{name: "tombstone loses its outcome", after: func(_ dedup.Record, _ *dedup.Op, r *dedup.Record, _ *dedup.Answer) {
		if r.State == dedup.Tombstone {
			r.Outcome = dedup.Succeeded
		}
	}},
	{name: "nothing is archived", before: func(r *dedup.Record, op *dedup.Op, _ *dedup.Env) {
		r.Archive = r.Archive && op.Kind != dedup.Sweep
	}},
	{name: "letters outlive their record", wrap: func(w *wrong) dedup.Store { return &hoarder{w} }},
	{name: "nothing is swept", wrap: func(w *wrong) dedup.Store { return &noSweep{w} }},
	{name: "everything is swept in one step", wrap: func(w *wrong) dedup.Store { return &greedy{w} }},

	// Keys.
	{name: "ids end at NUL", key: func(k dedup.Key) dedup.Key { k.ID, _, _ = strings.Cut(k.ID, "\x00"); return k }},
	{name: "ids fold case", key: func(k dedup.Key) dedup.Key { k.ID = strings.ToLower(k.ID); return k }},
	{name: "ids are cut", key: func(k dedup.Key) dedup.Key { k.ID = k.ID[:min(len(k.ID), 255)]; return k }},
	{name: "ids are made valid UTF-8", key: func(k dedup.Key) dedup.Key { k.ID = strings.ToValidUTF8(k.ID, "?"); return k }},
	{name: "ids are trimmed", key: func(k dedup.Key) dedup.Key { k.ID = strings.TrimSpace(k.ID); return k }},
	{name: "scope and id joined", key: func(k dedup.Key) dedup.Key { return dedup.Key{Consumer: k.Consumer, ID: k.Scope + "/" + k.ID} }},
	{name: "scope and id joined by NUL", key: func(k dedup.Key) dedup.Key {
		return dedup.Key{Consumer: k.Consumer, ID: k.Scope + "\x00" + k.ID}
	}},
	{name: "consumers share keys", key: func(k dedup.Key) dedup.Key { k.Consumer = ""; return k }},

	// Batches, reading, life.
	{name: "one bad item fails the batch", apply: func(w *wrong, ctx context.Context, ops []dedup.Op) ([]dedup.Answer, error) {
		for i := range ops {
			if err := ops[i].Validate(); err != nil {
				return nil, err
			}
		}
		return w.right(ctx, ops)
	}},
	{name: "answers in another order", apply: func(w *wrong, ctx context.Context, ops []dedup.Op) ([]dedup.Answer, error) {
		answers, err := w.right(ctx, ops)
		slices.Reverse(answers)
		return answers, err
	}},
	{name: "context ignored", apply: func(w *wrong, ctx context.Context, ops []dedup.Op) ([]dedup.Answer, error) {
		return w.right(context.WithoutCancel(ctx), ops)
	}},
	{name: "lost updates", racy: true},
	{name: "prefix goes back", apply: func(w *wrong, ctx context.Context, ops []dedup.Op) ([]dedup.Answer, error) {
		answers, err := w.right(ctx, ops)
		for _, op := range ops {
			if op.Kind == dedup.Advance && err == nil {
				w.prefixes[op.Key][lane(op.Position)] = op.Position.Offset
			}
		}
		return answers, err
	}},
	{name: "sequence stands still", wrap: func(w *wrong) dedup.Store { return &still{w} }},
	{name: "scan shows twice", wrap: func(w *wrong) dedup.Store { return &twice{w} }},
	{name: "scan forgets letters without a key", wrap: func(w *wrong) dedup.Store { return &keyed{w} }},
	{name: "closed store answers", wrap: func(w *wrong) dedup.Store { return &unclosed{w} }},

	// Reopening.
	{name: "dead owner's claim lives on", reopened: func(w *wrong) {
		for k, r := range w.records {
			r.LeaseUntil = time.Now().Add(time.Minute)
			w.records[k] = r
		}
	}},
	{name: "crash forgets letters", reopened: func(w *wrong) { clear(w.letters) }},
	{name: "crash forgets prefixes", reopened: func(w *wrong) { clear(w.prefixes) }},
	{name: "crash forgets fences", reopened: func(w *wrong) {
		for k, r := range w.records {
			if r.State == dedup.Absent {
				delete(w.records, k)
			}
		}
	}},
	{name: "crash forgets who was alone", reopened: func(w *wrong) {
		for k, r := range w.records {
			r.Alone = false
			w.records[k] = r
		}
	}},
	{name: "crash loses outcomes of effects", reopened: func(w *wrong) {
		for k, r := range w.records {
			r = r.Clone()
			for i := range r.Intents {
				r.Intents[i].Outcome = nil
			}
			w.records[k] = r
		}
	}},
}

type noSweep struct{ *wrong }

func (noSweep) Sweep(ctx context.Context, _ int) (dedup.Swept, error) {
	return dedup.Swept{}, ctx.Err()
}

type hoarder struct{ *wrong }

func (h hoarder) Sweep(ctx context.Context, limit int) (dedup.Swept, error) {
	h.mu.Lock()
	letters := maps.Clone(h.letters)
	h.mu.Unlock()
	swept, err := h.wrong.Sweep(ctx, limit)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.letters = letters
	return swept, err
}

type greedy struct{ *wrong }

func (g greedy) Sweep(ctx context.Context, _ int) (dedup.Swept, error) {
	return g.wrong.Sweep(ctx, 1<<30)
}

type still struct{ *wrong }

func (s still) Info() dedup.Info { i := s.wrong.Info(); i.Sequence = 1; return i }

type twice struct{ *wrong }

func (s twice) Scan(ctx context.Context, consumer string) iter.Seq2[dedup.Record, error] {
	return func(yield func(dedup.Record, error) bool) {
		for r, err := range s.wrong.Scan(ctx, consumer) {
			for range 2 {
				if !yield(r, err) {
					return
				}
			}
		}
	}
}

type keyed struct{ *wrong }

func (s keyed) ScanLetters(ctx context.Context, consumer string) iter.Seq2[dedup.Letter, error] {
	return func(yield func(dedup.Letter, error) bool) {
		for l, err := range s.wrong.ScanLetters(ctx, consumer) {
			if (err != nil || !l.Key.OfLetter()) && !yield(l, err) {
				return
			}
		}
	}
}

type unclosed struct{ *wrong }

func (unclosed) Close() error { return nil }
